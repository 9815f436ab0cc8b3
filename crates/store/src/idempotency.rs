//! Repeating a request has one effect and one answer: key and answer are stored in the transaction of the effect.

use crate::codec::hex;
use crate::error::Result;
use crate::statement::{Rows, rows, statements};
use crate::tx::Idempotency;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::pool::command::RequestKey;
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

    /// Claims the keys of many requests, each with a number of its own, for changes that are idempotent by themselves: no
    /// answer is saved. Returns the numbers of requests whose key belongs to another one.
    pub(crate) async fn claim_all(
        &mut self,
        keys: &[(usize, &RequestKey)],
        now: Timestamp,
    ) -> Result<BTreeSet<usize>> {
        if keys.is_empty() {
            return Ok(BTreeSet::new());
        }
        self.idempotency_prune(now.minus(KEEP_ANSWERS)).await?;
        if self.idempotency_claim_all(keys, now).await? == keys.len() as u64 {
            return Ok(BTreeSet::new());
        }
        let others = self.idempotency_of_others(keys).await?;
        Ok(others.into_iter().filter_map(|number| usize::try_from(number).ok()).collect())
    }

    /// Gives up the keys of requests that failed, as far as they were claimed at `now`: an earlier call with the same key
    /// succeeded.
    pub(crate) async fn free_all(&mut self, keys: &[(usize, &RequestKey)], now: Timestamp) -> Result<()> {
        if !keys.is_empty() {
            self.idempotency_free(keys, now).await?;
        }
        Ok(())
    }
}

fn key_rows(keys: &[(usize, &RequestKey)]) -> Rows {
    rows(
        keys,
        |(number, RequestKey { caller, key, fingerprint })| json!({ "number": number, "caller": caller, "key": key, "fingerprint": hex(fingerprint) }),
    )
}

statements! {
    /// Waits for a transaction that claims the same key; no row then means that it was answered.
    fn idempotency_claim(caller: &str, key: &str, fingerprint: &[u8], now: Timestamp) -> u64 {
        "insert into tidemill_idempotency (caller, key, fingerprint, status, body, created_at)
         values ($1, $2, $3, 0, '', $4)
         on conflict (caller, key) do nothing"
    }

    /// Of two requests with the same key, the first one gets it. Waits for transactions that claim the same keys; in their
    /// order, so that two do not wait for each other.
    fn idempotency_claim_all(keys: &[(usize, &RequestKey)], now: Timestamp) -> u64 {
        bind(key_rows(keys), now)
        "insert into tidemill_idempotency (caller, key, fingerprint, status, body, created_at)
         select caller, key, {bytes fingerprint}, 0, '', $2
         from {rows new $1: number bigint, caller text, key text, fingerprint text}
         where true
         order by caller, key, number
         on conflict (caller, key) do nothing"
    }

    /// Requests whose key is claimed with another fingerprint.
    fn idempotency_of_others(keys: &[(usize, &RequestKey)]) -> Vec<i64> {
        bind(key_rows(keys))
        "select asked.number
         from {rows asked $1: number bigint, caller text, key text, fingerprint text}
         join tidemill_idempotency known on known.caller = asked.caller and known.key = asked.key
         where known.fingerprint <> {bytes asked.fingerprint}"
    }

    fn idempotency_free(keys: &[(usize, &RequestKey)], claimed_at: Timestamp) -> () {
        bind(key_rows(keys), claimed_at)
        "delete from tidemill_idempotency
         where status = 0 and created_at = $2 and (caller, key) in (select caller, key from {rows freed $1: caller text, key text})"
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
