//! What happened in a pool, read back from its log for simulations.

use super::{acquire, adw, ask, create, give_back, release};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::pool::simulate::past::{OtherSettings, Past};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_store::pool::PoolCache;

crate::on_both![the_past_is_as_it_was_and_would_have_been_better_with_more, a_long_past_is_cut];

const MINUTE: Duration = Duration::from_secs(60);

/// Two runs that do not fit together: the second waits for ten minutes.
async fn two_runs(bench: &Bench) -> Timestamp {
    create(bench, 10).await;
    let mut cache = PoolCache::default();
    let began = bench.clock.now();
    ask(bench, &mut cache, acquire("a", 6)).await;
    ask(bench, &mut cache, acquire("b", 6)).await;
    bench.clock.advance(MINUTE * 10);
    give_back(bench, &mut cache, release("a")).await;
    ask(bench, &mut cache, acquire("b", 6)).await;
    bench.clock.advance(MINUTE * 5);
    give_back(bench, &mut cache, release("b")).await;
    began
}

async fn past(bench: &Bench, since: Timestamp, most: usize) -> Past {
    let mut tx = bench.store.read().await.unwrap();
    let past = tx.pools().past(&adw(), since, most).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    past
}

async fn the_past_is_as_it_was_and_would_have_been_better_with_more(bench: Bench) {
    let began = two_runs(&bench).await;

    let past = past(&bench, began, 1_000).await;

    let was = past.as_it_was().score;
    assert_eq!((was.batches, was.wait_max, was.peak), (2.0, 600.0, 6.0));
    let again = past.as_it_would_have_been(OtherSettings::default()).unwrap().score;
    assert_eq!((again.wait_max, again.flow_mean), (was.wait_max, was.flow_mean));
    let other = OtherSettings { limit: Some(12), ..OtherSettings::default() };
    let more = past.as_it_would_have_been(other).unwrap().score;
    assert_eq!((more.wait_max, more.peak), (0.0, 12.0));
    assert_eq!(past.until, bench.clock.now());
    let mut tx = bench.store.read().await.unwrap();
    assert!(tx.pools().past(&"none".parse().unwrap(), began, 10).await.unwrap().is_none());
}

async fn a_long_past_is_cut(bench: Bench) {
    let began = two_runs(&bench).await;

    let past = past(&bench, began, 4).await;

    assert!(past.until < bench.clock.now(), "{:?}", past.until);
    assert_eq!(past.workload.batches.len(), 1);
}
