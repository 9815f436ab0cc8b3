//! Relays: joining, looking around, taking and leaving slots, the acknowledgement, and the end.

use super::reader::{LEASE, Reader, retire, write};
use crate::{Bench, identity, process_id};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::cursor::Cursor;
use tidemill_domain::outbox::{
    Effort, EventId, Instance, JoinRefusal, RelayId, Slot, Snapshot, Tally, Unit, Window,
};
use tidemill_store::outbox::relay::{Joining, Looking, RelayFence};
use tidemill_store::url::Dialect;
use uuid::Uuid;

crate::on_both![
    a_relay_that_joined_is_seen_by_all,
    a_relay_whose_settings_contradict_the_others_does_not_join,
    a_free_slot_is_taken_once_and_in_the_next_epoch,
    rivals_take_each_slot_once,
    a_place_is_handed_over_exactly,
    an_acknowledgement_that_does_not_know_its_row_writes_nothing,
    whoever_was_retired_can_do_nothing_any_more,
    a_lapsed_relay_does_not_renew,
    a_lapsed_relay_that_nobody_has_replaced_may_settle,
    only_the_silent_are_retired,
    a_look_renews_and_can_acknowledge,
    what_a_relay_has_asked_is_written_with_whatever_it_writes,
    a_look_tells_whether_there_are_events_for_these_slots,
    a_look_tells_what_has_committed,
    a_look_is_not_set_back_when_events_are_removed,
    a_look_tells_whether_a_failed_event_is_due,
    slots_of_others_cannot_be_left,
    who_ends_in_order_leaves_its_slots_where_they_are,
];

fn some(slots: std::ops::Range<u8>) -> Vec<Slot> {
    slots.map(Slot::new).collect()
}

/// What the database has of a relay: its acknowledgements, where its slots are, and their epochs.
async fn position(bench: &Bench, id: RelayId) -> Option<(i64, Vec<Cursor>, Vec<(Slot, Epoch)>)> {
    bench.store.read().await.unwrap().outbox().relay_position(id).await.unwrap()
}

async fn a_relay_that_joined_is_seen_by_all(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    bench.advance(Duration::from_secs(1));
    let two = Reader::join(&bench.store, 2, 10).await;
    one.take(&some(0..10)).await.unwrap();

    let view = two.look().await.unwrap();

    let live: Vec<_> = view.live.iter().map(|relay| (relay.id, relay.slots)).collect();
    assert_eq!(live, [(one.fence.id, 10), (two.fence.id, 0)]);
    assert_eq!((view.live[1].name.as_str(), view.live[1].pid), ("p2", 7));
    assert_eq!(view.live[1].joined_at, bench.now());
    assert_eq!(view.free, Slot::all().skip(10).collect::<Vec<_>>());
    assert_eq!((view.acks, view.floor, view.has_lapsed), (0, EventId::ZERO, false));
    assert_eq!(view.timeline.is_some(), bench.store.dialect() == Dialect::Postgres);
    assert_eq!(bench.begin().await.outbox().live_relays().await.unwrap(), view.live);
}

async fn a_relay_whose_settings_contradict_the_others_does_not_join(bench: Bench) {
    Reader::join(&bench.store, 1, 10).await;
    let joining = Joining {
        id: RelayId::new(Uuid::from_u128(2)),
        process: process_id(2),
        identity: &identity(2),
        sink: "none",
        instance: Some(Instance::new(0, 3).unwrap()),
        lease: LEASE,
    };

    let mut tx = bench.begin().await;
    let refused = tx.outbox().join(&joining).await.unwrap().unwrap_err();
    assert!(matches!(refused, JoinRefusal::FixedAmongFair { .. }), "{refused:?}");
    tx.commit().await.unwrap();

    assert_eq!(bench.begin().await.outbox().live_relays().await.unwrap().len(), 1);
    // Once the other one no longer counts, it may.
    bench.advance(LEASE);
    let mut tx = bench.begin().await;
    assert_eq!(tx.outbox().join(&joining).await.unwrap(), Ok(()));
}

