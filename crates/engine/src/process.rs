//! This process: its row in the database, the heartbeat that keeps it alive, and its end.
//!
//! It ends in one of three ways, all final: it stops in order; the database refuses its heartbeat because it
//! came too late; or it gives itself up, because it could not heartbeat in time by its own monotonic clock. In
//! each case everything that it holds is lost at once; a program that wants to go on starts a new process.

use crate::clock::{SystemIds, jitter_unit};
use crate::error::EngineError;
use crate::lease::Held;
use crate::metrics;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::process::{Identity, ProcessId, heartbeat_interval, trusted_until};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::{Store, StoreError};
use tokio::sync::watch;

/// How to run a process.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// Who it is.
    pub identity: Identity,
    /// How long its word counts.
    pub ttl: Duration,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// In order.
    Stopped,
    /// Its heartbeat came too late and was refused.
    Expired,
    /// It could not heartbeat in time and gave itself up.
    SelfFenced,
}

/// A registered process. Cheap to clone; all clones are the same process.
#[derive(Clone, Debug)]
pub struct Process {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
    id: ProcessId,
    ttl: Duration,
    trusted_until: Mutex<Monotonic>,
    held: Mutex<HashMap<LeaseKey, Held>>,
    acquiring: tokio::sync::Mutex<()>,
    end: watch::Sender<Option<End>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Registers a process and keeps it alive in the background.
    pub async fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        options: ProcessOptions,
    ) -> Result<Self, EngineError> {
        let process = Self::register(store, clock, options).await?;
        tokio::spawn(keep_alive(process.clone()));
        Ok(process)
    }

    /// Registers a process that lives as long as somebody calls [`heartbeat`](Self::heartbeat); for tests.
    pub async fn register(
        store: Store,
        clock: Arc<dyn Clock>,
        options: ProcessOptions,
    ) -> Result<Self, EngineError> {
        let id = SystemIds.process();
        let sent = clock.monotonic();
        let mut tx = store.begin().await?;
        tx.register_process(id, &options.identity, options.ttl).await?;
        tx.commit().await?;
        tracing::info!(process.id = %id, "process {id} registered as {}", options.identity.name);
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                clock,
                id,
                ttl: options.ttl,
                trusted_until: Mutex::new(trusted_until(sent, options.ttl)),
                held: Mutex::default(),
                acquiring: tokio::sync::Mutex::default(),
                end: watch::Sender::new(None),
            }),
        })
    }

    /// Its id.
    pub fn id(&self) -> ProcessId {
        self.inner.id
    }

    /// Waits for its end.
    pub async fn ended(&self) -> End {
        let mut end = self.inner.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(End::Stopped),
            Err(_) => End::Stopped,
        }
    }

    /// Says once that it is alive and renews what it holds.
    pub async fn heartbeat(&self) -> Result<(), EngineError> {
        let inner = &self.inner;
        let sent = inner.clock.monotonic();
        let mut tx = inner.store.begin().await?;
        let answer = tx.heartbeat(inner.id, inner.ttl).await?;
        tx.commit().await?;
        if answer.is_err() {
            self.expired();
            return Err(EngineError::ProcessExpired { id: inner.id });
        }
        *locked(&inner.trusted_until) = trusted_until(sent, inner.ttl);
        self.renew().await
    }

    /// Renews the leases that have a term of their own. In a transaction of its own: whoever locks both locks
    /// the lease first, and the heartbeat has locked the process.
    async fn renew(&self) -> Result<(), EngineError> {
        let asked: Vec<(LeaseKey, Fence, Duration)> = locked(&self.inner.held)
            .iter()
            .filter_map(|(key, held)| held.term.map(|(ttl, _)| (key.clone(), held.fence, ttl)))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let sent = self.inner.clock.monotonic();
        let mut tx = self.inner.store.begin().await?;
        let renewed = tx.renew_leases(&asked).await?;
        tx.commit().await?;
        for (key, fence, ttl) in asked {
            if !renewed.contains(&key) {
                tracing::warn!(lease.key = %key, "lease {key} could not be renewed and is lost");
                self.forget(&key, fence);
            } else if let Some(held) = locked(&self.inner.held).get_mut(&key)
                && held.fence == fence
            {
                held.term = Some((ttl, trusted_until(sent, ttl)));
            }
        }
        Ok(())
    }

    /// Ends in order and gives back everything. Done even if the database cannot be told: then the row lapses.
    pub async fn stop(&self) -> Result<(), EngineError> {
        self.end(End::Stopped);
        let mut tx = self.inner.store.begin().await?;
        let _ended_already = tx.stop_process(self.inner.id).await?;
        tx.commit().await?;
        Ok(())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) fn acquiring(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.acquiring
    }

    pub(crate) fn holds(&self, key: &LeaseKey) -> bool {
        locked(&self.inner.held).contains_key(key)
    }

    pub(crate) fn remember(&self, key: &LeaseKey, held: Held) {
        // An end that came while the lease was on its way counts for it too.
        if self.inner.end.borrow().is_some() {
            held.lost.send_replace(true);
        } else {
            locked(&self.inner.held).insert(key.clone(), held);
        }
    }

    /// Forgets a lease and tells its holder; false when it was not held.
    pub(crate) fn forget(&self, key: &LeaseKey, fence: Fence) -> bool {
        let mut held = locked(&self.inner.held);
        let is_ours = held.get(key).is_some_and(|known| known.fence == fence);
        if is_ours && let Some(known) = held.remove(key) {
            known.lost.send_replace(true);
        }
        is_ours
    }

    /// Until when the process, and the lease's own term, may be trusted.
    pub(crate) fn trusted_until(&self, key: &LeaseKey, fence: Fence) -> Monotonic {
        let process = *locked(&self.inner.trusted_until);
        match locked(&self.inner.held).get(key) {
            Some(held) if held.fence == fence => held.term.map_or(process, |(_, term)| process.min(term)),
            _ => Monotonic::from_origin(Duration::ZERO),
        }
    }

    /// The database no longer counts us as alive.
    pub(crate) fn expired(&self) {
        self.end(End::Expired);
    }

    fn end(&self, end: End) {
        let was_first = self.inner.end.send_if_modified(|current| {
            let is_first = current.is_none();
            *current = current.or(Some(end));
            is_first
        });
        for (_, held) in locked(&self.inner.held).drain() {
            held.lost.send_replace(true);
        }
        if was_first && end != End::Stopped {
            tracing::error!(process.id = %self.inner.id, "process {} has ended: {end:?}; everything it held is lost", self.inner.id);
        }
    }

    fn has_ended(&self) -> bool {
        self.inner.end.borrow().is_some()
    }

    /// How long until the next heartbeat: by the shortest term that has to be kept.
    fn interval(&self) -> Duration {
        let shortest =
            locked(&self.inner.held).values().filter_map(|held| held.term.map(|(ttl, _)| ttl)).min();
        heartbeat_interval(shortest.unwrap_or(self.inner.ttl).min(self.inner.ttl))
    }

    fn trust_left(&self) -> Duration {
        locked(&self.inner.trusted_until).since(self.inner.clock.monotonic())
    }
}

