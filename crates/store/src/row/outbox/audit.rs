//! Rows of the outbox as its audit reads them.

use super::{EVENT, EXCEPTION, slot_of};
use crate::codec::DbText;
use crate::error::StoreError;
use crate::outbox::audit::AuditedException;
use crate::row::damaged;
use tidemill_domain::outbox::{Aggregate, EventId, Seq, Slot};

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AuditExceptionRow {
    event_id: i64,
    slot: i16,
    seq: i64,
    state: String,
}

impl TryFrom<AuditExceptionRow> for AuditedException {
    type Error = StoreError;

    fn try_from(row: AuditExceptionRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: EventId::new(row.event_id),
            slot: slot_of(row.slot, EXCEPTION, row.event_id)?,
            seq: Seq::new(row.seq),
            excuse: row.state.parse().map_err(|_| damaged(EXCEPTION, "state", row.event_id))?,
        })
    }
}

/// An event without what it says. On SQLite the slot may not be filled in yet; then the id of the aggregate is there.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AuditEventRow {
    pub(crate) id: i64,
    pub(crate) xid: i64,
    slot: Option<i16>,
    aggregate_id: Option<DbText>,
}

impl AuditEventRow {
    pub(crate) fn slot(&self) -> Result<Slot, StoreError> {
        let stored = self.slot.and_then(|slot| u8::try_from(slot).ok()).map(Slot::new);
        let computed = || self.aggregate_id.as_ref().map(|id| Slot::of(&id.text));
        stored.or_else(computed).ok_or_else(|| damaged(EVENT, "slot", self.id))
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AuditNameRow {
    id: i64,
    aggregate_type: DbText,
    aggregate_id: DbText,
}

impl From<AuditNameRow> for (EventId, Aggregate) {
    fn from(row: AuditNameRow) -> Self {
        (EventId::new(row.id), Aggregate { kind: row.aggregate_type.text, id: row.aggregate_id.text })
    }
}
