//! Repeating a request has one effect and one answer: the key and the answer are stored in the transaction of the
//! effect.

use crate::error::Result;
use crate::tx::Idempotency;
use std::time::Duration;

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
