//! This process: its row in the database, the heartbeat that keeps it alive, and its end.
//!
//! It ends in one of three ways, all final: it stops; the database refuses a late heartbeat; or it gives itself up,
//! because it could not heartbeat in time by its own monotonic clock. Then everything it holds is lost at once; a
//! program that wants to continue starts a new process.

use crate::lease::LeaseEntry;
use crate::{
    EngineError, LeaseGuard, SystemIds, incarnation, jittered, locked, metrics, pause_after, reaper, transact,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::process::{Identity, ProcessId, heartbeat_interval, self_fencing_margin};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::{Store, crash_point};
use tokio::sync::{Notify, watch};

#[derive(Clone, Debug)]
pub struct ProcessOptions {
    pub identity: Identity,
    pub ttl: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
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
    guard: LeaseGuard,
    held: Mutex<HashMap<LeaseKey, LeaseEntry>>,
    acquiring: tokio::sync::Mutex<()>,
    /// Notified when a lease was added whose term needs an earlier heartbeat.
    added: Arc<Notify>,
    end: watch::Sender<Option<End>>,
}

tidemill_domain::getters!(Process, inner { id: ProcessId, ttl: Duration });

impl Process {
    /// Registers a process and keeps it alive in the background, until it ends or its last clone is dropped.
    pub async fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        options: ProcessOptions,
    ) -> Result<Self, EngineError> {
        let process = Self::register(store, clock, options).await?;
        tokio::spawn(keep_alive(Arc::downgrade(&process.inner)));
        // What a killed predecessor held must not refuse what this one is about to do.
        let cleaned = async {
            match reaper::bury_neighbours(process.store()).await? {
                0 => Ok(()),
                _ => reaper::run_once(process.store()).await.map(drop),
            }
        };
        if let Err(error) = cleaned.await {
            tracing::warn!(%error, "could not clean up after dead processes of this machine; will try again");
        }
        Ok(process)
    }

    /// Registers a process that lives as long as the caller sends [`heartbeat`](Self::heartbeat)s; for tests.
    #[crate::boxed]
    pub async fn register(
        store: Store,
        clock: Arc<dyn Clock>,
        options: ProcessOptions,
    ) -> Result<Self, EngineError> {
        let id = SystemIds.process();
        let sent = clock.monotonic();
        let incarnation = incarnation::own();
        transact(&store, async |tx| {
            tx.processes().register(id, &options.identity, options.ttl).await?;
            match &incarnation {
                Some(incarnation) => tx.processes().set_incarnation(id, incarnation).await,
                None => Ok(()),
            }
        })
        .await?;
        tracing::info!(process.id = %id, "process {id} registered as {}", options.identity.name);
        Ok(Self::of(store, clock, id, options.ttl, sent))
    }

    /// A process that is not in the database and has already ended, so it can hold no lease. For programs that cannot send
    /// heartbeats and only decide about pools.
    pub fn unregistered(store: Store, clock: Arc<dyn Clock>) -> Self {
        let now = clock.monotonic();
        let process = Self::of(store, clock, SystemIds.process(), Duration::ZERO, now);
        process.end(End::Stopped);
        process
    }

    fn of(store: Store, clock: Arc<dyn Clock>, id: ProcessId, ttl: Duration, sent: Monotonic) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                guard: LeaseGuard::new(clock.clone(), ttl, sent),
                clock,
                id,
                ttl,
                held: Mutex::default(),
                acquiring: tokio::sync::Mutex::default(),
                added: Arc::default(),
                end: watch::Sender::new(None),
            }),
        }
    }

    pub async fn ended(&self) -> End {
        let mut end = self.inner.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(End::Stopped),
            Err(_) => End::Stopped,
        }
    }

    /// Sends one heartbeat, renews all leases, and compares them with the database.
    #[crate::boxed]
    pub async fn heartbeat(&self) -> Result<(), EngineError> {
        let inner = &self.inner;
        let sent = inner.clock.monotonic();
        crash_point!("before_heartbeat");
        let mut tx = inner.store.begin_vital().await?;
        let answer = tx.processes().heartbeat(inner.id, inner.ttl).await?;
        crash_point!("heartbeat_sent");
        tx.commit().await?;
        crash_point!("after_heartbeat");
        if answer.is_err() {
            self.end(End::Expired);
            return Err(EngineError::ProcessExpired { id: inner.id });
        }
        inner.guard.renew(sent);
        self.renew().await?;
        self.compare().await
    }

    /// Renews leases that have their own term. In a separate transaction: leases are locked before processes, and the
    /// heartbeat has locked the process.
    async fn renew(&self) -> Result<(), EngineError> {
        let asked: Vec<(LeaseKey, Fence, Duration)> = locked(&self.inner.held)
            .iter()
            .filter_map(|(key, held)| held.term.map(|ttl| (key.clone(), held.fence, ttl)))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let sent = self.inner.clock.monotonic();
        let mut tx = self.inner.store.begin_vital().await?;
        let answer = tx.leases().renew(&asked).await?;
        tx.commit().await?;
        for (key, fence, _) in asked {
            if answer.lost.contains(&key) {
                self.lost(&key, fence);
            } else if answer.renewed.contains(&key)
                && let Some(held) = locked(&self.inner.held).get(&key)
                && held.fence == fence
            {
                held.guard.renew(sent);
            }
        }
        Ok(())
    }

    /// Compares our leases with the database. Leases granted without our knowledge (a lost answer) are released; leases
    /// that others have now are lost.
    async fn compare(&self) -> Result<(), EngineError> {
        // Leases being acquired would look unknown; the next heartbeat compares them.
        let Ok(_nobody_acquires) = self.inner.acquiring.try_lock() else { return Ok(()) };
        let mut tx = self.inner.store.begin_vital().await?;
        let stored = tx.leases().of_process(self.inner.id).await?;
        for (key, fence) in &stored {
            if !self.holds(key, *fence) {
                tracing::info!(lease.key = %key, "lease {key} is ours without our knowing and is given back");
                tx.leases().release(key, *fence).await?;
            }
        }
        tx.commit().await?;
        let held: Vec<(LeaseKey, Fence)> =
            locked(&self.inner.held).iter().map(|(key, held)| (key.clone(), held.fence)).collect();
        for (key, fence) in held {
            if !stored.contains(&(key.clone(), fence)) {
                self.lost(&key, fence);
            }
        }
        Ok(())
    }

    fn lost(&self, key: &LeaseKey, fence: Fence) {
        if self.forget(key, fence) {
            tracing::warn!(lease.key = %key, lease.epoch = %fence.epoch, "lease {key} is lost");
        }
    }

    /// Stops and releases everything. Takes effect even if the database is away: then the row expires.
    pub async fn stop(&self) -> Result<(), EngineError> {
        self.end(End::Stopped);
        self.tell_end(None).await
    }

    async fn tell_end(&self, reason: Option<&str>) -> Result<(), EngineError> {
        let mut tx = self.inner.store.begin_vital().await?;
        let _ended_already = tx.processes().stop(self.inner.id, reason).await?;
        tx.commit().await?;
        Ok(())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub(crate) fn acquiring(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.acquiring
    }

    pub(crate) fn holds(&self, key: &LeaseKey, fence: Fence) -> bool {
        locked(&self.inner.held).get(key).is_some_and(|held| held.fence == fence)
    }

    pub(crate) fn remember(&self, key: &LeaseKey, new: LeaseEntry) {
        // Lock first, so that a concurrent end finds the lease and ends it too.
        let mut held = locked(&self.inner.held);
        if self.has_ended() {
            new.guard.lose();
            return;
        }
        // A short term may end before the next planned heartbeat.
        if new.term.is_some_and(|ttl| ttl < self.inner.ttl) {
            self.inner.added.notify_one();
        }
        // An earlier lease of this key has an older epoch, so it is lost.
        if let Some(before) = held.insert(key.clone(), new) {
            before.guard.lose();
        }
    }

    /// Ends the guard of a lease; false if it was not held.
    pub(crate) fn forget(&self, key: &LeaseKey, fence: Fence) -> bool {
        let mut held = locked(&self.inner.held);
        let is_ours = held.get(key).is_some_and(|known| known.fence == fence);
        if is_ours && let Some(known) = held.remove(key) {
            known.guard.lose();
        }
        is_ours
    }

    pub(crate) fn guard(&self) -> &LeaseGuard {
        &self.inner.guard
    }

    pub(crate) fn end(&self, end: End) {
        let was_first = self.inner.end.send_if_modified(|current| {
            let is_first = current.is_none();
            *current = current.or(Some(end));
            is_first
        });
        for (_, held) in locked(&self.inner.held).drain() {
            held.guard.lose();
        }
        if was_first && end != End::Stopped {
            tracing::error!(process.id = %self.inner.id, "process {} has ended: {end:?}; everything it held is lost", self.inner.id);
        }
    }

    fn has_ended(&self) -> bool {
        self.inner.end.borrow().is_some()
    }

    /// Time until the next heartbeat, by the shortest term.
    fn interval(&self) -> Duration {
        let shortest = locked(&self.inner.held).values().filter_map(|held| held.term).min();
        heartbeat_interval(shortest.unwrap_or(self.inner.ttl).min(self.inner.ttl))
    }
}

