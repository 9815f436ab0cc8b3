//! Events that were not taken: what the relay records of them, and what it tries again.

mod model;
mod operate;
mod plan;
mod race;

use crate::Bench;
use std::time::Duration;
use tidemill_domain::outbox::failed_event::{FailedEvent, FailedEventState, Original};
use tidemill_domain::outbox::{Aggregate, EventId, Payload, Seq, Slot};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::failed_event::{
    Due, DueEvent, FailedEventFilter, FailedEventRecord, NewFailedEvent, Settled, SettledAs, Settling,
};

crate::on_both![
    a_refused_event_blocks_its_aggregate_and_no_other,
    what_comes_behind_an_open_event_is_held_whatever_was_asked,
    an_event_whose_blocker_is_gone_is_due_at_once,
    an_event_that_failed_already_stays_as_it_is,
    what_is_due_comes_with_those_behind_it,
    every_aggregate_gets_its_share,
    an_event_that_cannot_be_published_is_reported_and_not_waited_for,
    what_is_delivered_is_forgotten_and_the_next_is_due,
    a_refusal_is_counted_and_the_last_one_parks,
    an_error_that_cannot_be_stored_is_stored_without_what_is_wrong,
];

/// Writes one event for each of these aggregates, as another program would; their ids count from 1 on.
async fn write(bench: &Bench, aggregates: &[&str]) {
    let mut tx = bench.begin().await;
    for (n, id) in aggregates.iter().enumerate() {
        tx.execute_for_test(&format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, headers)
             values ('order', '{id}', 'order.paid', 'orders', '{{\"n\":{}}}', '{{\"trace\":\"t\"}}')",
            n + 1
        ))
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
}

/// Event `id` of an aggregate, whose place in its slot is its id.
pub(super) fn new(id: i64, aggregate: &str, state: FailedEventState) -> NewFailedEvent {
    let attempts = u32::from(state != FailedEventState::Held);
    NewFailedEvent {
        event_id: EventId::new(id),
        slot: Slot::of(aggregate),
        seq: Seq::new(id),
        aggregate: order(aggregate),
        event_type: "order.paid".into(),
        attempts,
        state,
        error: (attempts > 0).then(|| "the sink says no".into()),
    }
}

fn order(id: &str) -> Aggregate {
    Aggregate { kind: "order".into(), id: id.into() }
}

pub(super) fn waiting(at: Timestamp) -> FailedEventState {
    FailedEventState::Waiting { next_attempt_at: at }
}

