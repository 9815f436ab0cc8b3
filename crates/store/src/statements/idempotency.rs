//! Statements on `tidemill_idempotency`.

use crate::statement::statements;
use tidemill_domain::time::Timestamp;

statements! {
    /// Waits for a transaction that claims the same key; no row then means that it was answered.
    fn idempotency_claim(caller: &str, key: &str, fingerprint: &[u8], now: Timestamp) -> u64 {
        "insert into tidemill_idempotency (caller, key, fingerprint, status, body, created_at)
         values ($1, $2, $3, 0, '', $4)
         on conflict (caller, key) do nothing"
    }

    /// The request's fingerprint, and the answer.
    fn idempotency_by_key(caller: &str, key: &str) -> Option<(Vec<u8>, i32, String)> {
        "select fingerprint, status, body from tidemill_idempotency where caller = $1 and key = $2"
    }

    pub fn Idempotency::save_answer(caller: &str, key: &str, status: u16, body: &str) -> () {
        "update tidemill_idempotency set status = $3, body = $4 where caller = $1 and key = $2"
    }

    fn idempotency_prune(created_before: Timestamp) -> u64 {
        "delete from tidemill_idempotency where created_at < $1"
    }
}
