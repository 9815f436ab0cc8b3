//! The keeper of pools, with a clock that the test moves.

use crate::Bench;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_domain::pool::command::{Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::pool::auditor;
use tidemill_engine::pool::keeper::{self, Tidied};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};
use tidemill_engine::{EngineError, Process};

const HISTORY: Duration = Duration::from_secs(24 * 3600);

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

async fn pools(bench: &Bench) -> Pools {
    let mut tx = bench.store.begin().await.unwrap();
    tx.pools().create(&Settings::new(adw(), 100), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    Pools::start(bench.store.clone(), PoolOptions::default())
}

async fn run(pools: &Pools, run: &str) {
    let holder = Holder::run("dag", run).unwrap();
    let part = AcquirePart::new(adw(), NonZeroU32::new(8));
    pools.acquire(&AcquireRequest::new(holder.clone(), part), Duration::ZERO).await.unwrap();
    let (by, end) = (ReleaseBy::Holder(holder), End::Released { failed: false });
    pools.release(Release { pool: adw(), by, epoch: None, end, call: None }).await.unwrap();
}

/// Waits until the first step of the pool's usage since `start` is made of so many samples.
async fn until_samples(bench: &Bench, start: Timestamp, wanted: u64) {
    let is_sampled = async || {
        let mut tx = bench.store.begin().await.unwrap();
        let steps = tx.pools().usage(&adw(), start).await.unwrap();
        drop(tx);
        steps.first().is_some_and(|step| step.samples == wanted)
    };
    crate::until("the next sample of the keeper", is_sampled).await;
}

#[tokio::test]
async fn what_is_older_than_the_history_goes_and_the_log_still_tells_the_state() {
    let bench = Bench::new().await;
    let pools = pools(&bench).await;
    let mut all = Tidied::default();
    for hour in 0..30 {
        run(&pools, &format!("r{hour}")).await;
        keeper::sample(&bench.store, None).await.unwrap();
        bench.clock.advance(Duration::from_secs(3600));
        let tidied = keeper::tidy(&bench.store, None, HISTORY).await.unwrap();
        all.snapshots += tidied.snapshots;
        all.tickets += tidied.tickets;
        all.records += tidied.records;
    }

    assert_eq!((all.snapshots, all.tickets), (30, 6), "{all:?}");
    assert!(all.records > 20, "{all:?}");
    let mut tx = bench.store.begin().await.unwrap();
    assert_eq!(tx.pools().verify(&adw()).await.unwrap().unwrap().differences, []);
    let since = bench.clock.now().minus(Duration::from_secs(40 * 3600));
    assert_eq!(tx.pools().usage(&adw(), since).await.unwrap().len(), 30);
    drop(tx);
    bench.clock.advance(Duration::from_secs(8 * 24 * 3600));
    assert_eq!(keeper::tidy(&bench.store, None, HISTORY).await.unwrap().steps, 30);
}

#[tokio::test]
async fn when_the_keeper_ends_another_process_takes_over() {
    let bench = Bench::new().await;
    let _pools = pools(&bench).await;
    let (first, second) = (bench.process("first").await, bench.process("second").await);
    let start = bench.clock.now();
    let mut keepers = tokio::task::JoinSet::new();
    keepers.spawn(keeper::run(first.clone(), HISTORY));
    keepers.spawn(keeper::run(second.clone(), HISTORY));
    let is_keeper = async |process: &Process| {
        let mut tx = bench.store.begin().await.unwrap();
        tx.leases()
            .of_process(process.id())
            .await
            .unwrap()
            .iter()
            .any(|(key, _)| key.to_string() == "pool/keeper")
    };

    until_samples(&bench, start, 1).await;
    let (keeper, other) = if is_keeper(&first).await { (first, second) } else { (second, first) };
    assert!(!is_keeper(&other).await);
    keeper.stop().await.unwrap();

    until_samples(&bench, start, 2).await;
    assert!(is_keeper(&other).await);
}

#[tokio::test]
async fn the_keeper_audits_as_well() {
    let bench = Bench::new().await;
    let _pools = pools(&bench).await;
    let process = bench.process("first").await;
    let mut keepers = tokio::task::JoinSet::new();
    let audit = async || {
        let mut tx = bench.store.begin().await.unwrap();
        tx.pools().find(&adw()).await.unwrap().unwrap().audit
    };

    keepers.spawn(keeper::run(process, HISTORY));

    crate::until("the first audit", async || audit().await.is_some()).await;
    assert_eq!(audit().await.map(|audit| (audit.at, audit.violations)), Some((bench.clock.now(), 0)));
}

#[tokio::test]
async fn an_auditor_that_has_lost_its_lease_writes_nothing() {
    let bench = Bench::new().await;
    let _pools = pools(&bench).await;
    let first = bench.process("first").await;
    let mine = first.acquire(&LeaseKey::new("pool", "keeper").unwrap(), Term::Process).await.unwrap();
    let mut tx = bench.store.begin().await.unwrap();
    tx.processes().stop(first.id(), None).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let audited = auditor::audit(&bench.store, Some(&mine)).await;

    assert!(matches!(audited, Err(EngineError::LeaseLost { .. })), "{audited:?}");
    let mut tx = bench.store.begin().await.unwrap();
    assert_eq!(tx.pools().find(&adw()).await.unwrap().unwrap().audit, None);
}

#[tokio::test]
async fn a_keeper_that_has_lost_its_lease_writes_nothing() {
    let bench = Bench::new().await;
    let _pools = pools(&bench).await;
    let (first, second) = (bench.process("first").await, bench.process("second").await);
    let key = LeaseKey::new("pool", "keeper").unwrap();
    let mine = first.acquire(&key, Term::Process).await.unwrap();
    keeper::sample(&bench.store, Some(&mine)).await.unwrap();
    let mut tx = bench.store.begin().await.unwrap();
    tx.processes().stop(first.id(), None).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let _theirs = second.acquire(&key, Term::Process).await.unwrap();

    let sampled = keeper::sample(&bench.store, Some(&mine)).await;
    let tidied = keeper::tidy(&bench.store, Some(&mine), HISTORY).await;

    assert!(matches!(sampled, Err(EngineError::LeaseLost { .. })), "{sampled:?}");
    assert!(matches!(tidied, Err(EngineError::LeaseLost { .. })), "{tidied:?}");
    let mut tx = bench.store.begin().await.unwrap();
    let steps = tx.pools().usage(&adw(), bench.clock.now().minus(HISTORY)).await.unwrap();
    assert_eq!(steps[0].samples, 1);
}