async fn except(bench: &Bench, new: &[NewFailedEvent]) {
    let mut tx = bench.begin().await;
    tx.outbox().add_failed_events(new, bench.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Events of one aggregate: the first one is due, the others are held behind it.
async fn block(bench: &Bench, aggregate: &str, ids: &[i64]) {
    let state = |n| if n == 0 { waiting(bench.now()) } else { FailedEventState::Held };
    let new: Vec<NewFailedEvent> =
        ids.iter().enumerate().map(|(n, id)| new(*id, aggregate, state(n))).collect();
    except(bench, &new).await;
}

pub(super) async fn due(bench: &Bench, heads_max: u32, events_max: u32) -> Due {
    let mut tx = bench.store.read().await.unwrap();
    let slots: Vec<Slot> = Slot::all().collect();
    tx.outbox().due(&slots, bench.now(), heads_max, events_max).await.unwrap()
}

pub(super) fn delivered(event: &DueEvent) -> Settled {
    Settled { event_id: event.id, revision: event.revision, what: SettledAs::Delivered }
}

fn refused(event: &DueEvent, state: FailedEventState) -> Settled {
    let what = SettledAs::Refused { state, error: "still no".into() };
    Settled { event_id: event.id, revision: event.revision, what }
}

pub(super) async fn settle(bench: &Bench, settled: &[Settled]) -> Settling {
    let mut tx = bench.begin().await;
    let settling = tx.outbox().settle(settled, bench.now()).await.unwrap();
    tx.commit().await.unwrap();
    settling
}

async fn all(bench: &Bench) -> Vec<FailedEventRecord> {
    let mut tx = bench.store.read().await.unwrap();
    tx.outbox().failed_events(&FailedEventFilter::default(), EventId::ZERO, 10_000).await.unwrap()
}

async fn states(bench: &Bench) -> Vec<(i64, &'static str)> {
    all(bench).await.iter().map(|one| (one.id.get(), one.failed_event.state.word().as_str())).collect()
}

fn ids(due: &Due) -> Vec<i64> {
    due.events.iter().map(|event| event.id.get()).collect()
}

async fn a_refused_event_blocks_its_aggregate_and_no_other(bench: Bench) {
    write(&bench, &["a", "b"]).await;
    let now = bench.now();

    except(&bench, &[new(1, "a", waiting(now.plus(Duration::from_secs(5))))]).await;

    let mut tx = bench.store.read().await.unwrap();
    let slots = [Slot::of("a"), Slot::of("b")];
    assert_eq!(tx.outbox().blocked(&slots).await.unwrap(), [(Slot::of("a"), order("a"))]);
    assert!(tx.outbox().blocked(&[Slot::of("b")]).await.unwrap().is_empty());
    let detail = tx.outbox().failed_event(EventId::new(1)).await.unwrap().unwrap();
    let record = detail.record;
    let state = waiting(now.plus(Duration::from_secs(5)));
    assert_eq!(record.failed_event, FailedEvent { state, attempts: 1, revision: 0 });
    assert_eq!(
        (record.topic.as_deref(), record.error.as_deref()),
        (Some("orders"), Some("the sink says no"))
    );
    assert_eq!((record.since, record.original), (now, Original::Kept));
    let content = detail.content.unwrap().unwrap();
    assert_eq!(content.payload, Payload::Json("{\"n\":1}".into()));
    assert_eq!(content.headers["trace"], "t");
    assert!(tx.outbox().failed_event(EventId::new(2)).await.unwrap().is_none());
}

async fn what_comes_behind_an_open_event_is_held_whatever_was_asked(bench: Bench) {
    write(&bench, &["a", "a", "a", "a", "b"]).await;
    let now = bench.now();
    // In one go, the later one first; the sink has refused both.
    except(&bench, &[new(2, "a", waiting(now)), new(1, "a", FailedEventState::Parked)]).await;

    except(
        &bench,
        &[new(3, "a", waiting(now)), new(4, "a", FailedEventState::Parked), new(5, "b", waiting(now))],
    )
    .await;

    let held = [(1, "parked"), (2, "held"), (3, "held"), (4, "held"), (5, "waiting")];
    assert_eq!(states(&bench).await, held);
    let behind: Vec<_> = all(&bench).await.iter().map(|one| one.behind.map(EventId::get)).collect();
    assert_eq!(behind, [None, Some(1), Some(1), Some(1), None]);
}

async fn an_event_whose_blocker_is_gone_is_due_at_once(bench: Bench) {
    write(&bench, &["a", "a"]).await;

    // The relay thinks that the aggregate is blocked, and it is not any more.
    except(&bench, &[new(1, "a", FailedEventState::Held), new(2, "a", FailedEventState::Held)]).await;

    assert_eq!(states(&bench).await, [(1, "waiting"), (2, "held")]);
    assert_eq!(ids(&due(&bench, 10, 10).await), [1, 2]);
}

async fn an_event_that_failed_already_stays_as_it_is(bench: Bench) {
    write(&bench, &["a", "a", "a"]).await;
    except(&bench, &[new(1, "a", FailedEventState::Skipped), new(2, "a", FailedEventState::Parked)]).await;
    let before = all(&bench).await;

    except(&bench, &[new(1, "a", waiting(bench.now())), new(2, "a", waiting(bench.now()))]).await;

    assert_eq!(all(&bench).await, before);
    assert_eq!(states(&bench).await, [(1, "skipped"), (2, "parked")]);
}

async fn what_is_due_comes_with_those_behind_it(bench: Bench) {
    write(&bench, &["a", "b", "a", "b", "a", "c"]).await;
    block(&bench, "a", &[1, 3, 5]).await;
    bench.advance(Duration::from_secs(1));
    block(&bench, "b", &[2, 4]).await;
    except(&bench, &[new(6, "c", waiting(bench.now().plus(Duration::from_secs(1))))]).await;

    let now = due(&bench, 10, 100).await;

    // The longest overdue first; c is not due yet.
    assert_eq!(ids(&now), [1, 3, 5, 2, 4]);
    let first = &now.events[0];
    assert_eq!((first.slot, first.seq, &first.aggregate), (Slot::of("a"), Seq::new(1), &order("a")));
    assert_eq!((first.topic.as_str(), first.event_type.as_str()), ("orders", "order.paid"));
    assert_eq!((first.attempts, first.revision), (1, 0));
    assert_eq!(first.payload, Payload::Json("{\"n\":1}".into()));
    assert_eq!(first.headers["trace"], "t");
    let mut tx = bench.store.read().await.unwrap();
    let of_b = tx.outbox().due(&[Slot::of("b")], bench.now(), 10, 100).await.unwrap();
    assert_eq!(ids(&of_b), [2, 4]);
    bench.advance(Duration::from_secs(1));
    assert_eq!(ids(&due(&bench, 1, 100).await), [1, 3, 5]);
    assert_eq!(ids(&due(&bench, 10, 100).await), [1, 3, 5, 2, 4, 6]);
}

async fn every_aggregate_gets_its_share(bench: Bench) {
    write(&bench, &["a"; 20]).await;
    block(&bench, "a", &(1..=18).collect::<Vec<_>>()).await;
    bench.advance(Duration::from_secs(1));
    block(&bench, "b", &[19, 20]).await;

    assert_eq!(ids(&due(&bench, 10, 6).await), [1, 2, 3, 19, 20]);
    assert_eq!(ids(&due(&bench, 10, 1).await), [1]);
    assert_eq!(ids(&due(&bench, 1, 4).await), [1, 2, 3, 4]);
}

async fn an_event_that_cannot_be_published_is_reported_and_not_waited_for(bench: Bench) {
    write(&bench, &["a", "a", "b", "b"]).await;
    block(&bench, "a", &[1, 2]).await;
    block(&bench, "b", &[3, 4]).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("delete from outbox_event where id in (1, 4)").await.unwrap();
    tx.commit().await.unwrap();

    let found = due(&bench, 10, 100).await;

    // What is behind an event that is gone waits with it; an event that is gone behind another one has its turn later.
    assert_eq!(ids(&found), [3]);
    let reported: Vec<_> = found.unpublishable.iter().map(|one| one.event_id.get()).collect();
    assert_eq!(reported, [1]);
    let mut settled = found.unpublishable.clone();
    settled.push(delivered(&found.events[0]));
    settle(&bench, &settled).await;
    assert_eq!(states(&bench).await, [(1, "parked"), (2, "held"), (4, "waiting")]);
    let gone = &all(&bench).await[0];
    assert_eq!((gone.original, gone.topic.as_deref()), (Original::Gone, None));
    assert!(gone.error.as_deref().unwrap().contains("no longer in the table"));
    assert_eq!(due(&bench, 10, 100).await.unpublishable[0].event_id.get(), 4);
}

async fn what_is_delivered_is_forgotten_and_the_next_is_due(bench: Bench) {
    write(&bench, &["a", "a", "a", "b"]).await;
    block(&bench, "a", &[1, 2, 3]).await;
    block(&bench, "b", &[4]).await;
    let found = due(&bench, 10, 4).await;
    assert_eq!(ids(&found), [1, 2, 4]);
    bench.advance(Duration::from_secs(1));

    let settled: Vec<Settled> = found.events.iter().map(delivered).collect();
    let first = settle(&bench, &settled).await;

    assert_eq!((first.changed, first.unblocked), (3, vec![(Slot::of("b"), order("b"))]));
    assert_eq!(all(&bench).await[0].failed_event.state, waiting(bench.now()));
    let rest = due(&bench, 10, 10).await;
    assert_eq!(ids(&rest), [3]);
    let last = settle(&bench, &[delivered(&rest.events[0])]).await;
    assert_eq!((last.changed, last.unblocked), (1, vec![(Slot::of("a"), order("a"))]));
    // The same once more, because nobody could tell whether it had committed.
    assert_eq!(settle(&bench, &[delivered(&rest.events[0])]).await, Settling::default());
    assert!(all(&bench).await.is_empty());
}

async fn a_refusal_is_counted_and_the_last_one_parks(bench: Bench) {
    write(&bench, &["a", "a", "a"]).await;
    block(&bench, "a", &[1, 2, 3]).await;
    let later = bench.now().plus(Duration::from_secs(7));
    let found = due(&bench, 10, 10).await;

    let settling =
        settle(&bench, &[delivered(&found.events[0]), refused(&found.events[1], waiting(later))]).await;

    assert_eq!((settling.changed, settling.unblocked), (2, vec![]));
    assert_eq!(states(&bench).await, [(2, "waiting"), (3, "held")]);
    let second = &all(&bench).await[0];
    assert_eq!(second.failed_event, FailedEvent { state: waiting(later), attempts: 1, revision: 1 });
    assert_eq!(second.error.as_deref(), Some("still no"));
    assert!(due(&bench, 10, 10).await.events.is_empty());
    bench.advance(Duration::from_secs(7));
    let again = due(&bench, 10, 10).await;
    settle(&bench, &[refused(&again.events[0], FailedEventState::Parked)]).await;
    assert_eq!(states(&bench).await, [(2, "parked"), (3, "held")]);
    assert!(due(&bench, 10, 10).await.events.is_empty());
}

async fn an_error_that_cannot_be_stored_is_stored_without_what_is_wrong(bench: Bench) {
    write(&bench, &["a"]).await;
    let error = Some(format!("a\0b{}", "x".repeat(5000)));

    except(&bench, &[NewFailedEvent { error, ..new(1, "a", FailedEventState::Parked) }]).await;

    let kept = all(&bench).await.remove(0).error.unwrap();
    assert!(kept.starts_with("a\u{fffd}bx") && kept.chars().count() == 2000);
}