/// Heartbeats until the process ends; gives it up when that does not succeed in time.
async fn keep_alive(process: Process) {
    let Ok(backoff) = Backoff::new(Duration::from_millis(50), 2.0, Duration::from_secs(2), 0.5) else {
        return;
    };
    let mut end = process.inner.end.subscribe();
    let mut failures = 0;
    loop {
        let pause = match failures {
            0 => process.interval().mul_f64(1.0 - 0.1 * jitter_unit()),
            _ => backoff.delay(failures, jitter_unit()),
        };
        tokio::select! {
            _ended = end.wait_for(Option::is_some) => break,
            () = tokio::time::sleep(pause.min(process.trust_left())) => {}
        }
        // No attempt may last longer than the trust that is left: a stopped process wakes up here with none.
        match tokio::time::timeout(process.trust_left().max(Duration::from_millis(1)), process.heartbeat())
            .await
        {
            Ok(Ok(())) => failures = 0,
            Ok(Err(EngineError::ProcessExpired { .. })) => break,
            Ok(Err(error)) => {
                failures += 1;
                tracing::warn!(%error, process.id = %process.id(), "heartbeat of process {} failed", process.id());
            }
            Err(_) => failures += 1,
        }
        if process.trust_left().is_zero() && !process.has_ended() {
            metrics::self_fenced();
            process.end(End::SelfFenced);
            give_up(&process).await;
            break;
        }
    }
}

/// Tells the database that a process which gave itself up is gone, so that nobody has to wait for its row to
/// lapse. One try: if the database still cannot be reached, the row lapses by itself.
async fn give_up(process: &Process) {
    let told = tokio::time::timeout(process.inner.ttl, process.stop()).await;
    if let Ok(Err(EngineError::Store(error))) = told {
        log_untold(process.id(), &error);
    }
}

fn log_untold(id: ProcessId, error: &StoreError) {
    tracing::warn!(%error, process.id = %id, "the database could not be told that process {id} gave itself up");
}