async fn a_free_slot_is_taken_once_and_in_the_next_epoch(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    let mut two = Reader::join(&bench.store, 2, 10).await;

    for round in 1..=3 {
        assert_eq!(one.take(&some(0..10)).await, Some(some(0..10)));
        assert_eq!(two.take(&some(5..15)).await, Some(some(10..15)));
        assert_eq!(one.take(&some(0..10)).await, Some(Vec::new()), "they are no longer free");

        let (_, cursors, mut epochs) = position(&bench, one.fence.id).await.unwrap();
        epochs.sort_unstable();
        assert_eq!(cursors, one.cursors);
        assert_eq!(epochs, some(0..10).into_iter().map(|slot| (slot, Epoch::new(round))).collect::<Vec<_>>());
        assert_eq!(one.epochs, epochs.into_iter().collect());
        assert!(one.leave(&some(0..10)).await && two.leave(&some(10..15)).await);
        assert!(one.cursors.is_empty());
    }
}

async fn rivals_take_each_slot_once(bench: Bench) {
    let mut rivals = tokio::task::JoinSet::new();
    for number in 1..=6 {
        let store = bench.store.clone();
        rivals.spawn(async move {
            let mut reader = Reader::join(&store, number, 10).await;
            let all: Vec<Slot> = Slot::all().collect();
            for wanted in all.chunks(16) {
                reader.take(wanted).await.unwrap();
            }
            reader.epochs
        });
    }

    let mut taken: BTreeMap<Slot, Epoch> = BTreeMap::new();
    while let Some(epochs) = rivals.join_next().await {
        for (slot, epoch) in epochs.unwrap() {
            assert_eq!(taken.insert(slot, epoch), None, "slot {slot} has two owners");
        }
    }

    assert_eq!(taken.len(), Slot::COUNT);
    assert!(taken.values().all(|epoch| *epoch == Epoch::new(1)));
}

async fn a_place_is_handed_over_exactly(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 2).await;
    write(&bench.store, &["a", "b", "a", "c", "a"]).await;
    one.step().await;
    one.step().await;
    let before = one.cursors.clone();
    assert_eq!(before[0].slots[&Slot::of("a")].get(), 2);
    assert_eq!(before[0].window.high, EventId::new(4));

    // Left in order, and after the relay fell silent.
    assert!(one.leave(&some(0..128)).await);
    bench.advance(LEASE);
    retire(&bench.store).await;
    let two = Reader::of_all(&bench.store, 2, 2).await;

    assert_eq!(two.cursors, before);
    assert_eq!(position(&bench, two.fence.id).await.unwrap().1, before);
    assert!(two.epochs.values().all(|epoch| *epoch == Epoch::new(2)));
}

async fn an_acknowledgement_that_does_not_know_its_row_writes_nothing(bench: Bench) {
    let one = Reader::of_all(&bench.store, 1, 10).await;
    let known = position(&bench, one.fence.id).await;
    let moved = [Cursor { window: Window::at(Snapshot::up_to(9)), ..one.cursors[0].clone() }];

    let mut wrong = vec![
        RelayFence { acks: one.fence.acks - 1, ..one.fence },
        RelayFence { acks: one.fence.acks + 1, ..one.fence },
        RelayFence { id: RelayId::new(Uuid::from_u128(9)), ..one.fence },
    ];
    if bench.store.dialect() == tidemill_store::url::Dialect::Postgres {
        // After a fail-over: the numbers of transactions may mean others there.
        wrong.push(RelayFence { timeline: Some("000000FF"), ..one.fence });
    }
    for wrong in wrong {
        let mut tx = bench.begin().await;
        assert!(!tx.outbox().acknowledge(wrong, &moved, 5).await.unwrap());
        assert!(tx.outbox().take_slots(wrong, moved.to_vec(), &[], Unit::Slot).await.unwrap().is_none());
        assert!(tx.outbox().leave_slots(wrong, moved.to_vec(), &some(0..5)).await.unwrap().is_none());
        let slots = one.slots();
        for cursors in [None, Some(moved.as_slice())] {
            let looking = Looking { fence: wrong, from: &moved[0].window.from, slots: &slots, cursors };
            assert!(tx.outbox().look_around(&looking).await.unwrap().is_none());
        }
        tx.commit().await.unwrap();
    }

    assert_eq!(position(&bench, one.fence.id).await, known);
    let mut tx = bench.begin().await;
    assert!(tx.outbox().acknowledge(one.fence, &moved, 5).await.unwrap());
    assert!(
        !tx.outbox().acknowledge(one.fence, &moved, 5).await.unwrap(),
        "the same one again is not the next one"
    );
    tx.commit().await.unwrap();
    let (acks, cursors, _) = position(&bench, one.fence.id).await.unwrap();
    assert_eq!((acks, cursors), (one.fence.acks + 1, moved.to_vec()));
}

