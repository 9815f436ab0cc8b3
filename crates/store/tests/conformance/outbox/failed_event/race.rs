//! Operators and relays on the same events at the same instant: what the revisions and the locks are for.

use super::operate::{ann, edit, order};
use super::{all, block, delivered, due, except, ids, new, refused, settle, states, waiting, write};
use crate::Bench;
use tidemill_domain::outbox::failed_event::{FailedEventState, Verb};
use tidemill_domain::outbox::{EventId, Payload, Slot};
use tidemill_store::Store;
use tidemill_store::outbox::failed_event::{Operation, Selection, Settled};

crate::on_both![
    a_skip_during_an_attempt_wins,
    an_edit_during_an_attempt_wins_and_those_behind_are_sent_again,
    a_replay_during_the_last_attempt_is_not_lost,
    an_event_that_comes_first_meanwhile_may_be_delivered,
    an_event_that_is_added_behind_one_that_is_being_skipped_is_not_forgotten,
    an_event_that_is_being_skipped_while_one_is_added_behind_it_lets_it_go,
    of_two_operators_the_second_finds_what_the_first_has_left,
    operators_and_a_relay_at_once_leave_one_first_event_per_aggregate,
];

async fn a_skip_during_an_attempt_wins(bench: Bench) {
    write(&bench, &["a", "a", "a"]).await;
    block(&bench, "a", &[1, 2, 3]).await;
    let sent = due(&bench, 10, 10).await;

    order(&bench, 1, Verb::Skip).await.unwrap();
    let settled: Vec<Settled> = sent.events.iter().take(2).map(delivered).collect();
    let settling = settle(&bench, &settled).await;

    // The second one has arrived, and nothing before it is open.
    assert_eq!(settling.changed, 1);
    assert_eq!(states(&bench).await, [(1, "skipped"), (3, "waiting")]);
    let settling = settle(&bench, &[refused(&sent.events[0], FailedEventState::Parked)]).await;
    assert_eq!((settling.changed, states(&bench).await[0]), (0, (1, "skipped")));
}

async fn an_edit_during_an_attempt_wins_and_those_behind_are_sent_again(bench: Bench) {
    write(&bench, &["a", "a", "a"]).await;
    block(&bench, "a", &[1, 2, 3]).await;
    let sent = due(&bench, 10, 10).await;

    order(&bench, 2, edit("{\"n\":\"new\"}")).await.unwrap();
    let settled: Vec<Settled> = sent.events.iter().map(delivered).collect();
    let settling = settle(&bench, &settled).await;

    assert_eq!((settling.changed, settling.unblocked), (1, vec![]));
    let again = due(&bench, 10, 10).await;
    assert_eq!(ids(&again), [2, 3]);
    assert_eq!(again.events[0].payload, Payload::Json("{\"n\":\"new\"}".into()));
}

async fn a_replay_during_the_last_attempt_is_not_lost(bench: Bench) {
    write(&bench, &["a"]).await;
    block(&bench, "a", &[1]).await;
    let sent = due(&bench, 10, 10).await;

    order(&bench, 1, Verb::Replay).await.unwrap();
    let settling = settle(&bench, &[refused(&sent.events[0], FailedEventState::Parked)]).await;

    assert_eq!((settling.changed, states(&bench).await), (0, vec![(1, "waiting")]));
    assert_eq!(due(&bench, 10, 10).await.events[0].attempts, 0);
}

async fn an_event_that_comes_first_meanwhile_may_be_delivered(bench: Bench) {
    write(&bench, &["a", "a"]).await;
    block(&bench, "a", &[1, 2]).await;
    let sent = due(&bench, 10, 10).await;

    order(&bench, 1, Verb::Skip).await.unwrap();
    assert_eq!(states(&bench).await, [(1, "skipped"), (2, "waiting")]);
    let settling = settle(&bench, &[delivered(&sent.events[1])]).await;

    assert_eq!(settling.unblocked, [(Slot::of("a"), super::order("a"))]);
    assert_eq!(states(&bench).await, [(1, "skipped")]);
}

/// Gives an order in a transaction of its own, beside what the test has open.
fn beside(store: Store, id: i64, verb: Verb) -> tokio::task::JoinHandle<usize> {
    tokio::spawn(async move {
        let mut tx = store.begin().await.unwrap();
        let operation = Operation { verb: &verb, actor: &ann(), reason: "now", limit: 10 };
        let operated = tx.outbox().operate(&Selection::One(EventId::new(id)), &operation).await.unwrap();
        tx.commit().await.unwrap();
        operated.changed.len()
    })
}

