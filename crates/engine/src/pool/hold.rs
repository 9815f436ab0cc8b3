//! Units that this process uses itself, with heartbeats until they are released.

use super::{AcquireRequest, PoolError, Pools};
use crate::Service;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::pool::End;
use tidemill_domain::pool::command::{Admitted, Answer, Release, ReleaseBy};
use tokio::task::JoinHandle;

/// How long the units of a dead process are kept.
const LEASE: Duration = Duration::from_secs(60);

const TRIES: u32 = 120;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// Units in use. Released by [`release`](Self::release), or a little later after a drop.
#[derive(Debug)]
pub struct Hold {
    pools: Pools,
    parts: Vec<Admitted>,
    lost: Arc<AtomicBool>,
    beating: JoinHandle<()>,
}

impl Pools {
    /// Acquires units and keeps them alive; any other answer is the error.
    #[crate::boxed]
    pub async fn hold(
        &self,
        mut ask: AcquireRequest,
        wait: Duration,
    ) -> Result<Result<Hold, Answer>, PoolError> {
        let lease = *ask.lease_for.get_or_insert(LEASE);
        match self.acquire(&ask, wait).await? {
            Answer::Admitted { parts, .. } => {
                let (pools, lost) = (self.clone(), Arc::default());
                let beating = tokio::spawn(beat(self.clone(), parts.clone(), lease / 4, Arc::clone(&lost)));
                Ok(Ok(Hold { pools, parts, lost, beating }))
            }
            other => Ok(Err(other)),
        }
    }
}

impl Hold {
    pub fn parts(&self) -> &[Admitted] {
        &self.parts
    }

    /// Whether the units were taken back meanwhile.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub async fn release(self, failed: bool) -> Result<(), PoolError> {
        self.end(End::Released { failed }).await
    }

    /// Releases the units with what the holder reports.
    #[crate::boxed]
    pub async fn end(mut self, end: End) -> Result<(), PoolError> {
        self.beating.abort();
        // In a task, so that cancelling the caller does not stop it.
        let (pools, parts) = (self.pools.clone(), std::mem::take(&mut self.parts));
        let giving_back = tokio::spawn(async move { give_back(&pools, &parts, &end).await });
        giving_back.await.unwrap_or(Err(PoolError::Ending))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.beating.abort();
        let (pools, parts) = (self.pools.clone(), std::mem::take(&mut self.parts));
        // Without parts it was released.
        if !parts.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Err(error) = give_back(&pools, &parts, &End::Released { failed: true }).await {
                    tracing::warn!(%error, "units could not be given back; they lapse by themselves");
                }
            });
        }
    }
}

async fn give_back(pools: &Pools, parts: &[Admitted], end: &End) -> Result<(), PoolError> {
    let mut outcome = Ok(());
    for part in parts {
        let release = Release {
            pool: part.pool.clone(),
            by: ReleaseBy::Ticket(part.ticket.id),
            epoch: Some(part.ticket.epoch),
            end: end.clone(),
            call: None,
        };
        let given_back = give_back_one(pools, release).await;
        outcome = outcome.and(given_back);
    }
    outcome
}

/// Repeats are harmless: units are released once.
async fn give_back_one(pools: &Pools, release: Release) -> Result<(), PoolError> {
    for _ in 1..TRIES {
        match pools.release(release.clone()).await {
            Ok(_) => return Ok(()),
            Err(PoolError::Ending) => return Err(PoolError::Ending),
            Err(error) => tracing::debug!(%error, pool = %release.pool, "units could not be given back yet"),
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    pools.release(release).await.map(|_| ())
}

async fn beat(pools: Pools, parts: Vec<Admitted>, every: Duration, lost: Arc<AtomicBool>) {
    let mut service = Service::new("sending heartbeats of units", every).later();
    while service.is_due().await {
        let mut beaten = Ok(());
        for part in &parts {
            match pools.heartbeat(&part.pool, part.ticket.id, part.ticket.epoch).await {
                Ok(true) => {}
                Ok(false) => {
                    lost.store(true, Ordering::Release);
                    tracing::warn!(pool = %part.pool, lease = %part.ticket.id, "somebody has taken the units back");
                }
                Err(error) => beaten = Err(error),
            }
        }
        service.ended(beaten);
    }
}
