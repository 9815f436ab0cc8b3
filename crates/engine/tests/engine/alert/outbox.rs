//! The signals and shipped rules of the outbox.

use super::{Recorder, STEP, take_watch};
use crate::Bench;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::{AttachedTable, TableName};
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::alert::{Alerting, Channel, LogChannel, default_rules, signal};
use tidemill_store::Store;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::scratch::Scratch;

async fn run(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// What a signal says of a subject; none when it says nothing.
async fn seen_of(store: &Store, clock: Arc<dyn Clock>, name: &str, subject: &Subject) -> Option<f64> {
    let signals = signal::known(clock);
    let signal = signals.iter().find(|signal| signal.name() == name).unwrap();
    let seen = signal.observe(store).await.unwrap();
    seen.into_iter().find(|seen| seen.subject == *subject).map(|seen| seen.value)
}

/// What a signal says of the whole outbox; none when it says nothing.
async fn seen(store: &Store, clock: Arc<dyn Clock>, name: &str) -> Option<f64> {
    seen_of(store, clock, name, &Subject::whole()).await
}

fn event(at: i64) -> String {
    format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, created_at, slot)
         values ('order', 'a', 'paid', 'orders', '{{}}', {at}, 12)"
    )
}

fn relay(now: i64, share: &str) -> String {
    let until = now + 5_000_000;
    format!(
        "insert into tidemill_outbox_relay (id, process, name, host, pid, sink, instance, total, joined_at, until)
         values ('00000000-0000-0000-0000-000000000001', 'p', 'relay', 'host', 7, 'null', {share}, {now}, {until})"
    )
}

#[tokio::test]
async fn an_outbox_that_nobody_uses_alarms_nobody() {
    let bench = Bench::new().await;

    for name in signal::names().filter(|name| name.starts_with("outbox_")) {
        let value = seen(&bench.store, bench.clock.clone(), name).await;
        assert!(value.is_none_or(|value| value == 0.0), "{name}: {value:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_seen() {
    let bench = Bench::new().await;
    let now = bench.clock.now().as_micros();
    run(&bench.store, &event(now)).await;
    run(&bench.store, &relay(now, "1, 3")).await;
    run(
        &bench.store,
        &format!(
            "insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, since, updated_at)
             values (1, 12, 1, 'order', 'a', 'paid', 'parked', {now}, {now})"
        ),
    )
    .await;
    bench.clock.advance(Duration::from_secs(4));

    let value = async |name: &str| seen(&bench.store, bench.clock.clone(), name).await;
    assert_eq!(value("outbox_lag_seconds").await, Some(4.0));
    assert_eq!(value("outbox_parked").await, Some(1.0));
    assert_eq!(value("outbox_missing_shares").await, Some(2.0));
    assert_eq!(value("outbox_unowned_slots").await, Some(256.0));
    assert_eq!(value("outbox_default_rows").await, None);
}

/// On PostgreSQL, because snapshots of SQLite always hold.
#[tokio::test]
async fn what_nobody_can_know_is_no_number() {
    let Some(scratch) = Scratch::postgres_with_schema().await else { return };
    let store = scratch.store(None).await.unwrap();
    run(
        &store,
        "update tidemill_outbox_slot set place = '{\"from\":\"90000000000:90000000000:\"}' where slot = 7",
    )
    .await;

    let clock: Arc<dyn Clock> = Arc::new(tidemill_engine::SystemClock::new());
    assert!(seen(&store, clock.clone(), "outbox_lag_seconds").await.unwrap().is_nan());
    assert_eq!(seen(&store, clock, "outbox_default_rows").await, Some(0.0));
}

/// On PostgreSQL, because SQLite attaches no tables.
#[tokio::test]
async fn an_attached_table_is_a_subject_of_its_own() {
    let Some(scratch) = Scratch::postgres_with_schema().await else { return };
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let store = scratch.store(Some(clock.clone())).await.unwrap();
    let name = TableName::new("public", "transfer_events").unwrap();
    let table = AttachedTable::new(name, "transfers", Some("account"), Some("transfer.done"), None).unwrap();
    run(
        &store,
        "create table transfer_events (
             event_id bigint primary key, aggregate_id text not null, payload text, headers text,
             status text not null, next_retry_at timestamptz not null, updated_at timestamptz not null default now()
         )",
    )
    .await;
    store.index_attached(&table.name).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.outbox().attach_table(&table, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    let value = async |signal: &str| {
        let subject = Subject::new("table/public.transfer_events").unwrap();
        seen_of(&store, clock.clone(), signal, &subject).await
    };
    assert_eq!((value("outbox_lag_seconds").await, value("outbox_parked").await), (Some(0.0), Some(0.0)));
    assert_eq!(value("outbox_missing_shares").await, None);

    // The second waits behind the first, and the last for its next attempt.
    run(
        &store,
        "insert into transfer_events (event_id, aggregate_id, status, next_retry_at)
         values (1, 'a', 'FAILED', '2026-11-15T02:00:00Z'), (2, 'a', 'PENDING', '2026-11-15T02:00:00Z'),
                (3, 'b', 'PENDING', '2026-11-15T02:00:56Z'), (4, 'c', 'PENDING', '2026-11-15T03:00:00Z')",
    )
    .await;
    clock.advance(Duration::from_secs(60));
    assert_eq!((value("outbox_lag_seconds").await, value("outbox_parked").await), (Some(4.0), Some(1.0)));
    assert_eq!(seen(&store, clock.clone(), "outbox_parked").await, Some(0.0));

    let mut tx = store.begin().await.unwrap();
    let ids = [EventId::new(1)];
    let _ordered = tx
        .outbox()
        .order_attached(&table, RowOrder::Skip, &ids, &Actor::system(), "for a test")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!((value("outbox_lag_seconds").await, value("outbox_parked").await), (Some(60.0), Some(0.0)));

    run(&store, "drop table transfer_events").await;
    for signal in ["outbox_lag_seconds", "outbox_parked"] {
        assert!(value(signal).await.unwrap().is_nan(), "{signal}");
    }
}

#[tokio::test]
async fn an_event_that_nobody_reads_alarms_after_a_minute_of_lag() {
    let bench = Bench::new().await;
    let rules = default_rules().into_iter().filter(|rule| rule.name() == "outbox_lag").collect();
    let channels: Vec<Arc<dyn Channel>> = vec![Arc::new(LogChannel), Arc::new(Recorder::default())];
    let signals = signal::known(bench.clock.clone());
    let mut alerting = Alerting::new(rules, signals, channels, bench.clock.clone()).unwrap();
    let process = bench.process("one").await;
    let watch = take_watch(&process).await.unwrap();
    run(&bench.store, &event(bench.clock.now().as_micros())).await;
    let mut fired_after = None;
    for turn in 1..60 {
        bench.clock.advance(STEP);
        process.heartbeat().await.unwrap();
        if alerting.evaluator.run_once(&watch).await.unwrap().fired > 0 {
            fired_after = Some(STEP * turn);
            break;
        }
    }

    let fired_after = fired_after.expect("the rule fires");
    assert!(
        fired_after > Duration::from_secs(110) && fired_after <= Duration::from_secs(140),
        "{fired_after:?}"
    );
}
