//! The outbox: what is still to be published and who does it, and the events that were not taken.
//!
//! Reading order: `overview` (what is known), `page` (the whole), `slot` (who has which of the 256), `relay` and
//! `attached` (who publishes, and what else), `failed_event` (what was not taken, and what is done about it).

pub(crate) mod failed_event;
pub(crate) mod overview;
pub(crate) mod page;

mod attached;
mod relay;
mod slot;
