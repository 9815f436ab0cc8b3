//! The command `on_demand` of a pool, with stubs for the program that scales.

use crate::Bench;
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::audit::Actor;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_domain::pool::command::{Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::on_demand::{DemandRun, Direction, Thresholds};
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_engine::EngineError;
use tidemill_engine::pool::on_demand::{self, OnDemand, run_if_due};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};

const HOLD: Duration = Duration::from_secs(600);

struct Stand {
    bench: Bench,
    pools: Pools,
    folder: TempDir,
}

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

/// A pool of 100 units.
async fn stand() -> Stand {
    let bench = Bench::new().await;
    let mut tx = bench.store.begin().await.unwrap();
    let settings = Settings { threshold_percent: 100, ..Settings::new(adw(), 100) };
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    let pools = Pools::start(bench.store.clone(), PoolOptions::default());
    Stand { bench, pools, folder: tempfile::tempdir().unwrap() }
}

impl Stand {
    fn output(&self) -> PathBuf {
        self.folder.path().join("ran.txt")
    }

    /// Scales up from 80 units on, and down to 20, by a script that may write to `$1`.
    fn hook(&self, script: &str) -> OnDemand {
        let path = self.folder.path().join("scale.sh");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        OnDemand {
            pool: adw(),
            command: vec![path.display().to_string(), self.output().display().to_string()],
            thresholds: Thresholds { scale_up_at: 80, scale_down_at: 20, hold: HOLD },
            every: Duration::from_millis(10),
            timeout: Duration::from_secs(60),
        }
    }

    fn request(run: &str, units: u32) -> AcquireRequest {
        let units = NonZeroU32::new(units);
        let part = AcquirePart { least: units, ..AcquirePart::new(adw(), units) };
        AcquireRequest::new(Holder::run("dag", run).unwrap(), part)
    }

    async fn acquire(&self, run: &str, units: u32) {
        self.pools.acquire(&Self::request(run, units), Duration::ZERO).await.unwrap();
    }

    async fn release(&self, run: &str) {
        let (by, end) =
            (ReleaseBy::Holder(Holder::run("dag", run).unwrap()), End::Released { failed: false });
        self.pools.release(Release { pool: adw(), by, epoch: None, end, call: None }).await.unwrap();
    }

    async fn run(&self, hook: &OnDemand) -> Option<(Direction, bool)> {
        let run = run_if_due(&self.pools, hook, None).await.unwrap();
        run.map(|run| (run.direction, run.succeeded))
    }

    async fn last_run(&self) -> Option<DemandRun> {
        self.bench.store.read().await.unwrap().pools().demand_run(&adw()).await.unwrap()
    }
}

#[tokio::test]
async fn the_program_gets_the_demand_in_its_environment() {
    let stand = stand().await;
    let hook = stand.hook("env | grep ^TIDEMILL_ | sort > $1");
    assert_eq!(stand.run(&hook).await, None, "nothing is needed");

    stand.acquire("holds", 60).await;
    stand.acquire("waits", 50).await;
    assert_eq!(stand.run(&hook).await, Some((Direction::Up, true)));

    let expected = [
        "TIDEMILL_DIRECTION=up",
        "TIDEMILL_POOL=ADW",
        "TIDEMILL_UNITS_IN_15_MIN_P50=110",
        "TIDEMILL_UNITS_IN_15_MIN_P90=110",
        "TIDEMILL_UNITS_IN_5_MIN_P50=110",
        "TIDEMILL_UNITS_IN_5_MIN_P90=110",
        "TIDEMILL_UNITS_NOW=110",
    ];
    assert_eq!(fs::read_to_string(stand.output()).unwrap().lines().collect::<Vec<_>>(), expected);
    let stored = stand.last_run().await.unwrap();
    assert_eq!((stored.direction, stored.units, stored.succeeded), (Direction::Up, 110, true));
}

#[tokio::test]
async fn it_runs_again_only_after_the_hold_time_and_if_the_demand_has_moved() {
    let stand = stand().await;
    let hook = stand.hook("echo $TIDEMILL_DIRECTION >> $1");
    stand.acquire("a", 90).await;
    assert_eq!(stand.run(&hook).await, Some((Direction::Up, true)));

    stand.release("a").await;
    assert_eq!(stand.run(&hook).await, None, "it has just run");
    stand.bench.clock.advance(HOLD);
    assert_eq!(stand.run(&hook).await, Some((Direction::Down, true)));
    stand.bench.clock.advance(HOLD);
    assert_eq!(stand.run(&hook).await, None, "nothing has changed");

    assert_eq!(fs::read_to_string(stand.output()).unwrap(), "up\ndown\n");
}

