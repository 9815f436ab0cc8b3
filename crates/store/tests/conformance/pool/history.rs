//! What is old is forgotten, and what is left still tells the whole state.

use super::{acquire, adw, ann, ask, audited, create, give_back, pass, release, units};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::pool::Settings;
use tidemill_domain::pool::command::{Acquire, Answer};
use tidemill_store::pool::PoolCache;

crate::on_both![
    old_tickets_go_and_what_is_known_of_their_runs_stays,
    who_slept_through_what_was_forgotten_reads_all_that_is_live,
    the_log_is_cut_at_a_snapshot_and_still_tells_the_state,
    a_log_that_is_half_cut_is_followed_from_the_snapshot,
    a_pool_that_did_not_change_gets_no_snapshot,
    a_snapshot_that_the_log_does_not_tell_is_noticed,
    usage_is_gathered_in_steps_of_five_minutes,
    the_fullest_step_of_a_day_is_a_story,
];

const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

async fn run(bench: &Bench, cache: &mut PoolCache, name: &str, seconds: u64) {
    ask(bench, cache, acquire(name, 4)).await;
    bench.clock.advance(Duration::from_secs(seconds));
    give_back(bench, cache, release(name)).await;
}

async fn forget_tickets(bench: &Bench, keep: Duration, limit: u32) -> u64 {
    let mut tx = bench.begin().await;
    let gone = tx.pools().forget_tickets(&adw(), keep, limit).await.unwrap();
    tx.commit().await.unwrap();
    gone
}

async fn forget_log(bench: &Bench, keep: Duration, limit: u32) -> u64 {
    let mut tx = bench.begin().await;
    let gone = tx.pools().forget_log(&adw(), keep, limit).await.unwrap();
    tx.commit().await.unwrap();
    gone
}

async fn snapshot(bench: &Bench) -> bool {
    let mut tx = bench.begin().await;
    let written = tx.pools().snapshot(&adw(), HOUR).await.unwrap();
    tx.commit().await.unwrap();
    written
}

async fn records(bench: &Bench) -> u64 {
    let mut tx = bench.store.read().await.unwrap();
    let audited = tx.pools().verify(&adw()).await.unwrap().unwrap();
    assert_eq!(audited.differences, []);
    audited.records
}

async fn old_tickets_go_and_what_is_known_of_their_runs_stays(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    for number in 0..40 {
        run(&bench, &mut cache, &format!("old-{number}"), 60 + number).await;
    }
    bench.clock.advance(DAY);
    run(&bench, &mut cache, "new", 1_000).await;
    ask(&bench, &mut cache, acquire("live", 4)).await;

    assert_eq!(forget_tickets(&bench, DAY, 25).await, 25);
    assert_eq!(forget_tickets(&bench, DAY, 25).await, 15);
    assert_eq!(forget_tickets(&bench, DAY, 25).await, 0);

    let mut tx = bench.store.read().await.unwrap();
    assert!(tx.pools().tickets_of_run("old-3", 10).await.unwrap().is_empty());
    assert_eq!(tx.pools().tickets_of_run("new", 10).await.unwrap().len(), 1);
    assert_eq!(tx.pools().tickets_of_run("live", 10).await.unwrap().len(), 1);
    let ledger = tx.pools().ledger(&adw()).await.unwrap().unwrap();
    let kinds: Vec<_> = ledger.run_times.kinds().collect();
    assert_eq!(kinds.len(), 1);
    // The last thirty: those of the forgotten that are kept, and the one whose ticket is still there.
    let expected: Vec<u32> = (71..100).chain([1_000]).collect();
    assert_eq!((kinds[0].0.dag_id.as_str(), &kinds[0].2), ("dag", &expected));
    drop(tx);
    assert_eq!(audited(&bench).await, 4);
}

async fn who_slept_through_what_was_forgotten_reads_all_that_is_live(bench: Bench) {
    create(&bench, 4).await;
    let (mut first, mut asleep) = (PoolCache::default(), PoolCache::default());
    assert_eq!(units(&ask(&bench, &mut asleep, acquire("a", 4)).await), Some(4));
    give_back(&bench, &mut first, release("a")).await;
    bench.clock.advance(2 * DAY);
    assert_eq!(forget_tickets(&bench, DAY, 100).await, 1);
    pass(&bench, &mut first, &[]).await;

    // Otherwise it would wait for ever for somebody who has long gone.
    assert_eq!(units(&ask(&bench, &mut asleep, acquire("b", 4)).await), Some(4));
    assert_eq!(audited(&bench).await, 4);
}

async fn the_log_is_cut_at_a_snapshot_and_still_tells_the_state(bench: Bench) {
    let settings = Settings { max_hold: 7 * DAY, ..create(&bench, 10).await };
    let mut tx = bench.begin().await;
    tx.pools().set(&settings, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("held", 4)).await;
    // A day and a half, with a snapshot each hour; every few hours something is forgotten.
    let mut cuts = 0;
    for hour in 0..36_u64 {
        run(&bench, &mut cache, &format!("r{hour}"), 600).await;
        bench.clock.advance(HOUR);
        if hour == 20 {
            let mut tx = bench.begin().await;
            let other = Settings { max_units: 12, ..settings.clone() };
            tx.pools().set(&other, &ann(), None).await.unwrap();
            tx.commit().await.unwrap();
        }
        assert!(snapshot(&bench).await);
        if hour % 5 == 4 {
            cuts += u32::from(forget_log(&bench, 6 * HOUR, 10_000).await > 0);
            forget_tickets(&bench, 6 * HOUR, 10_000).await;
        }
        assert_eq!(audited(&bench).await, 4, "hour {hour}");
    }

    assert!(cuts >= 5, "{cuts}");
    assert!(records(&bench).await < 60, "about seven hours with six records each");
    // Whoever begins now finds the same.
    assert_eq!(units(&ask(&bench, &mut PoolCache::default(), acquire("x", 8)).await), Some(8));
    assert_eq!(audited(&bench).await, 12);
}

