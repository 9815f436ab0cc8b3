//! Statements that read events.

use super::{Answer, Connection, Tx, postgres, sqlite};
use crate::codec::DbText;
use crate::outbox::reading::PAGE_BYTES;
use crate::row::outbox::event::EventRow;
use tidemill_domain::outbox::{EventId, Mark, Slot, Stretch, Window};

/// The mark and the history of the instant of reading, and what was read.
pub(crate) type ReadNew = (String, Option<String>, Vec<EventRow>);

/// How much is read at once: at most so many events, and none behind the one by which they come to more bytes of payloads
/// and headers than this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) events: i64,
    pub(crate) bytes: i64,
    /// What the events are likely to be.
    pub(crate) size: Size,
}

/// Whether so many events have had more bytes than are read at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Most {
    pub(crate) fn of(events: u32, size: Size) -> Self {
        Self { events: events.into(), bytes: i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX), size }
    }
}

/// The lowest and the highest id of what began after the first mark of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) lowest: EventId,
    pub(crate) highest: EventId,
}

impl Tx {
    pub(crate) async fn outbox_read_new(
        &mut self,
        from: &Mark,
        stop: Option<&Mark>,
        floor: EventId,
        slots: &[Slot],
        most: Most,
    ) -> Answer<Option<ReadNew>> {
        on_either!(self, outbox::reading::read_new(from, stop, floor, slots, most))
    }

    pub(crate) async fn outbox_read_span(&mut self, window: &Window) -> Answer<Option<(i64, i64)>> {
        on_either!(self, outbox::reading::read_span(window))
    }

    pub(crate) async fn outbox_read_page(
        &mut self,
        window: &Window,
        span: Span,
        stretch: Stretch,
        slots: &[Slot],
        most: Most,
    ) -> Answer<Vec<EventRow>> {
        on_either!(self, outbox::reading::read_page(window, span, stretch, slots, most))
    }

    pub(crate) async fn outbox_slotless(&mut self, limit: i64) -> Answer<Vec<(i64, DbText)>> {
        on_either!(self, outbox::reading::slotless(limit))
    }

    pub(crate) async fn outbox_set_slots(&mut self, slots: &[(i64, u8)]) -> Answer<()> {
        on_either!(self, outbox::reading::set_slots(slots))
    }
}