/// Sends heartbeats until the process ends or its last clone is dropped; gives it up when they fail for too long.
async fn keep_alive(process: Weak<Inner>) {
    let mut failures = 0;
    // Upgraded for a moment each time: sleeping must not keep the process from being dropped.
    while let Some(pause) = process.upgrade().map(|inner| Process { inner }.pause(failures)) {
        if !sleep(&process, pause).await {
            return;
        }
        let Some(inner) = process.upgrade() else { return };
        let process = Process { inner };
        // An attempt that hangs leaves time for another, on a new connection. A frozen process wakes up here without trust.
        let limit = process.guard().remaining().min(heartbeat_interval(process.ttl()));
        let limit = limit.max(Duration::from_millis(1));
        match tokio::time::timeout(limit, process.heartbeat()).await {
            Ok(Ok(())) => failures = 0,
            Ok(Err(EngineError::ProcessExpired { .. })) => return,
            Ok(Err(error)) => {
                failures += 1;
                tracing::warn!(%error, process.id = %process.id(), "heartbeat of process {} failed", process.id());
            }
            Err(_) => {
                failures += 1;
                tracing::warn!(process.id = %process.id(), "heartbeat of process {} got no answer within {limit:?}", process.id());
            }
        }
        if !process.guard().may_act() && !process.has_ended() {
            give_up(&process).await;
            return;
        }
    }
}

