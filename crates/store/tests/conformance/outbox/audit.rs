//! What the table says was read.

use crate::Bench;
use std::collections::BTreeMap;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{Cursor, EventId, Seq, Slot, Snapshot, Window};
use tidemill_store::outbox::{AuditFrom, AuditedEvent};
use tidemill_store::{Tx, sqlx};
use uuid::Uuid;

crate::on_both![
    an_event_is_read_once_the_place_of_its_slot_has_passed_it,
    of_a_slot_with_an_owner_the_cursor_of_the_owner_counts,
    up_to_the_floor_all_counts_as_read,
    pages_have_every_event_once_and_a_later_look_begins_with_what_is_open,
    failed_events_are_told_with_why,
];

async fn execute(bench: &Bench, sql: &str) {
    let mut tx = bench.begin().await;
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

fn insert(aggregate: &str) -> String {
    format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
         values ('order', '{aggregate}', 'order.paid', 'orders', '{{}}')"
    )
}

/// What has committed now.
async fn snapshot(tx: &mut Tx) -> Snapshot {
    if let Some(connection) = tx.postgres() {
        let text: String =
            sqlx::query_scalar("select pg_current_snapshot()::text").fetch_one(connection).await.unwrap();
        return text.parse().unwrap();
    }
    let connection = tx.sqlite().unwrap();
    let last: Option<i64> =
        sqlx::query_scalar("select max(id) from outbox_event").fetch_one(connection).await.unwrap();
    Snapshot::up_to(last.unwrap_or(0))
}

async fn mark_now(bench: &Bench) -> Snapshot {
    let mut tx = bench.store.read().await.unwrap();
    let snapshot = snapshot(&mut tx).await;
    tx.rollback().await.unwrap();
    snapshot
}

/// Where a slot was left by its last owner.
async fn leave(bench: &Bench, slot: Slot, window: &Window, seq: i64) {
    let place = serde_json::to_string(window).unwrap();
    execute(
        bench,
        &format!(
            "update tidemill_outbox_slot set place = '{place}', seq = {seq}, owner = null where slot = {slot}"
        ),
    )
    .await;
}

