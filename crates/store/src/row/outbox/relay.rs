//! Rows of relays and slots.

use super::{EVENT, RELAY, SLOT, own_slot};
use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::row::damaged;
use serde::Deserialize;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::cursor::Cursor;
use tidemill_domain::outbox::relay::transactional_id;
use tidemill_domain::outbox::{Effort, Instance, LiveRelay, Mark, RelayId, Seq, Slot, Window};
use tidemill_domain::time::Timestamp;

impl From<RelayId> for DbId {
    fn from(id: RelayId) -> Self {
        Self(id.as_uuid())
    }
}

impl From<DbId> for RelayId {
    fn from(stored: DbId) -> Self {
        Self::new(stored.0)
    }
}

pub(crate) fn cursors_of(text: &str, relay: RelayId) -> Result<Vec<Cursor>, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::DamagedRelay { relay })
}

pub(crate) fn cursors_text(cursors: &[Cursor]) -> Result<String, StoreError> {
    serde_json::to_string(cursors).map_err(|_| damaged(RELAY, "cursors", "to be written"))
}

pub(crate) fn window_text(window: &Window) -> Result<String, StoreError> {
    serde_json::to_string(window).map_err(|_| damaged(SLOT, "place", "to be written"))
}

#[derive(Clone, Debug)]
pub(crate) struct JoinRow<'a> {
    pub(crate) id: DbId,
    pub(crate) process: DbId,
    pub(crate) name: &'a str,
    pub(crate) host: &'a str,
    pub(crate) pid: i64,
    pub(crate) sink: &'a str,
    pub(crate) instance: Option<i64>,
    pub(crate) total: Option<i64>,
    pub(crate) joined_at: DbTime,
    pub(crate) until: DbTime,
}

/// What a relay has asked of the database, as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffortColumns {
    pub(crate) polls: i64,
    pub(crate) empty_polls: i64,
    pub(crate) queries: i64,
}

impl From<Effort> for EffortColumns {
    fn from(effort: Effort) -> Self {
        let column = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            polls: column(effort.polls),
            empty_polls: column(effort.empty_polls),
            queries: column(effort.queries),
        }
    }
}

/// A relay that has not ended, as lists have it.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct RelayRow {
    pub(crate) id: DbId,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: i64,
    pub(crate) sink: String,
    pub(crate) instance: Option<i64>,
    pub(crate) total: Option<i64>,
    pub(crate) joined_at: DbTime,
    pub(crate) until: DbTime,
    pub(crate) slots: i64,
}

impl RelayRow {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        now < Timestamp::from(self.until)
    }
}

impl TryFrom<RelayRow> for LiveRelay {
    type Error = StoreError;

    fn try_from(row: RelayRow) -> Result<Self, StoreError> {
        let id = RelayId::from(row.id);
        let small = |number: i64| u32::try_from(number).map_err(|_| damaged(RELAY, "instance", id));
        let instance =
            Instance::from_settings(row.instance.map(small).transpose()?, row.total.map(small).transpose()?)
                .map_err(|_| damaged(RELAY, "instance", id))?;
        Ok(Self {
            id,
            name: row.name,
            host: row.host,
            pid: u32::try_from(row.pid).map_err(|_| damaged(RELAY, "pid", id))?,
            instance,
            transactional_id: transactional_id(&row.sink).map(str::to_owned),
            joined_at: row.joined_at.into(),
            slots: usize::try_from(row.slots).unwrap_or_default(),
        })
    }
}

/// What one look sees; lists are JSON, because it is one row.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct LookRow {
    pub(crate) acks: Option<i64>,
    pub(crate) now: DbTime,
    pub(crate) mark: String,
    pub(crate) timeline: Option<String>,
    pub(crate) floor_id: i64,
    pub(crate) relays: String,
    pub(crate) free: String,
    pub(crate) has_events: bool,
    pub(crate) is_due: bool,
    pub(crate) adopted: String,
}

#[derive(Deserialize)]
struct LookedRelay {
    id: String,
    name: String,
    host: String,
    pid: i64,
    sink: String,
    instance: Option<i64>,
    total: Option<i64>,
    joined_micros: i64,
    until_micros: i64,
    slots: i64,
}

impl LookRow {
    pub(crate) fn mark(&self) -> Result<Mark, StoreError> {
        self.mark.parse().map_err(|_| damaged(EVENT, "xid", &self.mark))
    }

    pub(crate) fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        let looked: Vec<LookedRelay> =
            serde_json::from_str(&self.relays).map_err(|_| damaged(RELAY, "name", "of a look"))?;
        let row = |relay: LookedRelay| {
            Ok(RelayRow {
                id: DbId(relay.id.parse().map_err(|_| damaged(RELAY, "id", &relay.id))?),
                name: relay.name,
                host: relay.host,
                pid: relay.pid,
                sink: relay.sink,
                instance: relay.instance,
                total: relay.total,
                joined_at: DbTime(Timestamp::from_micros(relay.joined_micros)),
                until: DbTime(Timestamp::from_micros(relay.until_micros)),
                slots: relay.slots,
            })
        };
        looked.into_iter().map(row).collect()
    }

    pub(crate) fn free(&self) -> Result<Vec<Slot>, StoreError> {
        let free: Vec<i16> =
            serde_json::from_str(&self.free).map_err(|_| damaged(SLOT, "slot", "of a look"))?;
        free.into_iter().map(own_slot).collect()
    }
}

/// A slot that nobody has.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct FreeSlotRow {
    slot: i16,
    epoch: i64,
    place: String,
    seq: i64,
}

impl FreeSlotRow {
    pub(crate) fn slot(&self) -> Result<Slot, StoreError> {
        own_slot(self.slot)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch)
    }

    pub(crate) fn seq(&self) -> Seq {
        Seq::new(self.seq)
    }

    pub(crate) fn window(&self) -> Result<Window, StoreError> {
        serde_json::from_str(&self.place).map_err(|_| damaged(SLOT, "place", self.slot))
    }
}

/// Where a slot is left.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct LeftRow {
    pub(crate) slot: i16,
    pub(crate) place: String,
    pub(crate) seq: i64,
}
