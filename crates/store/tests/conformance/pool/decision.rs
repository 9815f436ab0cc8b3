//! Looking back: what was decided, page by page, and what was set at which time.

use super::{acquire, adw, ann, ask, create, give_back, release};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::pool::Settings;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::{Decision, DecisionPlace, PoolCache};

crate::on_both![
    decisions_come_in_pages_from_the_newest_on_and_none_is_left_out,
    what_was_set_is_known_for_every_instant,
    what_was_set_before_the_log_was_cut_is_still_known,
    what_nobody_changed_since_the_log_was_cut_was_so_before,
];

const HOUR: Duration = Duration::from_secs(3600);

async fn set(bench: &Bench, settings: &Settings, max_units: u32) {
    let mut tx = bench.begin().await;
    tx.pools().set(&Settings { max_units, ..settings.clone() }, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
}

/// A snapshot of what is now, and nothing is kept from before it.
async fn cut(bench: &Bench) {
    let mut tx = bench.begin().await;
    assert!(tx.pools().snapshot(&adw(), Duration::ZERO).await.unwrap());
    tx.commit().await.unwrap();
    bench.clock.advance(Duration::from_secs(1));
    let mut tx = bench.begin().await;
    assert!(tx.pools().forget_log(&adw(), Duration::ZERO, 1_000).await.unwrap() > 0);
    tx.commit().await.unwrap();
}

async fn known(bench: &Bench, since: Timestamp) -> Vec<(Timestamp, u32)> {
    let mut tx = bench.store.read().await.unwrap();
    let known = tx.pools().settings_since(&adw(), since).await.unwrap();
    tx.rollback().await.unwrap();
    known.into_iter().map(|(at, settings)| (at, settings.max_units)).collect()
}

async fn page(bench: &Bench, before: Option<DecisionPlace>, limit: u32) -> Vec<Decision> {
    let mut tx = bench.store.read().await.unwrap();
    let found = tx.pools().decisions(&adw(), before, limit).await.unwrap();
    tx.rollback().await.unwrap();
    found
}

async fn decisions_come_in_pages_from_the_newest_on_and_none_is_left_out(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    for run in ["a", "b", "c"] {
        ask(&bench, &mut cache, acquire(run, 4)).await;
    }
    let mut tx = bench.begin().await;
    assert!(tx.pools().snapshot(&adw(), Duration::ZERO).await.unwrap());
    tx.commit().await.unwrap();
    give_back(&bench, &mut cache, release("a")).await;

    let all = page(&bench, None, 100).await;
    let mut paged = Vec::new();
    while let found @ [_, ..] = &page(&bench, paged.last().map(|last: &Decision| last.place), 3).await[..] {
        paged.extend(found.iter().cloned());
    }

    assert_eq!(paged, all);
    assert!(all.is_sorted_by(|newer, older| newer.place > older.place));
    let kinds: Vec<&str> = all.iter().map(|decision| decision.event.kind()).collect();
    assert_eq!(kinds.last(), Some(&"configured"));
    assert!(!kinds.contains(&"snapshot") && kinds.contains(&"ended"), "{kinds:?}");
    let ended = all.iter().find(|decision| decision.event.kind() == "ended").unwrap();
    assert_eq!((ended.run.clone(), ended.at), (Some(("dag".into(), "a".into())), bench.now()));
    assert!(ended.ticket.is_some());
}

async fn what_was_set_is_known_for_every_instant(bench: Bench) {
    let made = bench.now();
    let settings = create(&bench, 10).await;
    bench.clock.advance(HOUR);
    let changed = bench.now();
    set(&bench, &settings, 20).await;
    bench.clock.advance(HOUR);

    assert_eq!(known(&bench, made).await, [(made, 10), (changed, 20)]);
    assert_eq!(known(&bench, made.plus(HOUR / 2)).await, [(made, 10), (changed, 20)]);
    assert_eq!(known(&bench, bench.now()).await, [(changed, 20)]);
    assert_eq!(known(&bench, made.minus(HOUR)).await, [(made, 10), (changed, 20)]);
}

async fn what_was_set_before_the_log_was_cut_is_still_known(bench: Bench) {
    let settings = create(&bench, 10).await;
    bench.clock.advance(HOUR);
    let snapshot = bench.now();
    cut(&bench).await;
    bench.clock.advance(HOUR);
    let changed = bench.now();
    set(&bench, &settings, 20).await;

    assert_eq!(known(&bench, snapshot.plus(HOUR / 2)).await, [(snapshot, 10), (changed, 20)]);
}

async fn what_nobody_changed_since_the_log_was_cut_was_so_before(bench: Bench) {
    create(&bench, 10).await;
    bench.clock.advance(HOUR);
    let snapshot = bench.now();
    cut(&bench).await;
    bench.clock.advance(HOUR);

    assert_eq!(known(&bench, bench.now()).await, [(snapshot, 10)]);
}