async fn whoever_was_retired_can_do_nothing_any_more(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    one.take(&some(0..10)).await.unwrap();
    write(&bench.store, &["a"]).await;
    bench.advance(LEASE);
    assert_eq!(retire(&bench.store).await, [one.fence.id]);
    assert_eq!(retire(&bench.store).await, []);

    let cursors = one.cursors.clone();
    assert!(one.look().await.is_none());
    assert!(one.take(&some(20..30)).await.is_none());
    assert!(!one.leave(&some(0..5)).await);
    let mut tx = bench.begin().await;
    assert!(!tx.outbox().acknowledge(one.fence, &cursors, 1).await.unwrap());
    assert!(!tx.outbox().leave(one.fence.id).await.unwrap());
    assert!(tx.outbox().relay_position(one.fence.id).await.unwrap().is_none());
    tx.commit().await.unwrap();

    let two = Reader::join(&bench.store, 2, 10).await;
    assert_eq!(two.look().await.unwrap().free.len(), Slot::COUNT);
}

async fn a_lapsed_relay_does_not_renew(bench: Bench) {
    let one = Reader::join(&bench.store, 1, 10).await;
    let two = Reader::join(&bench.store, 2, 10).await;
    bench.advance(LEASE - Duration::from_micros(1));
    assert!(two.look().await.is_some());
    bench.advance(Duration::from_micros(1));

    assert!(one.look().await.is_none(), "though nobody has retired it");
    let view = two.look().await.unwrap();
    assert!(view.has_lapsed);
    assert_eq!(view.live.len(), 1);
    assert!(one.look().await.is_none());
}

async fn a_lapsed_relay_that_nobody_has_replaced_may_settle(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 10).await;
    write(&bench.store, &["a"]).await;
    let batch = one.read().await.unwrap();
    bench.advance(LEASE * 2);

    assert!(one.settle(batch, 1).await);

    assert_eq!(position(&bench, one.fence.id).await.unwrap().1, one.cursors);
}

