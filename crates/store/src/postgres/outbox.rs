//! Statements on the outbox.

pub(crate) mod audit;
pub(crate) mod detail;
pub(crate) mod event;
pub(crate) mod exception;
pub(crate) mod lag;
pub(crate) mod notice;
pub(crate) mod partition;
pub(crate) mod place;
pub(crate) mod reading;
pub(crate) mod relay;
pub(crate) mod restore;
pub(crate) mod retention;

use tidemill_domain::outbox::Slot;

/// Slots as an array of the server.
pub(crate) fn numbers(slots: &[Slot]) -> Vec<i16> {
    slots.iter().map(|slot| i16::from(slot.get())).collect()
}
