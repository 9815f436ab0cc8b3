//! What was requested on past days at this time, and the last run of `on_demand`.

use super::{acquire, adw, ann, ask, create, give_back, release};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::pool::demand::{Demand, LaterDemand};
use tidemill_domain::pool::on_demand::{DemandRun, Direction};
use tidemill_store::pool::PoolCache;

crate::on_both![
    what_was_requested_at_this_time_of_past_days_is_expected_again,
    a_reading_of_an_older_program_does_not_count,
    the_last_run_of_a_command_is_kept_until_the_pool_is_deleted,
];

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn sample(bench: &Bench) {
    let mut tx = bench.begin().await;
    tx.pools().sample_usage().await.unwrap();
    tx.commit().await.unwrap();
}

async fn demand(bench: &Bench) -> Demand {
    bench.store.read().await.unwrap().pools().demand(&adw()).await.unwrap().unwrap()
}

/// Twenty minutes in which `units` are requested, and again ten minutes later, as a keeper sees them.
async fn busy(bench: &Bench, cache: &mut PoolCache, units: u32) {
    sample(bench).await;
    for (name, units) in [("first", units), ("", 0), ("second", units), ("", 0)] {
        bench.clock.advance(5 * MINUTE);
        if units > 0 {
            ask(bench, cache, acquire(name, units)).await;
            // Asking again is not another request.
            ask(bench, cache, acquire(name, units)).await;
        }
        sample(bench).await;
    }
    for name in ["first", "second"] {
        give_back(bench, cache, release(name)).await;
    }
}

async fn what_was_requested_at_this_time_of_past_days_is_expected_again(bench: Bench) {
    create(&bench, 100).await;
    let start = bench.now();
    let mut cache = PoolCache::default();
    assert_eq!(demand(&bench).await.in_15_min, LaterDemand { p50: 0, p90: 0 });
    for (days, units) in [(0, 10), (1, 20), (2, 40)] {
        bench.clock.advance(start.plus(DAY * days).since(bench.now()));
        busy(&bench, &mut cache, units).await;
    }

    bench.clock.advance(start.plus(DAY * 3 + 5 * MINUTE).since(bench.now()));
    let expected = demand(&bench).await;

    // The runs took 15 minutes and 5 minutes, so of nine in ten all requests are still there after 15 minutes.
    assert_eq!((expected.now, expected.in_5_min), (0, LaterDemand { p50: 20, p90: 40 }));
    assert_eq!(expected.in_15_min.p90, 80);
    bench.clock.advance(120 * MINUTE);
    assert_eq!(demand(&bench).await.in_5_min, LaterDemand { p50: 0, p90: 0 }, "nothing at that time");
}

async fn a_reading_of_an_older_program_does_not_count(bench: Bench) {
    create(&bench, 100).await;
    let start = bench.now();
    busy(&bench, &mut PoolCache::default(), 10).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("update tidemill_pool_usage set requested = null").await.unwrap();
    tx.commit().await.unwrap();

    bench.clock.advance(start.plus(DAY + 5 * MINUTE).since(bench.now()));

    assert_eq!(demand(&bench).await.in_15_min, LaterDemand { p50: 0, p90: 0 });
}

async fn the_last_run_of_a_command_is_kept_until_the_pool_is_deleted(bench: Bench) {
    create(&bench, 10).await;
    let first = DemandRun { direction: Direction::Up, units: u64::MAX, at: bench.now(), succeeded: false };
    let second = DemandRun { direction: Direction::Down, units: 3, at: bench.now(), succeeded: true };
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().demand_run(&adw()).await.unwrap(), None);

    tx.pools().save_demand_run(&adw(), &first).await.unwrap();
    let stored = tx.pools().demand_run(&adw()).await.unwrap().unwrap();
    assert_eq!(stored, DemandRun { units: i64::MAX.unsigned_abs(), ..first });
    tx.pools().save_demand_run(&adw(), &second).await.unwrap();
    assert_eq!(tx.pools().demand_run(&adw()).await.unwrap(), Some(second));

    tx.pools().remove(&adw(), &ann(), None).await.unwrap();
    assert_eq!(tx.pools().demand_run(&adw()).await.unwrap(), None);
    tx.commit().await.unwrap();
}
