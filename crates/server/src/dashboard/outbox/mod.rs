//! The outbox: what is still to be published and who does it, and the events that were not taken.
//!
//! Reading order: `standing` (what is known), `page` (the whole), `slot` (who has which of the 256), `relay` and
//! `attached` (who publishes, and what else), `failed_event` (what was not taken, and what is done about it), `live` (what
//! changes by itself).

pub(crate) mod failed_event;
pub(crate) mod live;
pub(crate) mod page;

mod attached;
mod overview;
mod relay;
mod slot;
