//! With many failed events, every statement on them finds its rows by an index.
//!
//! As for jobs: PostgreSQL tells the plans of what really runs, and of SQLite every statement is taken from the source.

use super::operate::{edit, order};
use super::{delivered, due, new, settle, waiting};
use crate::event_recorder::{plans_of, reads_a_whole_table};
use crate::{Bench, plan};
use tidemill_domain::outbox::failed_event::{FailedEventState, StateWord, Verb};
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::failed_event::FailedEventFilter;

/// Enough that the planner does not prefer to read a whole table.
const FILL: &str = "
    insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
    select 'order', 'a' || n / 10, 'order.paid', 'orders', '{}'
    from generate_series(1, 20000) as n;
    insert into tidemill_outbox_exception
        (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, attempts, next_attempt_at, error, since,
         updated_at)
    select id, slot, id, aggregate_type, aggregate_id, event_type,
           case when id % 10 <> 0 then 'held' when id % 100 = 0 then 'waiting' else 'parked' end, 1,
           case when id % 100 = 0 then timestamptz '2026-11-15T02:00:00Z' - id * interval '1 second' end, 'no',
           timestamptz '2026-11-15T02:00:00Z', timestamptz '2026-11-15T02:00:00Z'
    from outbox_event;
    analyze";

/// The partition with the events; the others are empty.
fn is_long(table: &str) -> bool {
    matches!(table, "tidemill_outbox_exception" | "outbox_event_p1")
}

#[tokio::test]
async fn no_statement_on_postgresql_reads_all_failed_events() {
    let Some(bench) = Bench::postgres().await else { return };

    let plans = plans(&bench).await;

    let scans: Vec<&String> = plans.iter().filter(|plan| reads_a_whole_table(plan, is_long)).collect();
    assert!(scans.is_empty(), "{scans:#?}");
    let is_about = |plan: &&String| plan.contains("\"Relation Name\": \"tidemill_outbox_exception\"");
    assert!(plans.iter().filter(is_about).count() > 10, "too few plans");
}

#[tokio::test]
async fn a_lost_index_of_failed_events_on_postgresql_is_noticed() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_outbox_exception_aggregate").await.unwrap();
    tx.commit().await.unwrap();

    assert!(plans(&bench).await.iter().any(|plan| reads_a_whole_table(plan, is_long)));
}

/// Fills the tables, lets a relay and an operator do what they do, and returns the plans that the server told.
async fn plans(bench: &Bench) -> Vec<String> {
    let mut tx = bench.begin().await;
    tx.execute_for_test(FILL).await.unwrap();
    tx.commit().await.unwrap();
    plans_of(bench, use_all).await
}

async fn use_all(bench: &Bench) {
    let found = due(bench, 10, 50).await;
    assert!((40..=50).contains(&found.events.len()));
    settle(bench, &found.events.iter().map(delivered).collect::<Vec<_>>()).await;
    let mut tx = bench.begin().await;
    let slots: Vec<Slot> = (0..8).map(Slot::new).collect();
    assert!(!tx.outbox().blocked(&slots).await.unwrap().is_empty());
    let aggregate = "a1".to_owned();
    tx.outbox()
        .add_failed_events(
            &[new(20_001, &aggregate, FailedEventState::Held), new(20_002, "z", waiting(bench.now()))],
            bench.now(),
        )
        .await
        .unwrap();
    tx.commit().await.unwrap();
    order(bench, 30, Verb::Skip).await.unwrap();
    order(bench, 40, Verb::Replay).await.unwrap();
    order(bench, 50, edit("{}")).await.unwrap();
    let mut tx = bench.store.read().await.unwrap();
    assert!(tx.outbox().failed_event(EventId::new(60)).await.unwrap().is_some());
    let parked = FailedEventFilter { states: vec![StateWord::Parked], ..FailedEventFilter::default() };
    assert!(!tx.outbox().count_failed_events(&parked, 10).await.unwrap().is_exact());
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn no_statement_on_sqlite_reads_all_failed_events() {
    let bench = Bench::sqlite().await;
    let statements = statements();
    assert!(statements.len() > 12, "only {} statements were found", statements.len());

    assert_eq!(scans(&bench, &statements).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_index_of_failed_events_on_sqlite_is_noticed() {
    let bench = Bench::sqlite().await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_outbox_exception_aggregate").await.unwrap();
    tx.commit().await.unwrap();

    assert!(!scans(&bench, &statements()).await.is_empty());
}

/// The statements that read all failed events or events.
async fn scans(bench: &Bench, statements: &[String]) -> Vec<String> {
    const NAMES: [&str; 6] = ["x", "e", "open", "over", "tidemill_outbox_exception", "outbox_event"];
    let is_whole = |_: &str, line: &str| {
        plan::scanned(line).is_some_and(|name| NAMES.contains(&name)) && !line.contains("USING INDEX")
    };
    plan::scans(bench, statements, is_whole).await
}

fn statements() -> Vec<String> {
    plan::statements(&["statements/outbox/failed_event.rs", "outbox/failed_event/list.rs"])
}
