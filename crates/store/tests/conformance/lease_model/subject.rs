//! The system under test: the real store, in which each step of a case is a transaction of its own. Its answers
//! are told in the terms of the case.

use super::fault::Fault;
use super::model::{Answer, Memory, id_of};
use super::transition::{KEYS, Transition};
use crate::{TTL, identity, key, process_id};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::{Fence, LeaseKey, LeaseRefusal, Term};
use tidemill_domain::process::{ProcessId, ProcessRefusal};
use tidemill_domain::time::{Clock, FakeClock, Monotonic, Timestamp};
use tidemill_store::lease::Granted;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, Tx};
use tokio::runtime::Runtime;

/// Room for the processes of one case.
const IDS_PER_CASE: u128 = 1000;

/// One database and one clock for all cases; every case has lease names and process ids of its own.
pub(super) struct Arena {
    runtime: Runtime,
    store: Store,
    clock: Arc<FakeClock>,
    cases: Cell<u128>,
    _scratch: Scratch,
}

impl Arena {
    pub(super) fn sqlite() -> Self {
        Self::on(runtime(), Scratch::memory())
    }

    /// None when tests on PostgreSQL are to be skipped.
    pub(super) fn postgres() -> Option<Self> {
        let runtime = runtime();
        let scratch = runtime.block_on(Scratch::postgres_with_schema())?;
        Some(Self::on(runtime, scratch))
    }

    fn on(runtime: Runtime, scratch: Scratch) -> Self {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let store = runtime.block_on(scratch.store(Some(clock.clone()))).unwrap();
        Self { runtime, store, clock, cases: Cell::new(0), _scratch: scratch }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// What was done, and when by the monotonic clock of whoever did it.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) sent: Monotonic,
    pub(super) heard: Monotonic,
    /// The fence that a settling write carried.
    pub(super) carried: Option<Fence>,
    pub(super) answer: Answer,
}

/// The store, as one case sees it.
pub(super) struct Subject<'a> {
    arena: &'a Arena,
    fault: Option<Fault>,
    start: Timestamp,
    ids_from: u128,
    keys: [LeaseKey; KEYS],
    runs: Vec<Memory>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(arena: &'a Arena, fault: Option<Fault>) -> Self {
        let case = arena.cases.get() + 1;
        arena.cases.set(case);
        Self {
            arena,
            fault,
            start: arena.clock.now(),
            ids_from: case * IDS_PER_CASE,
            keys: [key(&format!("{case}-a")), key(&format!("{case}-b"))],
            runs: Vec::new(),
        }
    }

    /// Sends the call of `transition`, lets its delay pass, and only then lets the database execute it.
    pub(super) fn perform(&mut self, transition: &Transition) -> Done {
        let arena = self.arena;
        let sent = arena.clock.monotonic();
        arena.clock.advance(transition.delay());
        let answer = arena.runtime.block_on(self.execute(transition));
        let carried = match transition {
            Transition::Settle { run, key, back } => self.runs[*run].fence(*key, *back),
            _ => None,
        };
        Done { sent, heard: arena.clock.monotonic(), carried, answer }
    }

    async fn execute(&mut self, transition: &Transition) -> Answer {
        match transition {
            Transition::Advance { .. } | Transition::Crash { .. } => Answer::Nothing,
            Transition::Register { .. } => self.register().await,
            Transition::Heartbeat { run, .. } => Answer::Heartbeat(self.heartbeat(*run).await),
            Transition::Stop { run } => Answer::Stopped(self.stop(*run).await),
            Transition::Acquire { run, key, term, .. } => {
                let answer = self.acquire(*run, *key, *term).await;
                if let Ok(granted) = &answer {
                    self.runs[*run].note(*key, granted.fence, *term);
                }
                Answer::Acquired(answer)
            }
            Transition::Renew { run, ttl, .. } => Answer::Renewed(self.renew(*run, *ttl).await),
            Transition::Release { run, key } => match self.runs[*run].fence(*key, 0) {
                Some(fence) => Answer::Released(self.release(*key, fence).await),
                None => Answer::Released(false),
            },
            Transition::Settle { run, key, back } => match self.runs[*run].fence(*key, *back) {
                Some(fence) => Answer::Settled(self.settle(*key, fence).await),
                None => Answer::Settled(false),
            },
            Transition::ExpireProcesses => Answer::Died(self.expire_processes().await),
            Transition::ExpireLeases => Answer::Lapsed(self.expire_leases().await),
        }
    }

    async fn register(&mut self) -> Answer {
        let run = self.runs.len();
        let mut tx = self.begin().await;
        tx.processes().register(self.real_id(id_of(run)), &identity(run as u128), TTL).await.unwrap();
        tx.commit().await.unwrap();
        self.runs.push(Memory::default());
        Answer::Registered
    }

    async fn heartbeat(&self, run: usize) -> Result<(), ProcessRefusal> {
        let id = self.real_id(id_of(run));
        let mut tx = self.begin().await;
        self.plant(Fault::HeartbeatRevives, &mut tx, &revive(id, self.arena.clock.now())).await;
        let answer = tx.processes().heartbeat(id, TTL).await.unwrap();
        tx.commit().await.unwrap();
        if self.fault == Some(Fault::RefusalUntold) { Ok(()) } else { answer }
    }

