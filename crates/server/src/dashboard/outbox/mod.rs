//! The outbox page and the pages of failed events.
//!
//! Reading order: `page` (statistics and the whole page), `slot` (owners of the 256 slots), `failed_event`.

pub(crate) mod failed_event;
pub(crate) mod page;

mod slot;
