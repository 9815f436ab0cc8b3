//! Rows about where slots stand.

use super::relay::cursors_of;
use super::{SLOT, own_slot};
use crate::codec::DbId;
use crate::error::StoreError;
use crate::row::damaged;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{Cursor, EventId, Place, RelayId, Seq};

/// A slot, and where it was left.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct SlotRow {
    slot: i16,
    epoch: i64,
    owner: Option<DbId>,
    place: String,
    seq: i64,
}

impl TryFrom<SlotRow> for Place {
    type Error = StoreError;

    fn try_from(row: SlotRow) -> Result<Self, StoreError> {
        Ok(Self {
            slot: own_slot(row.slot)?,
            epoch: Epoch::new(row.epoch),
            owner: row.owner.map(|owner| RelayId::new(owner.0)),
            window: serde_json::from_str(&row.place).map_err(|_| damaged(SLOT, "place", row.slot))?,
            seq: Seq::new(row.seq),
        })
    }
}

/// How far a relay has read.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct CursorsRow {
    id: DbId,
    cursors: String,
}

impl CursorsRow {
    pub(crate) fn relay(&self) -> RelayId {
        self.id.into()
    }

    pub(crate) fn cursors(&self) -> Result<Vec<Cursor>, StoreError> {
        cursors_of(&self.cursors, self.relay())
    }
}

/// Where slots stand, column by column, for statements that compare all of them with events.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaceColumns {
    pub(crate) slot: Vec<i16>,
    /// All that this mark sees was read.
    pub(crate) seen: Vec<String>,
    /// What this mark sees was read up to the last id.
    pub(crate) paged: Vec<Option<String>>,
    pub(crate) last: Vec<i64>,
    pub(crate) high: Vec<i64>,
    pub(crate) seq: Vec<i64>,
    /// The same in one number, where there is one writer at a time.
    pub(crate) up_to: Vec<i64>,
    /// Events up to this id were read, or are excepted.
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

    /// Slots with their numbers as the text of a list, for `json_each`.
    pub(crate) fn as_json(&self) -> String {
        let pairs = self.slot.iter().zip(&self.up_to).map(|(slot, up_to)| serde_json::json!([slot, up_to]));
        serde_json::Value::from_iter(pairs).to_string()
    }
}
