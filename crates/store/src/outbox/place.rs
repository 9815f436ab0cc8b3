//! The positions of all slots.

use super::relay::cursors_of;
use crate::error::{Result, StoreError};
use crate::statement::stored;
use crate::tx::Outbox;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidemill_domain::outbox::{Cursor, EventId, Place, RelayId, Window};

impl Outbox<'_> {
    /// In order. In a transaction that writes, a slot may move between two statements; then this returns the earlier
    /// position. Slots of a relay with a damaged row are where they were before it took them.
    #[crate::boxed]
    pub async fn places(&mut self) -> Result<Vec<Place>> {
        let slots = self.outbox_slots().await?;
        let rows = self.outbox_cursors().await?;
        let relays: BTreeMap<RelayId, Vec<Cursor>> = rows
            .iter()
            .filter_map(|(id, text)| Some(((*id).into(), cursors_of(text, (*id).into()).ok()?)))
            .collect();
        let place = |left: Place| match left.owner.and_then(|owner| relays.get(&owner)) {
            Some(cursors) => left.as_read(cursors),
            None => left,
        };
        Ok(slots.into_iter().map(place).collect())
    }

    /// Relays with slots whose row is damaged; no other relay gets these slots until an operator repairs it.
    pub async fn damaged_relays(&mut self) -> Result<Vec<StoreError>> {
        let rows = self.outbox_cursors().await?;
        Ok(rows.iter().filter_map(|(id, text)| cursors_of(text, (*id).into()).err()).collect())
    }

    /// Events up to this id were read or have failed, whatever the snapshots say.
    pub async fn floor(&mut self) -> Result<EventId> {
        Ok(self.outbox_row().await?.floor)
    }
}

stored! {
    impl Place in ("tidemill_outbox_slot", "slot") |row| { slot, epoch, owner, window => row.json("place")?, seq }
}

/// The positions of slots, for statements that compare them with events.
pub(crate) struct PlaceRows {
    /// A list of objects. `seen` is the snapshot of which everything was read, `paged` the one of which everything up
    /// to the id `last` was read, and `up_to` the same as one number, where there is one writer at a time.
    pub(crate) json: String,
    /// Events up to this id were read, or have failed.
    pub(crate) floor: i64,
}

impl PlaceRows {
    pub(crate) fn new(places: &[Place], floor: EventId) -> Self {
        let rows = places.iter().map(|place| {
            let Window { from, to, last, high, .. } = &place.window;
            json!({
                "slot": place.slot.get(), "seen": from.to_string(), "paged": to.as_ref().map(ToString::to_string),
                "last": last.get(), "high": high.get(), "seq": place.seq.get(), "up_to": place.read_up_to().get(),
            })
        });
        Self { json: Value::from_iter(rows).to_string(), floor: floor.get() }
    }
}
