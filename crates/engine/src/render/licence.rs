//! After Effects licences as units of a pool: a render holds some while a node may be rendering it.
//!
//! The holder is one claim of a render, so cleaning up after a lost claim never releases the units of the next one.

use crate::pool::{AcquirePart, AcquireRequest, Hold, PoolError, Pools};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::pool::command::{Answer, Release};
use tidemill_domain::pool::{End, Holder, PoolName, Reason, ReleaseBy};
use tidemill_domain::render::Uid;

/// Prefix of the holder's name.
const HOLDER: &str = "render";

/// The pool that counts licences, and the units per render.
#[derive(Clone, Debug)]
pub struct Licence {
    pub pools: Pools,
    pub pool: PoolName,
    pub units: NonZeroU32,
}

#[derive(Debug)]
pub(super) enum NoLicence {
    Busy,
    /// Permanent, until the pool or the configuration changes.
    Refused(Code, String),
    Failed(PoolError),
}

impl Licence {
    /// Waits in the queue of the pool for at most `wait`.
    pub(super) async fn hold(&self, claim: Uid, wait: Duration) -> Result<Hold, NoLicence> {
        let part =
            AcquirePart { least: Some(self.units), ..AcquirePart::new(self.pool.clone(), Some(self.units)) };
        let mut ask = AcquireRequest::new(holder(claim), part);
        // Estimates are based on earlier renders.
        ask.table = HOLDER.to_owned();
        match self.pools.hold(ask, wait).await {
            Ok(Ok(hold)) => Ok(hold),
            Ok(Err(Answer::Refused { reason: Reason::UnknownPool, .. })) => {
                Err(NoLicence::Refused(Code::PoolNotFound, format!("there is no pool {}", self.pool)))
            }
            Ok(Err(Answer::Refused { reason, .. })) => {
                let text = format!("pool {}: {}", self.pool, reason.sentence());
                Err(NoLicence::Refused(Code::RequestExceedsPool, text))
            }
            Ok(Err(_)) => {
                self.leave(claim).await;
                Err(NoLicence::Busy)
            }
            Err(error) => {
                self.leave(claim).await;
                Err(NoLicence::Failed(error))
            }
        }
    }

    /// Leaves the queue, and releases units granted at the last moment or left by a worker that disappeared.
    pub(super) async fn leave(&self, claim: Uid) {
        let release = Release {
            pool: self.pool.clone(),
            by: ReleaseBy::Holder(holder(claim)),
            epoch: None,
            end: End::Released { failed: true },
            call: None,
        };
        if let Err(error) = self.pools.release(release).await {
            let render = claim.render();
            tracing::warn!(%error, render.id = %render, "units of render {render} could not be given back to pool {}; they lapse by themselves", self.pool);
        }
    }
}

fn holder(claim: Uid) -> Holder {
    Holder::new(HOLDER, &claim.to_string(), "", -1).expect("the name is short and plain")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::render::RenderId;

    #[test]
    fn who_lost_a_render_cannot_give_back_what_the_next_claim_has() {
        let claim = |epoch| holder(Uid::new(RenderId::new(7), Epoch::new(epoch)));

        assert_ne!(claim(1), claim(2));
    }
}
