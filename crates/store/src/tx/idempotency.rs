//! Statements on idempotency keys.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::row::IdempotencyRow;
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn idempotency_claim(&mut self, row: &IdempotencyRow) -> Answer<u64> {
        on_either!(self, idempotency::claim(row))
    }

    pub(crate) async fn idempotency_by_key(
        &mut self,
        caller: &str,
        key: &str,
    ) -> Answer<Option<IdempotencyRow>> {
        on_either!(self, idempotency::by_key(caller, key))
    }

    pub(crate) async fn idempotency_save_answer(
        &mut self,
        caller: &str,
        key: &str,
        status: i32,
        body: &str,
    ) -> Answer<()> {
        on_either!(self, idempotency::save_answer(caller, key, status, body))
    }

    pub(crate) async fn idempotency_prune(&mut self, created_before: DbTime) -> Answer<u64> {
        on_either!(self, idempotency::prune(created_before))
    }
}
