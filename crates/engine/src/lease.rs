//! A lease that this process holds: renewed by the heartbeat, checked by the monotonic clock before acting, and
//! confirmed by the database when settling.

use crate::process::End;
use crate::{EngineError, LeaseGuard, Next, Process, Service, metrics, transact};
use std::time::Duration;
use tidemill_domain::lease::{Fence, LeaseKey, LeaseRefusal, Term};
use tidemill_domain::time::Monotonic;
use tidemill_store::lease::{Granted, freed_topic};
use tidemill_store::{Store, Tx};

#[derive(Debug)]
pub(crate) struct LeaseEntry {
    pub(crate) fence: Fence,
    /// Length of its own term; none if it lasts as long as the process.
    pub(crate) term: Option<Duration>,
    pub(crate) guard: LeaseGuard,
}

/// The right to act on something. Dropping it releases it a little later; prefer [`release`](Self::release).
#[derive(Debug)]
pub struct HeldLease {
    process: Process,
    key: LeaseKey,
    fence: Fence,
    /// Its own term; the process may have less time left.
    guard: LeaseGuard,
}

impl Process {
    /// Acquires the lease `key`; [`EngineError::LeaseHeld`] if another process has it. Cancel safe: a lease granted
    /// meanwhile is released.
    #[crate::boxed]
    pub async fn acquire(&self, key: &LeaseKey, term: Term) -> Result<HeldLease, EngineError> {
        let (process, key) = (self.clone(), key.clone());
        // In a task, which continues if the caller is cancelled: a granted lease is always held, or released on drop.
        let asking = tokio::spawn(async move { process.acquire_to_the_end(&key, term).await });
        match asking.await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only the end of the runtime cancels it, and that ends the process too.
                Err(_) => Err(EngineError::ProcessExpired { id: self.id() }),
            },
        }
    }

    async fn acquire_to_the_end(&self, key: &LeaseKey, term: Term) -> Result<HeldLease, EngineError> {
        // One at a time: between the commit and `take`, the heartbeat would release our lease as an unknown one.
        let _one_at_a_time = self.acquiring().lock().await;
        let sent = self.clock().monotonic();
        let mut answer = self.ask(key, term).await?;
        if let Err(LeaseRefusal::Held { fence, .. }) = answer
            && fence.owner == self.id()
            && !self.holds(key, fence)
        {
            // The answer to the commit that granted it was lost, so it is not in use.
            self.give_back(key, fence).await?;
            answer = self.ask(key, term).await?;
        }
        match answer {
            Ok(granted) => Ok(self.take(key, term, sent, &granted)),
            Err(LeaseRefusal::Held { fence, .. }) => {
                Err(EngineError::LeaseHeld { key: key.clone(), holder: fence })
            }
            Err(LeaseRefusal::AskerGone | LeaseRefusal::Lapsed | LeaseRefusal::Fenced { .. }) => {
                self.end(End::Expired);
                Err(EngineError::ProcessExpired { id: self.id() })
            }
        }
    }

    /// Takes a lease for the life of this process that was granted in another transaction. Hold
    /// [`acquiring`](Self::acquiring) from before that until this call.
    pub(crate) fn attach(&self, key: &LeaseKey, sent: Monotonic, granted: &Granted) -> HeldLease {
        self.take(key, Term::Process, sent, granted)
    }

    fn take(&self, key: &LeaseKey, term: Term, sent: Monotonic, granted: &Granted) -> HeldLease {
        let fence = granted.fence;
        if let Some(from) = granted.taken_over_from {
            tracing::info!(lease.key = %key, lease.epoch = %fence.epoch, "lease {key} taken over from process {from}");
            metrics::lease_takeovers(key.kind()).increment(1);
        }
        let term = match term {
            Term::Process => None,
            Term::For(ttl) => Some(ttl),
        };
        let guard = LeaseGuard::new(self.clock().clone(), term.unwrap_or(Duration::MAX), sent);
        self.remember(key, LeaseEntry { fence, term, guard: guard.clone() });
        HeldLease { process: self.clone(), key: key.clone(), fence, guard }
    }

    async fn ask(&self, key: &LeaseKey, term: Term) -> Result<Result<Granted, LeaseRefusal>, EngineError> {
        Ok(transact(self.store(), async |tx| tx.leases().acquire(key, self.id(), term).await).await?)
    }

    async fn give_back(&self, key: &LeaseKey, fence: Fence) -> Result<(), EngineError> {
        transact(self.store(), async |tx| tx.leases().release(key, fence).await).await?;
        Ok(())
    }
}

