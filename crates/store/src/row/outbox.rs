//! Rows of the outbox: one file for each noun; here the tables, and how slots are stored.

pub(crate) mod adopted;
pub(crate) mod audit;
pub(crate) mod detail;
pub(crate) mod event;
pub(crate) mod exception;
pub(crate) mod lag;
pub(crate) mod partition;
pub(crate) mod place;
pub(crate) mod relay;
pub(crate) mod restore;

use super::damaged;
use crate::error::StoreError;
use tidemill_domain::outbox::Slot;

const EVENT: &str = "outbox_event";
const EXCEPTION: &str = "tidemill_outbox_exception";
const RELAY: &str = "tidemill_outbox_relay";
const SLOT: &str = "tidemill_outbox_slot";

/// Slots as they are stored.
pub(crate) fn numbers(slots: &[Slot]) -> Vec<i16> {
    slots.iter().map(|slot| i16::from(slot.get())).collect()
}

/// A slot, as it is stored in this row.
fn slot_of(slot: i16, table: &'static str, row: impl ToString) -> Result<Slot, StoreError> {
    u8::try_from(slot).map(Slot::new).map_err(|_| damaged(table, "slot", row))
}

/// A slot, as it is stored in the table of slots.
pub(crate) fn own_slot(slot: i16) -> Result<Slot, StoreError> {
    slot_of(slot, SLOT, slot)
}
