//! The positions of all slots.

use super::relay::cursors_of;
use crate::error::{Result, StoreError};
use crate::statement::{Columns, Stored};
use crate::tx::Outbox;
use std::collections::BTreeMap;
use tidemill_domain::outbox::{Cursor, EventId, Place, RelayId};

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

impl Stored for Place {
    const PLACE: (&'static str, &'static str) = ("tidemill_outbox_slot", "slot");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            slot: row.get("slot")?,
            epoch: row.get("epoch")?,
            owner: row.get("owner")?,
            window: row.json("place")?,
            seq: row.get("seq")?,
        })
    }
}

/// The positions of slots, column by column, for statements that compare them with events.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaceColumns {
    pub(crate) slot: Vec<i16>,
    /// Everything visible in this snapshot was read.
    pub(crate) seen: Vec<String>,
    /// Of this snapshot, everything up to the last id was read.
    pub(crate) paged: Vec<Option<String>>,
    pub(crate) last: Vec<i64>,
    pub(crate) high: Vec<i64>,
    pub(crate) seq: Vec<i64>,
    /// The same as one number, where there is one writer at a time.
    pub(crate) up_to: Vec<i64>,
    /// Events up to this id were read, or have failed.
    pub(crate) floor: i64,
}

impl PlaceColumns {
    pub(crate) fn new(places: &[Place], floor: EventId) -> Self {
        let mut columns = Self { floor: floor.get(), ..Self::default() };
        for place in places {
            columns.slot.push(place.slot.get().into());
            columns.seen.push(place.window.from.to_string());
            columns.paged.push(place.window.to.as_ref().map(ToString::to_string));
            columns.last.push(place.window.last.get());
            columns.high.push(place.window.high.get());
            columns.seq.push(place.seq.get());
            columns.up_to.push(place.read_up_to().get());
        }
        columns
    }

    /// For `json_each`.
    pub(crate) fn as_json(&self) -> String {
        let pairs = self.slot.iter().zip(&self.up_to).map(|(slot, up_to)| serde_json::json!([slot, up_to]));
        serde_json::Value::from_iter(pairs).to_string()
    }
}