tidemill_domain::getters!(HeldLease {
    &key: LeaseKey,
    /// Required by every settling write.
    fence: Fence,
});

impl HeldLease {
    /// Whether this process may still act, by its own monotonic clock. Check before each step of the work: a process
    /// that was frozen or disconnected learns it here, before another can have taken over.
    pub fn is_trusted(&self) -> bool {
        self.guard.may_act() && self.process.guard().may_act()
    }

    /// [`is_trusted`](Self::is_trusted) for use with `?`.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.is_trusted() { Ok(()) } else { Err(self.lost_error()) }
    }

    pub async fn lost(&self) {
        tokio::select! {
            () = self.guard.over() => {}
            () = self.process.guard().over() => {}
        }
    }

    /// Works until that is done or the lease is lost.
    pub(crate) async fn while_held(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = self.lost() => {}
            () = work => {}
        }
    }

    /// Call this in the transaction that settles the work. On an error drop the transaction: another process has taken
    /// over.
    #[crate::boxed]
    pub async fn confirm(&self, tx: &mut Tx) -> Result<(), EngineError> {
        if tx.leases().confirm(&self.key, self.fence).await? {
            return Ok(());
        }
        tracing::warn!(lease.key = %self.key, lease.epoch = %self.fence.epoch, "lease {} has a new owner; this write was refused", self.key);
        metrics::fencing_rejections(self.key.kind()).increment(1);
        self.process.forget(&self.key, self.fence);
        Err(self.lost_error())
    }

    /// A transaction that has passed the fence.
    pub(crate) async fn begin(&self) -> Result<Tx, EngineError> {
        self.check()?;
        let mut tx = self.process.store().begin().await?;
        self.confirm(&mut tx).await?;
        Ok(tx)
    }

    /// Releases the lease. If that fails, the next heartbeat tries again.
    pub async fn release(self) -> Result<(), EngineError> {
        self.process.forget(&self.key, self.fence);
        self.process.give_back(&self.key, self.fence).await
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Forgets the lease, which was released in the transaction that settled the work.
    pub(crate) fn forget(&self) {
        self.process.forget(&self.key, self.fence);
    }

    pub(crate) fn lost_error(&self) -> EngineError {
        EngineError::LeaseLost { key: self.key.clone(), fence: self.fence }
    }
}

/// Under a lease if there is one.
pub(crate) async fn begin_under(lease: Option<&HeldLease>, store: &Store) -> Result<Tx, EngineError> {
    match lease {
        Some(lease) => lease.begin().await,
        None => Ok(store.begin().await?),
    }
}

/// Losing the lease ends a service, and is not a failure.
pub(crate) fn until_lost<T: Into<Next>>(done: Result<T, EngineError>) -> Result<Next, EngineError> {
    match done {
        Err(EngineError::LeaseLost { .. }) => Ok(Next::End),
        done => done.map(Into::into),
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if !self.process.forget(&self.key, self.fence) {
            return;
        }
        let (process, key, fence) = (self.process.clone(), self.key.clone(), self.fence);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = process.give_back(&key, fence).await {
                    tracing::warn!(%error, "lease {key} was not given back; the next heartbeat tries again");
                }
            });
        }
    }
}

/// Elects one of many processes: the one that has the lease. The others keep trying to acquire it.
pub(crate) struct Leader {
    process: Process,
    key: LeaseKey,
    service: Service,
}

impl Leader {
    /// Tries at once, and then after pauses of this length.
    pub(crate) fn new(process: &Process, key: LeaseKey, pause: Duration) -> Self {
        let service = Service::new(format!("asking for the lease {key}"), pause)
            .wake_by(process.store().wakeup(&freed_topic(key.kind())))
            .until_end_of(process);
        Self { process: process.clone(), key, service }
    }

    /// Waits for the lease; none when the process has ended.
    pub(crate) async fn lease(&mut self) -> Option<HeldLease> {
        while self.service.is_due().await {
            match self.process.acquire(&self.key, Term::Process).await {
                Ok(lease) => {
                    self.service.rest();
                    return Some(lease);
                }
                Err(EngineError::LeaseHeld { .. }) => self.service.rest(),
                Err(EngineError::ProcessExpired { .. }) => return None,
                Err(error) => self.service.ended(Err::<Next, _>(error)),
            }
        }
        None
    }
}
