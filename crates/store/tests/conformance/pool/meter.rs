//! What is measured about pools.

use super::{acquire, adw, ask, create, give_back, pass, release};
use crate::Bench;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::pool::State;
use tidemill_domain::pool::command::{Answer, Release};
use tidemill_domain::pool::estimate::{SCORED_LEAST, accuracy};
use tidemill_domain::pool::event::End;
use tidemill_store::pool::{PoolCache, PoolLevel};

crate::on_both![
    levels_tell_how_full_a_pool_is_and_how_old_its_queue,
    waits_are_of_those_that_had_to_wait_and_got_their_units,
    timeouts_are_those_that_left_the_queue_of_their_own_accord,
    estimates_are_compared_with_what_happened,
];

const MINUTE: Duration = Duration::from_secs(60);

async fn level(bench: &Bench) -> PoolLevel {
    let mut levels = bench.store.read().await.unwrap().pools().levels(10).await.unwrap();
    assert_eq!(levels.len(), 1);
    levels.remove(0)
}

async fn waits(bench: &Bench) -> Option<Duration> {
    let mut waits = bench.store.read().await.unwrap().pools().waits(5 * MINUTE).await.unwrap();
    let of_adw = waits.remove(&adw());
    assert_eq!(waits, BTreeMap::new());
    of_adw
}

async fn timeouts(bench: &Bench) -> Option<u64> {
    bench.store.read().await.unwrap().pools().timeouts(MINUTE).await.unwrap().remove(&adw())
}

async fn levels_tell_how_full_a_pool_is_and_how_old_its_queue(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    assert_eq!(level(&bench).await.oldest_wait, Duration::ZERO);

    ask(&bench, &mut cache, acquire("a", 8)).await;
    ask(&bench, &mut cache, acquire("b", 6)).await;
    bench.clock.advance(MINUTE);
    ask(&bench, &mut cache, acquire("c", 6)).await;
    bench.clock.advance(MINUTE);

    let seen = level(&bench).await;
    assert_eq!((seen.settings.name.clone(), seen.settings.external_id), (adw(), Some(4)));
    assert_eq!((seen.level.usage, seen.level.limit, seen.level.max_units), (8, 10, 10));
    assert_eq!((seen.active, seen.waiting, seen.suspect), (1, 2, 0));
    assert_eq!(seen.oldest_wait, 2 * MINUTE);
}

async fn waits_are_of_those_that_had_to_wait_and_got_their_units(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("at once", 8)).await;
    for run in ["b", "c", "waits"] {
        ask(&bench, &mut cache, acquire(run, 8)).await;
    }
    assert_eq!(waits(&bench).await, None);

    // One of the two is over by the end, the other still there.
    bench.clock.advance(MINUTE);
    give_back(&bench, &mut cache, release("at once")).await;
    bench.clock.advance(2 * MINUTE);
    give_back(&bench, &mut cache, release("b")).await;

    assert_eq!(waits(&bench).await, Some(2 * MINUTE), "one and three minutes");
    bench.clock.advance(4 * MINUTE);
    assert_eq!(waits(&bench).await, Some(3 * MINUTE), "b got its units too long ago");
    bench.clock.advance(2 * MINUTE);
    assert_eq!(waits(&bench).await, None);
}

async fn timeouts_are_those_that_left_the_queue_of_their_own_accord(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    for run in ["holds", "gives up", "is taken out", "stops asking"] {
        ask(&bench, &mut cache, acquire(run, 8)).await;
    }
    assert_eq!(timeouts(&bench).await, None);

    let by_operator = End::ByOperator { by: "ann".into(), reason: "not tonight".into() };
    give_back(&bench, &mut cache, Release { end: by_operator, ..release("is taken out") }).await;
    assert_eq!(timeouts(&bench).await, None);
    let left = give_back(&bench, &mut cache, release("gives up")).await;
    assert!(matches!(left, Answer::Released(released) if released.cancelled_waiting));
    assert_eq!(timeouts(&bench).await, Some(1));
    bench.clock.advance(MINUTE * 30);
    assert_eq!(timeouts(&bench).await, None);
    pass(&bench, &mut cache, &[]).await;
    assert_eq!(timeouts(&bench).await, Some(1));
    give_back(&bench, &mut cache, release("holds")).await;
    assert_eq!(timeouts(&bench).await, Some(1), "who had its units did not leave the queue");
}

async fn estimates_are_compared_with_what_happened(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    let scored = async || bench.store.read().await.unwrap().pools().estimate_accuracy(&adw()).await.unwrap();
    assert_eq!((scored().await.count, scored().await.is_enough()), (0, false));
    for number in 0..25_u32 {
        let (holds, waits) = (format!("holds-{number}"), format!("waits-{number}"));
        ask(&bench, &mut cache, acquire(&holds, 10)).await;
        assert!(matches!(ask(&bench, &mut cache, acquire(&waits, 10)).await, Answer::Waits(_)));
        // Some runs take longer than those before.
        bench.clock.advance(MINUTE * (5 + number % 3));
        give_back(&bench, &mut cache, release(&holds)).await;
        give_back(&bench, &mut cache, release(&waits)).await;
        let has_enough = number as usize + 1 >= SCORED_LEAST;
        assert_eq!(scored().await.is_enough(), has_enough, "{number}");
    }

    let mut tx = bench.begin().await;
    let ended = tx.pools().tickets(&adw(), &[State::Released], 100).await.unwrap();
    let started = ended.iter().filter_map(|record| {
        let ticket = &record.ticket;
        Some((ticket.claimed_at.or(ticket.granted_at)?, ticket.eta?))
    });
    let expected = accuracy(started);
    assert_eq!((scored().await, expected.count), (expected, 25), "who did not wait has no estimate");
    assert!(!expected.median_error.is_zero(), "{expected}");
}