    async fn stop(&self, run: usize) -> Result<(), ProcessRefusal> {
        let mut tx = self.begin().await;
        let answer = tx.processes().stop(self.real_id(id_of(run)), None).await.unwrap();
        match answer {
            Ok(()) => tx.commit().await.unwrap(),
            Err(_) => tx.rollback().await.unwrap(),
        }
        answer
    }

    async fn acquire(&self, run: usize, key: usize, term: Term) -> Result<Granted, LeaseRefusal> {
        let key = &self.keys[key];
        let mut tx = self.begin().await;
        self.plant(
            Fault::LifeIgnored,
            &mut tx,
            &on_lease("set owner = null, until = null, acquired_at = null", key),
        )
        .await;
        let mut answer = tx.leases().acquire(key, self.real_id(id_of(run)), term).await.unwrap();
        if let Ok(granted) = &mut answer
            && let Some(fault) = self.fault
            && let Some(wrong) = fault.epoch_instead_of(granted.fence.epoch)
        {
            tx.execute_for_test(&on_lease(&format!("set epoch = {wrong}"), key)).await.unwrap();
            granted.fence.epoch = wrong;
        }
        tx.commit().await.unwrap();
        answer.map(|granted| self.granted_in_case(granted)).map_err(|refusal| self.refusal_in_case(refusal))
    }

    async fn renew(&self, run: usize, ttl: Duration) -> Vec<usize> {
        let renewable = self.runs[run].renewable();
        let asked: Vec<_> = renewable
            .iter()
            .map(|(key, fence)| (self.keys[*key].clone(), self.real_fence(*fence), ttl))
            .collect();
        let mut tx = self.begin().await;
        let renewed = tx.leases().renew(&asked).await.unwrap().renewed;
        tx.commit().await.unwrap();
        (0..KEYS).filter(|key| renewed.contains(&self.keys[*key])).collect()
    }

    async fn release(&self, key: usize, fence: Fence) -> bool {
        let mut tx = self.begin().await;
        let released = tx.leases().release(&self.keys[key], self.real_fence(fence)).await.unwrap();
        tx.commit().await.unwrap();
        released
    }

    async fn settle(&self, key: usize, fence: Fence) -> bool {
        if self.fault == Some(Fault::FenceSkipped) {
            return true;
        }
        let mut tx = self.begin().await;
        let settled = tx.leases().confirm(&self.keys[key], self.real_fence(fence)).await.unwrap();
        if settled {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        settled
    }

    /// Processes of earlier cases die along with ours; they are not told of.
    async fn expire_processes(&self) -> Vec<usize> {
        let mut tx = self.begin().await;
        let died = tx.processes().expire(u32::MAX).await.unwrap();
        tx.commit().await.unwrap();
        (0..self.runs.len())
            .filter(|run| died.iter().any(|dead| dead.id == self.real_id(id_of(*run))))
            .collect()
    }

    async fn expire_leases(&self) -> Vec<(usize, Fence)> {
        let mut tx = self.begin().await;
        let lapsed = tx.leases().expire(u32::MAX).await.unwrap();
        tx.commit().await.unwrap();
        let ours = |key: &LeaseKey| self.keys.iter().position(|ours| ours == key);
        lapsed.iter().filter_map(|lease| Some((ours(&lease.key)?, self.fence_in_case(lease.fence)))).collect()
    }

    async fn begin(&self) -> Tx {
        self.arena.store.begin().await.unwrap()
    }

    /// Runs `sql` when `fault` is the one that this subject has.
    async fn plant(&self, fault: Fault, tx: &mut Tx, sql: &str) {
        if self.fault == Some(fault) {
            tx.execute_for_test(sql).await.unwrap();
        }
    }

    fn real_id(&self, id: ProcessId) -> ProcessId {
        process_id(self.ids_from + id.get().as_u128())
    }

    fn real_fence(&self, fence: Fence) -> Fence {
        Fence { owner: self.real_id(fence.owner), ..fence }
    }

    fn id_in_case(&self, id: ProcessId) -> ProcessId {
        process_id(id.get().as_u128().wrapping_sub(self.ids_from))
    }

    fn fence_in_case(&self, fence: Fence) -> Fence {
        Fence { owner: self.id_in_case(fence.owner), ..fence }
    }

    fn instant_in_case(&self, instant: Timestamp) -> Timestamp {
        Timestamp::EPOCH.plus(instant.since(self.start))
    }

    fn granted_in_case(&self, granted: Granted) -> Granted {
        Granted {
            fence: self.fence_in_case(granted.fence),
            until: granted.until.map(|until| self.instant_in_case(until)),
            taken_over_from: granted.taken_over_from.map(|id| self.id_in_case(id)),
        }
    }

    fn refusal_in_case(&self, refusal: LeaseRefusal) -> LeaseRefusal {
        match refusal {
            LeaseRefusal::Held { fence, until } => LeaseRefusal::Held {
                fence: self.fence_in_case(fence),
                until: until.map(|until| self.instant_in_case(until)),
            },
            other => other,
        }
    }
}

/// Faults are planted on SQLite only, so these are its dialect.
fn on_lease(change: &str, key: &LeaseKey) -> String {
    format!("update tidemill_lease {change} where name = '{}'", key.name())
}

fn revive(id: ProcessId, now: Timestamp) -> String {
    format!(
        "update tidemill_process
         set state = 'live', ended_at = null, until = {}
         where id = '{id}'
           and until <= {}",
        now.as_micros() + 1,
        now.as_micros()
    )
}
