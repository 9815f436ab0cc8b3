//! Receipts of sinks with transactions: which of the events that they name are settled in the database.

use super::slot_of;
use crate::error::{Result, damaged};
use crate::tx::Outbox;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::outbox::receipt::{Receipted, may_come_again};
use tidemill_domain::outbox::{Cursor, EventId, Slot, Window};

impl Outbox<'_> {
    /// Those of these published events that a reader at these cursors, or a retry, may send once more. Events no longer
    /// in their table are left out.
    #[crate::boxed]
    pub async fn unsettled(&mut self, ids: &[EventId], cursors: &[Cursor]) -> Result<BTreeSet<EventId>> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let numbers: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let floor = self.floor().await?;
        let windows: BTreeMap<Slot, &Window> = cursors
            .iter()
            .flat_map(|cursor| cursor.slots.keys().map(|slot| (*slot, &cursor.window)))
            .collect();
        let mut unsettled = BTreeSet::new();
        for (id, xid, slot) in self.outbox_event_places(&numbers).await? {
            // `None` on SQLite before any relay has looked; then it cannot have been published.
            let Some(slot) = slot else { continue };
            let slot = slot_of(slot).ok_or_else(|| damaged("outbox_event", "slot", id))?;
            let event = Receipted { id: EventId::new(id), xid: xid.0, slot };
            if may_come_again(event, windows.get(&event.slot).copied(), floor) {
                unsettled.insert(event.id);
            }
        }
        for row in self.failed_events_known(&numbers).await? {
            if row.failed_event.state.is_open() {
                unsettled.insert(EventId::new(row.event_id));
            }
        }
        Ok(unsettled)
    }
}
