//! The handle to acquire and release units.

use super::decider;
use super::demand::DemandCache;
use crate::pool::decider::{Call, Watch};
use crate::pool::metering::{Meter, Sums};
use crate::{SystemClock, SystemIds, locked};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{self, Answer, Command, Release};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::{Acquire, Class, Holder, Part, PoolName, TicketId};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_store::{Store, StoreError, Tx, trace};
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::Instrument;
use tracing::field::Empty;

/// Maximum number of requests waiting for a decision; more are refused at once.
const WAITING_MOST: usize = 16_384;

#[derive(Clone, Copy, Debug, Default)]
pub struct PoolOptions {
    /// The polling pace told to callers.
    pub pace: Pace,
}

/// The pools of one database. Cheap to clone; the decider ends with the last handle.
#[derive(Clone, Debug)]
pub struct Pools {
    calls: mpsc::Sender<Call>,
    store: Store,
    directory: Arc<Directory>,
    meter: Arc<Meter>,
    pub(super) demand_cache: Arc<tokio::sync::Mutex<DemandCache>>,
    pub(super) clock: SystemClock,
}

/// Pools by external id.
#[derive(Debug, Default)]
pub(super) struct Directory {
    names: Mutex<HashMap<i64, PoolName>>,
}

impl Directory {
    pub(super) async fn refresh(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let names = tx.pools().directory().await?;
        *locked(&self.names) = names.into_iter().filter_map(|(name, _, id)| Some((id?, name))).collect();
        Ok(())
    }

    /// So that each is looked up again.
    fn forget(&self) {
        locked(&self.names).clear();
    }

    fn find(&self, external_id: i64) -> Option<PoolName> {
        locked(&self.names).get(&external_id).cloned()
    }
}

impl Pools {
    /// Starts the decider.
    pub fn start(store: Store, options: PoolOptions) -> Self {
        let (calls, arriving) = mpsc::channel(WAITING_MOST);
        let directory = Arc::new(Directory::default());
        let meter = Arc::new(Meter::default());
        let (known, counted) = (Arc::clone(&directory), Arc::clone(&meter));
        tokio::spawn(decider::run(store.clone(), options, arriving, known, counted));
        let (demand_cache, clock) = (Arc::default(), SystemClock::default());
        Self { calls, store, directory, meter, demand_cache, clock }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Waits at most `wait` for the units. A request that is still queued then gets its position, and keeps it if it is
    /// repeated in time.
    #[crate::boxed]
    pub async fn acquire(&self, ask: &AcquireRequest, wait: Duration) -> Result<Answer, PoolError> {
        let pool = ask.parts.first().map_or("", |part| part.pool.as_str());
        let span = tracing::info_span!(target: trace::TARGET, "acquire", pool, answer = Empty, otel.status_code = Empty);
        let answer = self.ask_until(ask, wait).instrument(span.clone()).await;
        match &answer {
            Ok(Answer::Admitted { .. }) => span.record("answer", "granted"),
            Ok(Answer::Waits(_)) => span.record("answer", "waits"),
            Ok(_) => span.record("answer", "refused"),
            Err(_) => span.record("otel.status_code", "ERROR"),
        };
        answer
    }

    async fn ask_until(&self, ask: &AcquireRequest, wait: Duration) -> Result<Answer, PoolError> {
        let deadline = self.clock.monotonic().plus(wait);
        // All attempts below are one call of the holder.
        let mut ask = ask.clone();
        ask.call.get_or_insert_with(|| SystemIds.request().into());
        loop {
            let left = deadline.since(self.clock.monotonic());
            let answer = self.submit(Command::Acquire(Box::new(ask.command(left)))).await?;
            let first = match &answer {
                Answer::Waits(waits) if !left.is_zero() => waits.tickets.first().cloned(),
                _ => None,
            };
            let Some((pool, ticket)) = first else { return Ok(answer) };
            let call = Arc::new(Notify::new());
            let watch = Call::Watch(Watch { pool, ticket, call: Arc::clone(&call) });
            self.calls.send(watch).await.map_err(|_| PoolError::Ending)?;
            // The next attempt tells whether the time is over or the units are there.
            let _woken = tokio::time::timeout(left, call.notified()).await;
        }
    }

    pub async fn release(&self, release: Release) -> Result<Answer, PoolError> {
        self.submit(Command::Release(Box::new(release))).await
    }

    /// False if the units are no longer the holder's.
    pub async fn heartbeat(
        &self,
        pool: &PoolName,
        ticket: TicketId,
        epoch: Epoch,
    ) -> Result<bool, PoolError> {
        let answer = self.submit(Command::Heartbeat { pool: pool.clone(), ticket, epoch }).await?;
        Ok(answer == Answer::Alive)
    }

    #[crate::boxed]
    pub async fn by_external_id(&self, external_id: i64) -> Result<Option<PoolName>, PoolError> {
        if let Some(name) = self.directory.find(external_id) {
            return Ok(Some(name));
        }
        self.directory.refresh(&mut self.store.read().await?).await?;
        Ok(self.directory.find(external_id))
    }

    /// Lets the decider finish what it does. Then it does nothing until the next request: no transaction is open and nothing
    /// expires. For a process that is about to be frozen, and would keep its locks.
    pub async fn rest(&self) {
        let (reply, resting) = oneshot::channel();
        if self.calls.send(Call::Rest(reply)).await.is_ok() {
            // No answer: the decider has ended, which is the same.
            let _ended = resting.await;
        }
        // The decider keeps them current, except while it rests.
        self.directory.forget();
    }

    /// What this process decided about requests since the last call, by pool.
    pub fn take_sums(&self) -> BTreeMap<PoolName, Sums> {
        self.meter.take()
    }

    /// Sends a command to the decider and waits for its answer.
    #[crate::boxed]
    pub async fn submit(&self, command: Command) -> Result<Answer, PoolError> {
        let (reply, answer) = oneshot::channel();
        self.calls.try_send(Call::Command(Box::new(command), reply)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => PoolError::Busy,
            mpsc::error::TrySendError::Closed(_) => PoolError::Ending,
        })?;
        answer.await.map_err(|_| PoolError::Ending)?
    }
}

