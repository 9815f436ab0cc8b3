//! Rows about what is not out yet.

use crate::codec::{DbText, DbTime};
use crate::error::StoreError;
use crate::row::damaged;
use tidemill_domain::outbox::Slot;
use tidemill_domain::outbox::exception::StateWord;

const EXCEPTION: &str = "tidemill_outbox_exception";

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

/// Events of one slot that were read and not taken, in one state.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ExceptedRow {
    state: String,
    slot: i16,
    pub(crate) rows: i64,
    /// When the first of them was written; none when it is no longer in its table.
    pub(crate) oldest: Option<DbTime>,
}

impl ExceptedRow {
    pub(crate) fn state(&self) -> Result<StateWord, StoreError> {
        self.state.parse().map_err(|_| damaged(EXCEPTION, "state", &self.state))
    }

    pub(crate) fn slot(&self) -> Result<Slot, StoreError> {
        u8::try_from(self.slot).map(Slot::new).map_err(|_| damaged(EXCEPTION, "slot", self.slot))
    }
}
