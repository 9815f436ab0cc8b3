//! What the decider counts of requests that come to it.

use crate::Bench;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

fn ask(run: &str, units: u32) -> AcquireRequest {
    let part =
        AcquirePart { least: NonZeroU32::new(units), ..AcquirePart::new(adw(), NonZeroU32::new(units)) };
    AcquireRequest::new(Holder::run("dag", run).unwrap(), part)
}

#[tokio::test]
async fn each_request_is_counted_once_and_fetched_once() {
    let bench = Bench::new().await;
    let mut settings = Settings::new(adw(), 10);
    settings.threshold_percent = 100;
    let mut tx = bench.store.begin().await.unwrap();
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    let pools = Pools::start(bench.store.clone(), PoolOptions::default());

    pools.acquire(&ask("a", 8), Duration::ZERO).await.unwrap();
    pools.acquire(&ask("b", 8), Duration::ZERO).await.unwrap();
    pools.acquire(&ask("b", 8), Duration::ZERO).await.unwrap();
    bench.clock.advance(Duration::from_secs(30));
    let by = ReleaseBy::Run { dag_id: "dag".into(), run_id: "a".into() };
    let end = End::Released { failed: false };
    pools.release(Release { pool: adw(), by, epoch: None, end, call: None }).await.unwrap();

    let sums = pools.take_sums().remove(&adw()).unwrap();
    assert_eq!((sums.requests, sums.allowed, sums.waited), (2, 1, 1));
    assert_eq!(sums.average_wait(), Some(Duration::from_secs(30)));
    assert!(pools.take_sums().is_empty());
}