async fn only_the_silent_are_retired(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    let mut two = Reader::join(&bench.store, 2, 10).await;
    let mut three = Reader::join(&bench.store, 3, 10).await;
    one.take(&some(0..3)).await.unwrap();
    two.take(&some(3..6)).await.unwrap();
    bench.advance(LEASE / 2);
    // One acknowledges, one looks, one is silent.
    three.take(&some(6..9)).await.unwrap();
    assert!(one.look().await.is_some());
    bench.advance(LEASE / 2);

    assert_eq!(retire(&bench.store).await, [two.fence.id]);

    let view = one.look().await.unwrap();
    assert_eq!(view.live.iter().map(|relay| relay.slots).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(view.free.len(), Slot::COUNT - 6);
    assert_eq!(view.free[..3], some(3..6));
    assert!(!view.has_lapsed);
}

async fn what_a_relay_has_asked_is_written_with_whatever_it_writes(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 10).await;
    write(&bench.store, &["a", "b"]).await;
    bench.advance(Duration::from_secs(2));
    let tally = async || bench.begin().await.outbox().relays().await.unwrap().remove(0).tally;

    one.fence.effort = Effort { polls: 3, empty_polls: 1, queries: 7 };
    one.look().await.unwrap();
    assert_eq!(tally().await, Tally { published: 0, effort: one.fence.effort });
    one.fence.effort = Effort { polls: 4, empty_polls: 2, queries: 9 };
    one.drain().await;

    assert_eq!(tally().await, Tally { published: 2, effort: one.fence.effort });
    let stats = bench.store.read().await.unwrap().outbox().stats(10).await.unwrap();
    assert_eq!((stats.tally().published, stats.published_per_second()), (2, Some(1.0)));
    assert_eq!(stats.tally().queries_per_10000_events(), Some(45_000.0));
}

async fn a_look_renews_and_can_acknowledge(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 10).await;
    for _ in 0..3 {
        bench.advance(LEASE - Duration::from_micros(1));
        assert_eq!(one.look().await.unwrap().acks, one.fence.acks);
    }
    let moved = [Cursor { window: Window::at(Snapshot::up_to(9)), ..one.cursors[0].clone() }];
    let slots = one.slots();

    let looking =
        Looking { fence: one.fence, from: &moved[0].window.from, slots: &slots, cursors: Some(&moved) };
    let mut tx = bench.begin().await;
    let view = tx.outbox().look_around(&looking).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    assert_eq!(view.acks, one.fence.acks + 1);
    let (acks, cursors, _) = position(&bench, one.fence.id).await.unwrap();
    assert_eq!((acks, cursors), (view.acks, moved.to_vec()));
    one.fence.acks = acks;
    assert!(one.leave(&slots).await, "its fence moved with it");
}

async fn a_look_tells_whether_there_are_events_for_these_slots(bench: Bench) {
    let (mine, other) = ([Slot::of("a")], "b");
    assert_ne!(Slot::of(other), mine[0]);
    let mut one = Reader::join(&bench.store, 1, 10).await;
    one.take(&mine).await.unwrap();

    assert!(!one.look().await.unwrap().has_events);
    write(&bench.store, &[other]).await;
    assert!(!one.look().await.unwrap().has_events);
    write(&bench.store, &["a"]).await;
    assert!(one.look().await.unwrap().has_events);
    let mut tx = bench.begin().await;
    tx.execute_for_test("update tidemill_outbox set floor_id = 2").await.unwrap();
    tx.commit().await.unwrap();
    let view = one.look().await.unwrap();
    assert!(!view.has_events);
    assert_eq!(view.floor, EventId::new(2));
    write(&bench.store, &["a"]).await;
    assert!(one.look().await.unwrap().has_events);
    one.drain().await;
    assert!(!one.look().await.unwrap().has_events);
}

async fn a_look_tells_what_has_committed(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 10).await;
    let before = one.look().await.unwrap().snapshot;
    write(&bench.store, &["a", "b"]).await;

    let after = one.look().await.unwrap().snapshot;
    one.drain().await;

    assert!(before < after && before.is_within(&after));
    for settled in &one.settled {
        assert!(!before.sees(settled.event.xid) && after.sees(settled.event.xid));
    }
    if bench.store.dialect() == Dialect::Sqlite {
        assert_eq!((before, after), (Snapshot::up_to(0), Snapshot::up_to(2)));
    }
}

/// Otherwise it would seem to come from a database that was set back.
async fn a_look_is_not_set_back_when_events_are_removed(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 10).await;
    write(&bench.store, &["a", "b"]).await;
    one.drain().await;
    let before = one.look().await.unwrap().snapshot;

    let mut tx = bench.begin().await;
    tx.execute_for_test("delete from outbox_event").await.unwrap();
    tx.commit().await.unwrap();

    assert!(one.look().await.unwrap().snapshot >= before);
    write(&bench.store, &["c"]).await;
    assert!(one.look().await.unwrap().has_events);
    one.drain().await;
    assert_eq!(one.ids(), [1, 2, 3]);
}