async fn an_event_that_is_being_skipped_while_one_is_added_behind_it_lets_it_go(bench: Bench) {
    write(&bench, &["a", "a"]).await;
    block(&bench, "a", &[1]).await;
    let mut relay = bench.begin().await;
    relay.outbox().add_failed_events(&[new(2, "a", FailedEventState::Held)], bench.now()).await.unwrap();

    let skipping = beside(bench.store.clone(), 1, Verb::Skip);
    bench.until_blocked(&[&skipping]).await;
    relay.commit().await.unwrap();

    assert_eq!(skipping.await.unwrap(), 1);
    assert_eq!(states(&bench).await, [(1, "skipped"), (2, "waiting")]);
}

async fn an_event_that_is_added_behind_one_that_is_being_skipped_is_not_forgotten(bench: Bench) {
    write(&bench, &["a", "a"]).await;
    block(&bench, "a", &[1]).await;
    let mut operator = bench.begin().await;
    let operation = Operation { verb: &Verb::Skip, actor: &ann(), reason: "now", limit: 10 };
    let operated = operator.outbox().operate(&Selection::One(EventId::new(1)), &operation).await.unwrap();
    assert_eq!(operated.changed.len(), 1);

    let (store, now) = (bench.store.clone(), bench.now());
    let adding = tokio::spawn(async move {
        let mut relay = store.begin().await.unwrap();
        relay.outbox().add_failed_events(&[new(2, "a", FailedEventState::Held)], now).await.unwrap();
        relay.commit().await.unwrap();
    });
    bench.until_blocked(&[&adding]).await;
    operator.commit().await.unwrap();
    adding.await.unwrap();

    assert_eq!(states(&bench).await, [(1, "skipped"), (2, "waiting")]);
}

async fn of_two_operators_the_second_finds_what_the_first_has_left(bench: Bench) {
    write(&bench, &["a", "a", "a"]).await;
    block(&bench, "a", &[1, 2, 3]).await;
    let mut first = bench.begin().await;
    let operation = Operation { verb: &Verb::Skip, actor: &ann(), reason: "now", limit: 10 };
    let _skipped = first.outbox().operate(&Selection::One(EventId::new(1)), &operation).await.unwrap();

    let others = [beside(bench.store.clone(), 1, Verb::Replay), beside(bench.store.clone(), 2, Verb::Skip)];
    bench.until_blocked(&others.each_ref()).await;
    first.commit().await.unwrap();

    let [replayed, skipped] = others;
    assert_eq!((replayed.await.unwrap(), skipped.await.unwrap()), (0, 1));
    assert_eq!(states(&bench).await, [(1, "skipped"), (2, "skipped"), (3, "waiting")]);
}

/// Adds events behind each other, tries and settles, while two operators skip and replay at random.
async fn operators_and_a_relay_at_once_leave_one_first_event_per_aggregate(bench: Bench) {
    const EVENTS: i64 = 60;
    let aggregates: Vec<&str> = (0..EVENTS).map(|n| if n % 2 == 0 { "a" } else { "b" }).collect();
    write(&bench, &aggregates).await;
    let mut operators = tokio::task::JoinSet::new();
    for number in 0..2_i64 {
        let store = bench.store.clone();
        operators.spawn(async move {
            for turn in 0..80_i64 {
                let id = (turn * 7 + number * 13) % EVENTS + 1;
                let verb = if turn % 3 == 0 { Verb::Replay } else { Verb::Skip };
                beside(store.clone(), id, verb).await.unwrap();
            }
        });
    }
    for id in 1..=EVENTS {
        let aggregate = aggregates[usize::try_from(id).unwrap() - 1];
        let state = if id % 5 == 0 { waiting(bench.now()) } else { FailedEventState::Held };
        except(&bench, &[new(id, aggregate, state)]).await;
        if id % 3 == 0 {
            let sent = due(&bench, 2, 4).await;
            let settled: Vec<Settled> = sent.events.iter().map(delivered).collect();
            settle(&bench, &settled).await;
        }
    }
    while let Some(done) = operators.join_next().await {
        done.unwrap();
    }

    for aggregate in ["a", "b"] {
        let open: Vec<_> = all(&bench).await;
        let open =
            open.iter().filter(|one| one.aggregate.id == aggregate && one.failed_event.state.is_open());
        for (n, one) in open.enumerate() {
            assert_eq!(one.failed_event.state == FailedEventState::Held, n > 0, "{one:?}");
        }
    }
}