/// All events, a few at a time.
async fn look(bench: &Bench, from: AuditFrom) -> Vec<AuditedEvent> {
    let mut tx = bench.store.read().await.unwrap();
    let position = tx.outbox().position().await.unwrap();
    let (mut events, mut from) = (Vec::new(), from);
    loop {
        let page = tx.outbox().audit_page(&position, from, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        from = AuditFrom::after(last);
        events.extend(page);
    }
    tx.rollback().await.unwrap();
    events
}

fn read(events: &[AuditedEvent]) -> Vec<(i64, bool)> {
    let mut read: Vec<_> = events.iter().map(|event| (event.id.get(), event.is_read)).collect();
    read.sort_unstable();
    read
}

async fn an_event_is_read_once_the_place_of_its_slot_has_passed_it(bench: Bench) {
    execute(&bench, &insert("a")).await;
    execute(&bench, &insert("b")).await;
    let window = Window::at(mark_now(&bench).await);
    execute(&bench, &insert("a")).await;
    assert_ne!(Slot::of("a"), Slot::of("b"));

    leave(&bench, Slot::of("a"), &window, 1).await;

    let events = look(&bench, AuditFrom::START).await;
    assert_eq!(read(&events), [(1, true), (2, false), (3, false)]);
    assert!(events.iter().all(|event| event.slot == Slot::of(if event.id.get() == 2 { "b" } else { "a" })));

    // In the middle of a window, what was read of it counts.
    let window = window.opened(mark_now(&bench).await).after(EventId::new(3));
    leave(&bench, Slot::of("a"), &window, 2).await;
    assert_eq!(read(&look(&bench, AuditFrom::START).await), [(1, true), (2, false), (3, true)]);
}

async fn of_a_slot_with_an_owner_the_cursor_of_the_owner_counts(bench: Bench) {
    execute(&bench, &insert("a")).await;
    let relay = Uuid::from_u128(7);
    let cursor = Cursor {
        window: Window::at(mark_now(&bench).await),
        slots: BTreeMap::from([(Slot::of("a"), Seq::new(41)), (Slot::of("b"), Seq::new(3))]),
    };
    let cursors = serde_json::to_string(&[cursor]).unwrap();
    let instant = if bench.begin().await.postgres().is_some() { "now()" } else { "1" };
    execute(
        &bench,
        &format!(
            "insert into tidemill_outbox_relay (id, process, name, host, pid, sink, joined_at, until, cursors)
             values ('{relay}', '{relay}', 'r', 'h', 1, 'stdout', {instant}, {instant}, '{cursors}')"
        ),
    )
    .await;
    // The slot of b is not its own: what its cursor says of it does not count.
    let owned = format!("update tidemill_outbox_slot set owner = '{relay}' where slot = {}", Slot::of("a"));
    execute(&bench, &owned).await;
    execute(&bench, &insert("b")).await;

    let mut tx = bench.store.read().await.unwrap();
    let seqs: BTreeMap<Slot, Seq> = tx.outbox().position().await.unwrap().seqs().collect();
    tx.rollback().await.unwrap();

    assert_eq!(read(&look(&bench, AuditFrom::START).await), [(1, true), (2, false)]);
    assert_eq!(seqs.len(), Slot::COUNT);
    assert_eq!((seqs[&Slot::of("a")], seqs[&Slot::of("b")]), (Seq::new(41), Seq::ZERO));
}

async fn up_to_the_floor_all_counts_as_read(bench: Bench) {
    execute(&bench, &insert("a")).await;
    execute(&bench, &insert("a")).await;

    execute(&bench, "update tidemill_outbox set floor_id = 1").await;

    assert_eq!(read(&look(&bench, AuditFrom::START).await), [(1, true), (2, false)]);
}

async fn pages_have_every_event_once_and_a_later_look_begins_with_what_is_open(bench: Bench) {
    for aggregate in ["a", "b", "c", "d", "e"] {
        execute(&bench, &insert(aggregate)).await;
    }
    let events = look(&bench, AuditFrom::START).await;
    assert_eq!(events.iter().map(|event| event.id.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);

    let later = look(&bench, AuditFrom::before(events[3].xid)).await;

    assert_eq!(later, events[3..]);
    let mut tx = bench.store.read().await.unwrap();
    assert_eq!(tx.outbox().lowest().await.unwrap(), Some(EventId::new(1)));
    let names = tx.outbox().names(&[EventId::new(2), EventId::new(99)]).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(names[&EventId::new(2)].to_string(), "order/b");
}

async fn failed_events_are_told_with_why(bench: Bench) {
    let instant = if bench.begin().await.postgres().is_some() { "now()" } else { "1" };
    for (id, state) in [(1, "waiting"), (2, "held"), (3, "parked"), (4, "skipped")] {
        let due = if state == "waiting" { instant } else { "null" };
        let sql = format!(
            "insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, next_attempt_at, since, updated_at)
             values ({id}, 200, {id}, 'order', 'a', 'order.paid', '{state}', {due}, {instant}, {instant})"
        );
        execute(&bench, &sql).await;
    }

    let mut tx = bench.store.read().await.unwrap();
    let mut failed_events = tx.outbox().position().await.unwrap().failed_events;
    tx.rollback().await.unwrap();

    failed_events.sort_unstable_by_key(|failed_event| failed_event.id);
    let excuses: Vec<StateWord> = failed_events.iter().map(|failed_event| failed_event.excuse).collect();
    assert_eq!(excuses, [StateWord::Waiting, StateWord::Held, StateWord::Parked, StateWord::Skipped]);
    assert_eq!((failed_events[2].slot, failed_events[2].seq), (Slot::new(200), Seq::new(3)));
}

/// Only PostgreSQL has several writers at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_late_is_seen_by_the_next_look() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut late = bench.begin().await;
    late.execute_for_test(&insert("a")).await.unwrap();
    execute(&bench, &insert("b")).await;
    let mut tx = bench.store.read().await.unwrap();
    let position = tx.outbox().position().await.unwrap();
    let first = tx.outbox().audit_page(&position, AuditFrom::START, 10).await.unwrap();
    tx.rollback().await.unwrap();

    late.commit().await.unwrap();
    let second = look(&bench, AuditFrom::before(position.first_running())).await;

    assert_eq!(read(&first), [(2, false)]);
    assert_eq!(read(&second), [(1, false), (2, false)]);
}
