//! The outbox: events, and what becomes of them.

mod attached;
mod audit;
mod crash;
mod damaged;
mod detail;
mod event;
mod failed_event;
mod foreign;
mod garbled;
mod group;
mod interleaving;
mod lag;
mod large;
mod lifecycle_events;
mod naive;
mod notify;
mod partition;
mod place;
mod plan;
mod reader;
mod receipt;
mod relay;
mod restore;
mod retention;
mod stage;
mod step_back;
mod stress;
mod window;

use crate::Bench;
use std::collections::BTreeMap;
use tidemill_domain::outbox::{Cursor, EventId, NewEvent, Payload, Seq, Slot, Snapshot, StoredEvent, Window};

use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::EventFilter;
use tidemill_store::{Store, Tx};
use uuid::Uuid;

/// Runs any statement, in a transaction of its own.
async fn run(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// The numbers that a statement finds.
async fn numbers(store: &Store, sql: &'static str) -> Vec<i64> {
    let mut tx = store.read().await.unwrap();
    let rows = match tx.postgres() {
        Some(connection) => sqlx::query_scalar(sql).fetch_all(connection).await,
        None => sqlx::query_scalar(sql).fetch_all(tx.sqlite().unwrap()).await,
    };
    rows.unwrap()
}

/// The texts that a statement finds.
async fn texts(store: &Store, sql: &'static str) -> Vec<String> {
    let mut tx = store.read().await.unwrap();
    let rows = match tx.postgres() {
        Some(connection) => sqlx::query_scalar(sql).fetch_all(connection).await,
        None => sqlx::query_scalar(sql).fetch_all(tx.sqlite().unwrap()).await,
    };
    rows.unwrap()
}

/// Writes an event as another program would, in this transaction.
async fn write_in(tx: &mut Tx, aggregate: &str, at: Timestamp) -> EventId {
    let id = match tx.postgres() {
        Some(connection) => {
            let insert = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, created_at)
                          values ('order', $1, 'order.paid', 'orders', '{}', $2::text::timestamptz)
                          returning id";
            sqlx::query_scalar(insert).bind(aggregate).bind(at.to_string()).fetch_one(connection).await
        }
        None => {
            let insert = "insert into outbox_event
                              (aggregate_type, aggregate_id, event_type, topic, payload, created_at, slot)
                          values ('order', $1, 'order.paid', 'orders', '{}', $2, $3)
                          returning id";
            let slot = Slot::of(aggregate).get();
            let insert = sqlx::query_scalar(insert).bind(aggregate).bind(at.as_micros()).bind(slot);
            insert.fetch_one(tx.sqlite().unwrap()).await
        }
    };
    EventId::new(id.unwrap())
}

/// Writes an event as another program would.
async fn write(store: &Store, aggregate: &str, at: Timestamp) -> EventId {
    let mut tx = store.begin().await.unwrap();
    let id = write_in(&mut tx, aggregate, at).await;
    tx.commit().await.unwrap();
    id
}

/// What has committed now.
async fn snapshot(store: &Store) -> Snapshot {
    let mut tx = store.begin().await.unwrap();
    match tx.outbox().server().await.unwrap() {
        Some(server) => server.snapshot,
        None => {
            let last = sqlx::query_scalar("select coalesce(max(id), 0) from outbox_event");
            Snapshot::up_to(last.fetch_one(tx.sqlite().unwrap()).await.unwrap())
        }
    }
}

/// Lets all slots rest here.
async fn rest_all(store: &Store, window: &Window) {
    let place = serde_json::to_string(window).unwrap();
    run(store, &format!("update tidemill_outbox_slot set place = '{place}'")).await;
}

/// Lets one slot rest here.
async fn rest(store: &Store, slot: Slot, window: &Window) {
    let place = serde_json::to_string(window).unwrap();
    run(store, &format!("update tidemill_outbox_slot set place = '{place}' where slot = {slot}")).await;
}

/// All that has committed was read.
async fn read_all(store: &Store) {
    let high = numbers(store, "select coalesce(max(id), 0) from outbox_event").await[0];
    let window = Window { high: EventId::new(high), ..Window::at(snapshot(store).await) };
    rest_all(store, &window).await;
}

/// A relay that has these slots, read up to here.
async fn relay(
    bench: &Bench,
    number: u128,
    window: &Window,
    slots: &[(Slot, i64)],
    share: Option<(u32, u32)>,
) {
    let id = Uuid::from_u128(number);
    let of = |(slot, seq): &(Slot, i64)| (*slot, Seq::new(*seq));
    let cursor = Cursor { window: window.clone(), slots: slots.iter().map(of).collect::<BTreeMap<_, _>>() };
    let cursors = serde_json::to_string(&[cursor]).unwrap();
    let instant = |at: Timestamp| match bench.store.dialect() {
        tidemill_store::url::Dialect::Postgres => format!("'{at}'"),
        tidemill_store::url::Dialect::Sqlite => at.as_micros().to_string(),
    };
    let (joined_at, until) =
        (instant(bench.now()), instant(bench.now().plus(std::time::Duration::from_secs(5))));
    let (instance, total) = share.map_or_else(
        || ("null".to_owned(), "null".to_owned()),
        |(instance, total)| (instance.to_string(), total.to_string()),
    );
    run(
        &bench.store,
        &format!(
            "insert into tidemill_outbox_relay
                 (id, process, name, host, pid, sink, instance, total, joined_at, until, cursors)
             values ('{id}', '{id}', 'relay', 'host', 7, 'null', {instance}, {total}, {joined_at}, {until}, '{cursors}')"
        ),
    )
    .await;
    for (slot, _) in slots {
        run(
            &bench.store,
            &format!("update tidemill_outbox_slot set owner = '{id}', epoch = epoch + 1 where slot = {slot}"),
        )
        .await;
    }
}

/// A failed event of this event.
async fn except(bench: &Bench, event: EventId, aggregate: &str, state: &str) {
    let now = match bench.store.dialect() {
        tidemill_store::url::Dialect::Postgres => format!("'{}'::timestamptz", bench.now()),
        tidemill_store::url::Dialect::Sqlite => bench.now().as_micros().to_string(),
    };
    let next = if state == "waiting" { now.as_str() } else { "null" };
    run(
        &bench.store,
        &format!(
            "insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, next_attempt_at, since, updated_at)
             values ({event}, {}, 1, 'order', '{aggregate}', 'order.paid', '{state}', {next}, {now}, {now})",
            Slot::of(aggregate)
        ),
    )
    .await;
}

/// Lets the next event have the id after this one. PostgreSQL only.
async fn go_to(store: &Store, id: i64) {
    run(store, &format!("select setval(pg_get_serial_sequence('outbox_event', 'id'), {id})")).await;
}

/// An event of an order.
fn paid(order: &str) -> NewEvent {
    NewEvent::new("order", order, "order.paid", "orders", Payload::Json("{\"amount\":5}".into())).unwrap()
}

async fn publish(bench: &Bench, events: &[NewEvent]) {
    let mut tx = bench.begin().await;
    tx.publish_all(events).await.unwrap();
    tx.commit().await.unwrap();
}

/// All events, the oldest first.
async fn events(bench: &Bench) -> Vec<StoredEvent> {
    let mut tx = bench.store.read().await.unwrap();
    let mut events = Vec::new();
    for record in tx.outbox().events(&EventFilter::default(), 100_000).await.unwrap().into_iter().rev() {
        events.push(tx.outbox().event(record.id).await.unwrap().unwrap());
    }
    events
}
