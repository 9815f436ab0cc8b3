//! Rows about what was not read yet.

use crate::codec::{DbText, DbTime};
use tidemill_domain::outbox::Slot;

/// Events of one slot that were not read yet. Where the slot was not filled in yet, those of one aggregate.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct UnreadRow {
    slot: Option<i16>,
    aggregate_id: Option<DbText>,
    pub(crate) rows: i64,
    pub(crate) oldest: DbTime,
}

impl UnreadRow {
    pub(crate) fn slot(&self) -> Option<Slot> {
        match self.slot {
            Some(slot) => u8::try_from(slot).ok().map(Slot::new),
            None => self.aggregate_id.as_ref().map(|id| Slot::of(&id.text)),
        }
    }
}

/// A relay that is alive, with its fixed share if it has one.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub(crate) struct ShareRow {
    pub(crate) instance: Option<i32>,
    pub(crate) total: Option<i32>,
}
