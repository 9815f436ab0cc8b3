//! Statements that read events.

use super::{Answer, Connection, Tx, postgres, sqlite};
use crate::row::outbox::event::EventRow;
use tidemill_domain::outbox::{EventId, Mark, Slot, Window};

/// The mark and the history of the instant of reading, and what was read.
pub(crate) type ReadNew = (String, Option<String>, Vec<EventRow>);

impl Tx {
    pub(crate) async fn outbox_read_new(
        &mut self,
        from: &Mark,
        stop: Option<&Mark>,
        floor: EventId,
        slots: &[Slot],
        limit: i64,
    ) -> Answer<Option<ReadNew>> {
        on_either!(self, outbox::reading::read_new(from, stop, floor, slots, limit))
    }

    pub(crate) async fn outbox_read_low(&mut self, window: &Window) -> Answer<Option<i64>> {
        on_either!(self, outbox::reading::read_low(window))
    }

    pub(crate) async fn outbox_read_page(
        &mut self,
        window: &Window,
        floor: EventId,
        low: EventId,
        slots: &[Slot],
        limit: i64,
    ) -> Answer<Vec<EventRow>> {
        on_either!(self, outbox::reading::read_page(window, floor, low, slots, limit))
    }

    pub(crate) async fn outbox_slotless(&mut self, limit: i64) -> Answer<Vec<(i64, String)>> {
        on_either!(self, outbox::reading::slotless(limit))
    }

    pub(crate) async fn outbox_set_slots(&mut self, slots: &[(i64, u8)]) -> Answer<()> {
        on_either!(self, outbox::reading::set_slots(slots))
    }
}
