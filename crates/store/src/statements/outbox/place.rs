//! Statements on where slots stand.

use crate::row::outbox::place::{CursorsRow, SlotRow};
use crate::statement::statements;

statements! {
    /// All slots, and where each was left.
    fn outbox_slots() -> Vec<SlotRow> {
        "select slot, epoch, owner, place, seq
         from tidemill_outbox_slot
         order by slot"
    }

    /// How far each relay has read that has slots.
    fn outbox_cursors() -> Vec<CursorsRow> {
        "select id, cursors
         from tidemill_outbox_relay
         where id in (select owner from tidemill_outbox_slot)"
    }
}