impl Process {
    /// The sleep before the next heartbeat, or the next attempt.
    fn pause(&self, failures: u32) -> Duration {
        let pause = match failures {
            0 => jittered(self.interval()),
            _ => pause_after(failures, Duration::from_millis(50), Duration::from_secs(2)),
        };
        pause.min(self.guard().remaining())
    }
}

/// Ends early when a lease is added; false if the process has ended or was dropped.
async fn sleep(process: &Weak<Inner>, pause: Duration) -> bool {
    let Some((mut end, added)) = process.upgrade().map(|inner| (inner.end.subscribe(), inner.added.clone()))
    else {
        return false;
    };
    tokio::select! {
        // Also when the last clone was dropped, with the sender.
        _ended = end.wait_for(Option::is_some) => false,
        () = tokio::time::sleep(pause) => true,
        () = added.notified() => true,
    }
}

/// Stops the work now. After the margin in which the work notices that, the end is recorded, so that others need not
/// wait for the row to expire. One attempt; if the database is still away, the row expires.
async fn give_up(process: &Process) {
    metrics::self_fenced().increment(1);
    process.end(End::SelfFenced);
    tokio::time::sleep(self_fencing_margin(process.ttl())).await;
    let telling = process.tell_end(Some("gave itself up: it could not heartbeat in time"));
    if let Ok(Err(error)) = tokio::time::timeout(process.ttl(), telling).await {
        tracing::warn!(%error, process.id = %process.id(), "the database could not be told that process {} gave itself up", process.id());
    }
}