/// A request for units of one pool, or of several at once: it gets all of them or waits for all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcquireRequest {
    pub parts: Vec<AcquirePart>,
    pub holder: Holder,
    pub class: Class,
    /// The table that will be read; the duration is estimated from its earlier runs.
    pub table: String,
    pub hint: Option<String>,
    /// Heartbeat timeout, if the holder sends heartbeats.
    pub lease_for: Option<Duration>,
    /// When the work should have ended; none: twice its usual time and 15 minutes.
    pub deadline: Option<Timestamp>,
    pub call: Option<command::Call>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcquirePart {
    pub pool: PoolName,
    /// Degree of parallelism; the pool's default otherwise.
    pub parallel: Option<NonZeroU32>,
    /// Number of sessions; 1 by default.
    pub sessions: Option<NonZeroU32>,
    /// Minimum that is acceptable; the pool's default otherwise.
    pub least: Option<NonZeroU32>,
}

impl AcquirePart {
    pub fn new(pool: PoolName, parallel: Option<NonZeroU32>) -> Self {
        Self { pool, parallel, sessions: None, least: None }
    }
}

impl AcquireRequest {
    pub fn new(holder: Holder, part: AcquirePart) -> Self {
        Self {
            parts: vec![part],
            holder,
            class: Class::default(),
            table: String::new(),
            hint: None,
            lease_for: None,
            deadline: None,
            call: None,
        }
    }

    /// `stays` is how long the caller waits for the answer.
    fn command(&self, stays: Duration) -> Acquire {
        let request = SystemIds.ticket();
        let part = |part: &AcquirePart| Part {
            pool: part.pool.clone(),
            ticket: if self.parts.len() == 1 { request } else { SystemIds.ticket() },
            parallel: part.parallel,
            sessions: part.sessions,
            least: part.least,
        };
        Acquire {
            request,
            parts: self.parts.iter().map(part).collect(),
            holder: self.holder.clone(),
            class: self.class,
            table: self.table.clone(),
            hint: self.hint.clone(),
            lease_for: self.lease_for,
            deadline: self.deadline,
            stays,
            call: self.call.clone(),
        }
    }
}

/// Cheap to clone, because one failure is returned to many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("this process is about to end and takes no more requests")]
    Ending,
    #[error("too many requests wait for a decision")]
    Busy,
}

impl From<StoreError> for PoolError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl PoolError {
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Ending | Self::Busy => Code::DatabaseBusy,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Store(error) => error.fix(),
            Self::Ending => "ask again in a moment, or ask another server".into(),
            Self::Busy => "ask again in a moment".into(),
        }
    }
}

/// Pools whose decider starts on first use. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct PoolsOnDemand {
    store: Store,
    pools: Arc<OnceLock<Pools>>,
}

impl PoolsOnDemand {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, pools: Arc::default() }
    }

    pub(crate) fn of(pools: Pools) -> Self {
        Self { store: pools.store().clone(), pools: Arc::new(OnceLock::from(pools)) }
    }

    pub(crate) fn get(&self) -> &Pools {
        self.pools.get_or_init(|| Pools::start(self.store.clone(), PoolOptions::default()))
    }
}