async fn a_log_that_is_half_cut_is_followed_from_the_snapshot(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("held", 4)).await;
    for number in 0..5 {
        run(&bench, &mut cache, &format!("r{number}"), 60).await;
    }
    bench.clock.advance(HOUR);
    assert!(snapshot(&bench).await);
    bench.clock.advance(DAY);

    assert_eq!(forget_log(&bench, HOUR, 3).await, 3);
    assert_eq!(records(&bench).await, 1);
    while forget_log(&bench, HOUR, 3).await > 0 {}

    assert_eq!(records(&bench).await, 1);
    assert_eq!(audited(&bench).await, 4);
}

async fn a_pool_that_did_not_change_gets_no_snapshot(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    assert!(!snapshot(&bench).await, "it was made less than an hour ago");
    bench.clock.advance(HOUR);
    assert!(snapshot(&bench).await);
    bench.clock.advance(2 * HOUR);
    assert!(!snapshot(&bench).await, "nothing was decided since");
    ask(&bench, &mut cache, acquire("a", 4)).await;
    assert!(snapshot(&bench).await);
    ask(&bench, &mut cache, acquire("b", 4)).await;
    assert!(!snapshot(&bench).await, "the last one is not an hour old");
    assert_eq!(audited(&bench).await, 8);
}

async fn a_snapshot_that_the_log_does_not_tell_is_noticed(bench: Bench) {
    create(&bench, 10).await;
    ask(&bench, &mut PoolCache::default(), acquire("a", 4)).await;
    bench.clock.advance(HOUR);
    assert!(snapshot(&bench).await);
    assert_eq!(audited(&bench).await, 4);

    let mut tx = bench.begin().await;
    let fault = "update tidemill_pool_log set event = replace(event, '\"granted\":4', '\"granted\":3')
                 where kind = 'snapshot'";
    tx.execute_for_test(fault).await.unwrap();
    let differences = tx.pools().verify(&adw()).await.unwrap().unwrap().differences;

    assert!(differences[0].to_string().contains("does not match the records before it"), "{differences:?}");
}

async fn sample(bench: &Bench) {
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().sample_usage().await.unwrap(), 1);
    tx.commit().await.unwrap();
}

async fn usage_is_gathered_in_steps_of_five_minutes(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    let start = bench.now();
    assert_eq!(bench.begin().await.pools().first_usage(&adw()).await.unwrap(), None);
    sample(&bench).await;
    ask(&bench, &mut cache, acquire("a", 6)).await;
    let waits = Acquire { stays: HOUR, ..acquire("b", 6) };
    assert!(matches!(ask(&bench, &mut cache, waits).await, Answer::Waits(_)));
    bench.clock.advance(Duration::from_secs(299));
    sample(&bench).await;
    give_back(&bench, &mut cache, release("b")).await;
    bench.clock.advance(Duration::from_secs(1));
    sample(&bench).await;

    let mut tx = bench.begin().await;
    let steps = tx.pools().usage(&adw(), start).await.unwrap();
    let seen: Vec<_> = steps
        .iter()
        .map(|step| (step.at, step.least, step.most, step.total, step.samples, step.most_waiting))
        .collect();
    assert_eq!(
        seen,
        [(start, 0, 6, 6, 2, 1), (start.plus(Duration::from_secs(300)), 6, 6, 6, 1, 0)],
        "the clock of the test starts with a step"
    );
    assert_eq!(tx.pools().first_usage(&adw()).await.unwrap().as_ref(), steps.first());
    bench.clock.advance(7 * DAY + HOUR);
    assert_eq!(tx.pools().forget_usage(&adw()).await.unwrap(), 1);
    assert_eq!(tx.pools().usage(&adw(), start).await.unwrap().len(), 1);
    assert_eq!(tx.pools().first_usage(&adw()).await.unwrap().as_ref(), steps.last());
}

async fn the_fullest_step_of_a_day_is_a_story(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    let stories = |bench: &Bench| {
        let store = bench.store.clone();
        async move {
            let mut tx = store.read().await.unwrap();
            let told = tx.pools().events(Some(&adw()), 20).await.unwrap();
            assert_eq!(told, tx.pools().events(None, 20).await.unwrap(), "there is but one pool");
            told.into_iter().map(|story| story.text).collect::<Vec<_>>()
        }
    };
    for (run, units) in [("a", 6), ("b", 2), ("c", 1)] {
        ask(&bench, &mut cache, acquire(run, units)).await;
        sample(&bench).await;
        if run == "b" {
            give_back(&bench, &mut cache, release("b")).await;
        }
        bench.clock.advance(Duration::from_secs(300));
    }

    let told = stories(&bench).await;

    assert_eq!(told[0], "Peak usage: 8 connections (ADW)", "{told:?}");
    assert_eq!(told.iter().filter(|text| text.starts_with("Peak")).count(), 2, "{told:?}");
    assert!(told.contains(&"ADW created by ann: 10 units with a limit of 100 %".to_owned()), "{told:?}");
}
