//! Where all slots stand.

use crate::error::StoreError;
use crate::tx::Outbox;
use std::collections::BTreeMap;
use tidemill_domain::outbox::{Cursor, EventId, Place, RelayId};

impl Outbox<'_> {
    /// Where all slots stand, in their order. In a transaction that writes, a slot may move between two looks; what is
    /// said of it then is from before. Slots of a relay whose row is damaged stand where they were before it had them.
    pub async fn places(&mut self) -> Result<Vec<Place>, StoreError> {
        let slots = self.outbox_slots().await?;
        let rows = self.outbox_cursors().await?;
        let relays: BTreeMap<RelayId, Vec<Cursor>> =
            rows.iter().filter_map(|row| Some((row.relay(), row.cursors().ok()?))).collect();
        let place = |row| {
            let left = Place::try_from(row)?;
            Ok(match left.owner.and_then(|owner| relays.get(&owner)) {
                Some(cursors) => left.as_read(cursors),
                None => left,
            })
        };
        slots.into_iter().map(place).collect()
    }

    /// What is wrong with relays that have slots: nobody else gets these until somebody sets it right.
    pub async fn damaged_relays(&mut self) -> Result<Vec<StoreError>, StoreError> {
        let rows = self.outbox_cursors().await?;
        Ok(rows.iter().filter_map(|row| row.cursors().err()).collect())
    }

    /// The id up to which marks mean nothing: those events were read, or are excepted.
    pub async fn floor(&mut self) -> Result<EventId, StoreError> {
        Ok(self.outbox_row().await?.floor())
    }
}
