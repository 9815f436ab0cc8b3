//! The outbox: what is still to be published and who does it, and the events that were not taken.
//!
//! Reading order: `standing` (what is known), `page` (the whole), `slot` (who has which of the 256), `relay` and
//! `adopted` (who publishes, and what else), `dead` (what was not taken, and what is done about it), `live` (what
//! changes by itself).

pub(crate) mod dead;
pub(crate) mod live;
pub(crate) mod page;

mod adopted;
mod overview;
mod relay;
mod slot;
