//! Where all slots stand.

use crate::error::StoreError;
use crate::tx::Tx;
use std::collections::BTreeMap;
use tidemill_domain::outbox::{EventId, Place};

impl Tx {
    /// Where all slots stand, in their order. In a transaction that writes, a slot may move between two looks; what is
    /// said of it then is from before.
    pub async fn outbox_places(&mut self) -> Result<Vec<Place>, StoreError> {
        let slots = self.outbox_slots().await?;
        let rows = self.outbox_cursors().await?;
        let relays = rows.iter().map(|row| row.cursors()).collect::<Result<BTreeMap<_, _>, _>>()?;
        let place = |row| {
            let left = Place::try_from(row)?;
            Ok(match left.owner.and_then(|owner| relays.get(&owner)) {
                Some(cursors) => left.as_read(cursors),
                None => left,
            })
        };
        slots.into_iter().map(place).collect()
    }

    /// The id up to which marks mean nothing: those events were read, or are excepted.
    pub async fn outbox_floor(&mut self) -> Result<EventId, StoreError> {
        Ok(self.outbox_row().await?.floor())
    }
}