async fn a_look_tells_whether_a_failed_event_is_due(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    one.take(&some(0..10)).await.unwrap();
    let due = bench.now().plus(Duration::from_secs(2));
    let due = match bench.store.dialect() {
        Dialect::Postgres => format!("'{due}'"),
        Dialect::Sqlite => due.as_micros().to_string(),
    };
    let mut tx = bench.begin().await;
    for (slot, state, next) in [(10, "waiting", due.as_str()), (9, "parked", "null"), (3, "waiting", &due)] {
        tx.execute_for_test(&format!(
            "insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, next_attempt_at, since,
                  updated_at)
             values ({slot}, {slot}, 1, 'thing', 'a', 'thing.changed', '{state}', {next}, {due}, {due})"
        ))
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();

    assert!(!one.look().await.unwrap().is_due);
    bench.advance(Duration::from_secs(2));
    assert!(one.look().await.unwrap().is_due);
    assert!(one.leave(&some(3..4)).await);
    assert!(!one.look().await.unwrap().is_due);
}

async fn slots_of_others_cannot_be_left(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    let mut two = Reader::join(&bench.store, 2, 10).await;
    one.take(&some(0..10)).await.unwrap();
    two.take(&some(10..20)).await.unwrap();
    let theirs = two.cursors.clone();

    // It believes that they are its own.
    one.cursors = theirs.clone();
    assert!(one.leave(&some(10..20)).await);

    let (_, cursors, epochs) = position(&bench, two.fence.id).await.unwrap();
    assert_eq!((cursors, epochs.len()), (theirs, 10));
}

async fn who_ends_in_order_leaves_its_slots_where_they_are(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 2).await;
    write(&bench.store, &["a", "b", "c"]).await;
    one.step().await;
    let (before, id) = (one.cursors.clone(), one.fence.id);

    one.end().await;

    assert!(position(&bench, id).await.is_none());
    let two = Reader::of_all(&bench.store, 2, 2).await;
    assert_eq!(two.cursors, before);
}

/// The server computes slots itself, so only SQLite has rows without one.
#[tokio::test]
async fn slots_that_were_left_out_are_filled_in_before_anything_is_read() {
    let bench = Bench::sqlite().await;
    let mut one = Reader::join(&bench.store, 1, 2).await;
    one.take(&[Slot::of("a")]).await.unwrap();
    let foreign = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                   values ('thing', 'a', 'thing.changed', 'things', '1'), ('thing', 'b', 'thing.changed', 'things', '1'),
                          ('thing', 'a', 'thing.changed', 'things', '1')";
    let mut tx = bench.begin().await;
    tx.execute_for_test(foreign).await.unwrap();
    tx.commit().await.unwrap();
    assert!(one.look().await.unwrap().has_events);
    // Behind them is one that could be read.
    write(&bench.store, &["a"]).await;

    let mut tx = bench.begin().await;
    let reading = tidemill_store::outbox::reading::Reading {
        cursor: &one.cursors[0],
        stop: None,
        floor: EventId::ZERO,
        low: None,
        limit: 10,
    };
    assert!(tx.outbox().read(&reading).await.unwrap().is_none());
    assert_eq!(tx.outbox().fill_slots(2).await.unwrap(), 2);
    assert!(tx.outbox().read(&reading).await.unwrap().is_none());
    assert_eq!(tx.outbox().fill_slots(2).await.unwrap(), 1);
    assert_eq!(tx.outbox().fill_slots(2).await.unwrap(), 0);
    tx.commit().await.unwrap();
    one.drain().await;

    assert_eq!(one.ids(), [1, 3, 4]);
    assert!(!one.look().await.unwrap().has_events);
}
