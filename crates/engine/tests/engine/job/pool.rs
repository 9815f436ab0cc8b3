//! Steps that take units of a pool: what they get, and that it comes back at every end.

mod end;
mod grant;

use super::Stand;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_engine::job::{PoolUse, Step, TaskletScope};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, Hold, PoolOptions, Pools};
use tidemill_store::pool::PoolRecord;
use tidemill_store::scratch::Scratch;
use tokio::sync::watch;

const LONG: Duration = Duration::from_secs(60);

/// A database with a pool of ten units.
async fn stand(scratch: Scratch) -> Stand {
    let stand = Stand::on(scratch).await;
    let mut settings = Settings::new(adw(), 10);
    settings.threshold_percent = 100;
    settings.min_units = some(1);
    settings.default_units = some(2);
    let mut tx = stand.bench.store().begin().await.unwrap();
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    stand
}

fn adw() -> PoolName {
    "adw".parse().unwrap()
}

fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// So many units and no fewer.
fn all(units: u32) -> PoolUse {
    PoolUse { units: Some(some(units)), least: Some(some(units)), ..PoolUse::new(adw()) }
}

/// Somebody else who holds units.
async fn other(stand: &Stand, units: u32) -> Hold {
    stranger(stand, "run", units).await
}

/// Somebody else whose run is called like this.
async fn stranger(stand: &Stand, run: &str, units: u32) -> Hold {
    let pools = Pools::start(stand.bench.store().clone(), PoolOptions::default());
    let ask =
        AcquireRequest::new(Holder::run("other", run).unwrap(), AcquirePart::new(adw(), Some(some(units))));
    pools.hold(ask, Duration::ZERO).await.unwrap().unwrap()
}

async fn record(stand: &Stand) -> PoolRecord {
    let mut tx = stand.bench.store().read().await.unwrap();
    let found = tx.pools().find(&adw()).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    found
}

/// How many units are in use, and how many requests wait.
async fn level(stand: &Stand) -> (u64, u64) {
    let found = record(stand).await;
    (found.usage, found.waiting)
}

/// Looks until the pool is as it should become.
async fn becomes(stand: &Stand, expected: (u64, u64)) {
    let looking = async {
        while level(stand).await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, looking).await.expect("the pool becomes as it should");
}

/// What a step does with its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Succeeds,
    Fails,
    /// Its database refuses it.
    Refused,
    Panics,
}

/// Counts what the steps use at the same time, as they see it themselves.
#[derive(Clone)]
struct World {
    used: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    runs: Arc<AtomicU32>,
    work: watch::Sender<Work>,
    is_open: watch::Sender<bool>,
}

impl World {
    fn new() -> Self {
        Self {
            used: Arc::default(),
            most: Arc::default(),
            runs: Arc::default(),
            work: watch::Sender::new(Work::Succeeds),
            is_open: watch::Sender::new(true),
        }
    }

    /// Steps wait in the middle of their work until [`open`](Self::open).
    fn closed() -> Self {
        let world = Self::new();
        world.is_open.send_replace(false);
        world
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }

    fn does(self, work: Work) -> Self {
        self.work.send_replace(work);
        self
    }

    fn step(&self, name: &str) -> Step {
        let world = self.clone();
        Step::tasklet(name, move |scope| world.clone().run(scope))
    }

    fn most(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    async fn run(self, scope: TaskletScope) -> Result<(), ItemError> {
        let units = scope.step().granted().unwrap().units;
        let now = self.used.fetch_add(units, Ordering::SeqCst) + units;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
        // Others that should not be here meanwhile would be seen.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.used.fetch_sub(units, Ordering::SeqCst);
        let work = *self.work.borrow();
        match work {
            Work::Succeeds => Ok(()),
            Work::Fails => Err(ItemError::new(ErrorKind::PROCESS, "boom")),
            Work::Refused => {
                Err(ItemError::new(ErrorKind::PROCESS, "FATAL: sorry, too many clients already"))
            }
            Work::Panics => panic!("boom"),
        }
    }
}
