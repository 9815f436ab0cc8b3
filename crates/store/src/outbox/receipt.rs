//! Receipts of sinks with transactions: which of the events that they name the database knows to be published.

use crate::error::StoreError;
use crate::tx::Outbox;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::outbox::receipt::may_come_again;
use tidemill_domain::outbox::{Cursor, EventId, Slot, Window};

impl Outbox<'_> {
    /// Those of these published events that may be sent once more by whoever reads on from these cursors, or tries again
    /// what is excepted. What is no longer in its table is not among them.
    pub async fn unsettled(
        &mut self,
        ids: &[EventId],
        cursors: &[Cursor],
    ) -> Result<BTreeSet<EventId>, StoreError> {
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
        for row in self.outbox_event_places(&numbers).await? {
            let Some(event) = row.receipted()? else { continue };
            if may_come_again(event, windows.get(&event.slot).copied(), floor) {
                unsettled.insert(event.id);
            }
        }
        for row in self.exception_standing(&numbers).await? {
            if row.exception()?.state.is_open() {
                unsettled.insert(EventId::new(row.event_id));
            }
        }
        Ok(unsettled)
    }
}
