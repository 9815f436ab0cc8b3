//! Many clients acquire and release units of a pool at the same time. Compares our passes, which decide many requests in
//! one transaction, with one transaction per request. The two alternate on one server, so that other load on the machine
//! affects both. Then, with many live leases, measures how long a decision takes and how long a server needs to load them
//! after a restart.

mod classic;
mod crowd;
mod report;

use crate::options::numbers;
use anyhow::{Context, Result, ensure};
use classic::Classic;
use report::Report;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Answer, Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};
use tidemill_store::Store;
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

/// How often the two alternate.
const TURNS: u32 = 3;

/// The units of each request.
const UNITS: u32 = 8;

struct Options {
    seconds: u64,
    clients: u32,
    leases: u32,
    pools: u32,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let [seconds, clients, leases, pools] =
            numbers(words, [("--seconds", 3), ("--clients", 64), ("--leases", 100_000), ("--pools", 200)])?;
        let (clients, leases, pools) = (clients.try_into()?, leases.try_into()?, pools.try_into()?);
        let options = Self { seconds, clients, leases, pools };
        ensure!((1..=60).contains(&options.seconds), "a turn lasts from 1 to 60 seconds");
        ensure!((1..=1_000).contains(&options.clients), "there are from 1 to 1000 clients");
        ensure!((1..=1_000).contains(&options.pools), "there are from 1 to 1000 pools");
        ensure!((1..=1_000_000).contains(&options.leases), "there are from 1 to 1000000 leases");
        Ok(options)
    }
}

/// Runs the benchmark and prints its table and its JSON. Returns an error if the ratio is too low.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let settings = vec![("max_connections".to_owned(), "200".to_owned())];
    let postgres = PrivatePostgres::start(&PostgresOptions { standby: false, settings })?;
    let report = runtime.block_on(measure(&postgres.url("postgres"), &options))?;
    print!("{}", report.table());
    println!("{}", report.json());
    ensure!(report.holds(), "the ratio is missed");
    Ok(())
}

async fn measure(url: &str, options: &Options) -> Result<Report> {
    let store = Store::open(url.parse()?, &Default::default()).await?;
    store.initialise(tidemill_store::Init::Always).await?;
    let mut report = Report::new(options.clients);
    let classic = Classic::prepare(url, options.clients).await?;
    report.commit = classic.median_commit().await?;
    let pool = create(&store, "bench", options.clients * UNITS * 2).await?;
    let pools = Pools::start(store.clone(), PoolOptions::default());
    for turn in 1..=TURNS {
        report.classic.push(classic.run(options.clients, Duration::from_secs(options.seconds)).await?);
        report.passes.push(by_passes(&pools, &pool, options).await?);
        eprintln!("turn {turn} of {TURNS}");
    }
    ensure!(violations(&store, &pool).await?.is_empty(), "the audit found something");
    crowd::measure(&store, options.pools, options.leases, &mut report).await?;
    store.close().await;
    Ok(report)
}

pub(super) async fn create(store: &Store, name: &str, max_units: u32) -> Result<PoolName> {
    let mut settings = Settings::new(name.parse()?, max_units);
    settings.threshold_percent = 100;
    let mut tx = store.begin().await?;
    tx.pools().create(&settings, &Actor::system()).await?;
    tx.commit().await?;
    Ok(settings.name)
}

async fn violations(store: &Store, pool: &PoolName) -> Result<Vec<String>> {
    let mut tx = store.read().await?;
    let audited = tx.pools().verify(pool).await?.context("the pool is gone")?;
    Ok(audited.differences.iter().map(ToString::to_string).collect())
}

/// Acquires units once and releases them.
pub(super) async fn acquire_and_release(pools: &Pools, pool: &PoolName, run: &str) -> Result<()> {
    let part = AcquirePart::new(pool.clone(), NonZeroU32::new(UNITS));
    let ask = AcquireRequest::new(Holder::run("bench", run)?, part);
    let answer = pools.acquire(&ask, Duration::ZERO).await?;
    ensure!(matches!(answer, Answer::Admitted { .. }), "not admitted: {answer:?}");
    let release = Release {
        pool: pool.clone(),
        by: ReleaseBy::Holder(ask.holder),
        epoch: None,
        end: End::Released { failed: false },
        call: None,
    };
    let answer = pools.release(release).await?;
    ensure!(matches!(answer, Answer::Released(released) if released.released), "nothing was released");
    Ok(())
}

/// Pairs of acquire and release per second.
async fn by_passes(pools: &Pools, pool: &PoolName, options: &Options) -> Result<f64> {
    let clock = Arc::new(SystemClock::new());
    let begin = clock.monotonic();
    let limit = Duration::from_secs(options.seconds);
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..options.clients {
        let (pools, pool, clock) = (pools.clone(), pool.clone(), Arc::clone(&clock));
        clients.spawn(async move {
            let mut pairs = 0_u64;
            while clock.monotonic().since(begin) < limit {
                acquire_and_release(&pools, &pool, &format!("{client}-{pairs}")).await?;
                pairs += 1;
            }
            anyhow::Ok(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = clients.join_next().await {
        pairs += done??;
    }
    Ok(pairs as f64 / clock.monotonic().since(begin).as_secs_f64())
}