#[tokio::test]
async fn a_program_that_fails_or_hangs_is_tried_again_after_the_hold_time() {
    let stand = stand().await;
    stand.acquire("a", 90).await;
    let hook = stand.hook("echo $TIDEMILL_DIRECTION >> $1; exit 3");
    assert_eq!(stand.run(&hook).await, Some((Direction::Up, false)));
    assert_eq!(stand.run(&hook).await, None);

    stand.bench.clock.advance(HOLD);
    let slow = OnDemand { timeout: Duration::from_millis(100), ..stand.hook("sleep 600") };
    assert_eq!(stand.run(&slow).await, Some((Direction::Up, false)));
    stand.bench.clock.advance(HOLD);
    // More than a pipe holds, because nobody reads it.
    let talks = stand.hook("head -c 2000000 /dev/zero; echo $TIDEMILL_DIRECTION >> $1");
    assert_eq!(stand.run(&talks).await, Some((Direction::Up, true)));

    assert_eq!(fs::read_to_string(stand.output()).unwrap(), "up\nup\n");
}

#[tokio::test]
async fn a_pool_that_does_not_exist_runs_nothing() {
    let stand = stand().await;
    let hook = OnDemand { pool: "none".parse().unwrap(), ..stand.hook("touch $1") };

    assert_eq!(stand.run(&hook).await, None);

    assert!(!stand.output().exists());
}

#[tokio::test]
async fn of_several_servers_one_runs_it_and_the_next_one_keeps_its_hold_time() {
    let stand = stand().await;
    let mut hook = stand.hook("echo $TIDEMILL_POOL >> $1");
    // Less than the lease of a process.
    hook.thresholds.hold = Duration::from_secs(5);
    let (first, second) = (stand.bench.process("first").await, stand.bench.process("second").await);
    let mut servers = tokio::task::JoinSet::new();
    for process in [&first, &second] {
        servers.spawn(on_demand::run(process.clone(), stand.pools.clone(), hook.clone()));
    }

    stand.acquire("a", 90).await;
    let has_run = async || stand.last_run().await.is_some_and(|run| run.succeeded);
    crate::until("the first run", has_run).await;
    let holder = async || {
        let mut tx = stand.bench.store.begin().await.unwrap();
        let mut is_held = async |process: &tidemill_engine::Process| {
            let leases = tx.leases().of_process(process.id()).await.unwrap();
            leases.iter().any(|(key, _)| key.to_string() == "pool_on_demand/ADW")
        };
        (is_held(&first).await, is_held(&second).await)
    };
    let (keeper, other) = if holder().await.0 { (&first, (false, true)) } else { (&second, (true, false)) };
    keeper.stop().await.unwrap();
    crate::until("the other server", async || holder().await == other).await;
    // More demand is a reason to run again, but not before the end of the hold time.
    let ran_at = stand.last_run().await.unwrap().at;
    stand.acquire("b", 10).await;
    stand.bench.clock.advance(hook.thresholds.hold);
    let runs_again = async || stand.last_run().await.is_some_and(|run| run.units == 100 && run.succeeded);
    crate::until("the second run", runs_again).await;

    assert_eq!(stand.last_run().await.unwrap().at, ran_at.plus(hook.thresholds.hold));
    assert_eq!(fs::read_to_string(stand.output()).unwrap(), "ADW\nADW\n");
}

#[tokio::test]
async fn a_server_that_has_lost_its_lease_runs_nothing() {
    let stand = stand().await;
    stand.acquire("a", 90).await;
    let (first, second) = (stand.bench.process("first").await, stand.bench.process("second").await);
    let key = LeaseKey::new("pool_on_demand", "ADW").unwrap();
    let mine = first.acquire(&key, Term::Process).await.unwrap();
    let mut tx = stand.bench.store.begin().await.unwrap();
    tx.processes().stop(first.id(), None).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let _theirs = second.acquire(&key, Term::Process).await.unwrap();

    let ran = run_if_due(&stand.pools, &stand.hook("touch $1"), Some(&mine)).await;

    assert!(matches!(ran, Err(EngineError::LeaseLost { .. })), "{ran:?}");
    assert!(!stand.output().exists());
    assert_eq!(stand.last_run().await, None);
}
