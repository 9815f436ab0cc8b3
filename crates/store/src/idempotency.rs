//! Repeating a request has one effect and one answer: key and answer are stored in the transaction of the effect.

use crate::error::Result;
use crate::statement::statements;
use crate::tx::Idempotency;
use std::time::Duration;
use tidemill_domain::time::Timestamp;

pub const KEEP_ANSWERS: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The key is new and now claimed: do the work, then
    /// [`Idempotency::save_answer`](crate::tx::Idempotency::save_answer).
    New,
    Answered {
        status: u16,
        body: String,
    },
    /// The key was used for another request.
    Mismatch,
}

impl Idempotency<'_> {
    /// `fingerprint` is a hash of the whole request.
    #[crate::boxed]
    pub async fn claim(&mut self, caller: &str, key: &str, fingerprint: &[u8]) -> Result<Claim> {
        let now = self.now().await?;
        self.idempotency_prune(now.minus(KEEP_ANSWERS)).await?;
        if self.idempotency_claim(caller, key, fingerprint, now).await? == 1 {
            return Ok(Claim::New);
        }
        Ok(match self.idempotency_by_key(caller, key).await? {
            Some((known, status, body)) if known == fingerprint => {
                Claim::Answered { status: u16::try_from(status).unwrap_or(500), body }
            }
            Some(_) => Claim::Mismatch,
            None => Claim::New,
        })
    }
}

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
