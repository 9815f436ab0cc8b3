//! With many events that were published long ago, reading and looking touch only what is new. PostgreSQL tells what each
//! statement that really runs has touched; each runs often enough that the server makes its plan once for all values.

use super::reader::Reader;
use super::stage::{TABLES, Writer};
use crate::Bench;
use crate::event_recorder::{EventRecorder, explaining};
use serde_json::Value;

/// Events that are kept.
const KEPT: u64 = 200_000;

/// Enough where the plan does not depend on how many there are.
const FEWER: u64 = 20_000;

/// Events that are written while a window is read.
const NEWER: u64 = 2_000;

/// Most rows that a statement may touch: some pages, but by no means all that is kept.
const TOUCHED_MAX: u64 = 300;

/// How the events that are kept were written.
enum Past {
    /// By one transaction, as a migration from elsewhere would.
    AtOnce,
    /// By many.
    ByMany,
}

#[tokio::test]
async fn what_was_written_by_many_and_is_kept_is_not_touched() {
    let Some(bench) = Bench::postgres().await else { return };

    check(&plans(&bench, Past::ByMany, KEPT, "analyze outbox_event").await);
}

#[tokio::test]
async fn what_was_written_at_once_and_is_kept_is_not_touched() {
    let Some(bench) = Bench::postgres().await else { return };

    check(&plans(&bench, Past::AtOnce, KEPT, "analyze outbox_event").await);
}

#[tokio::test]
async fn what_is_kept_is_not_touched_before_the_server_knows_how_much_there_is() {
    let Some(bench) = Bench::postgres().await else { return };

    check(&plans(&bench, Past::ByMany, FEWER, "").await);
}

#[tokio::test]
async fn a_page_does_not_touch_its_whole_window_before_the_server_knows_how_much_there_is() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut writer = Writer::new(bench.scratch.url()).await;
    writer.run(TABLES).await;
    writer.run(&many(FEWER, "pg_current_xact_id()")).await;
    let (explaining, told) = (analysing(&bench, &mut writer).await, EventRecorder::default());
    let listening = told.listen();
    let mut relay = Reader::of_all(&explaining.store, 1, 200).await;

    for _ in 0..10 {
        relay.step().await;
    }

    drop(listening);
    assert_eq!(relay.settled.len(), 2_000);
    let plans = about_events(&told);
    let pages: Vec<&Value> =
        plans.iter().filter(|plan| plan.to_string().contains("pg_visible_in_snapshot")).collect();
    assert_eq!(pages.len(), 10);
    for page in pages {
        assert!(touched(page) <= TOUCHED_MAX, "{} rows: {page:#}", touched(page));
    }
}

#[tokio::test]
async fn a_lost_index_of_transactions_is_noticed() {
    let Some(bench) = Bench::postgres().await else { return };

    let plans = plans(&bench, Past::ByMany, FEWER, "drop index outbox_event_xid").await;

    assert!(plans.iter().any(|plan| touched(plan) > TOUCHED_MAX));
}

fn check(plans: &[Value]) {
    let wasteful: Vec<String> = plans
        .iter()
        .filter(|plan| touched(plan) > TOUCHED_MAX)
        .map(|plan| format!("{} rows: {plan:#}", touched(plan)))
        .collect();
    assert!(wasteful.is_empty(), "{} of {} plans: {}", wasteful.len(), plans.len(), wasteful[0]);
    for index in ["outbox_event_p1_xid_id_idx", "outbox_event_p1_pkey"] {
        let uses = plans.iter().filter(|plan| plan.to_string().contains(index)).count();
        assert!(uses >= 20, "only {uses} plans use {index}");
    }
}

/// Fills the table, lets a relay read and look in every way, and returns the plans of the statements about events.
async fn plans(bench: &Bench, past: Past, kept: u64, then: &str) -> Vec<Value> {
    let url = bench.scratch.url();
    let (mut long, mut quick) = (Writer::new(url).await, Writer::new(url).await);
    quick.run(TABLES).await;
    let xid = match past {
        Past::AtOnce => "pg_current_xact_id()",
        // Lower than those of the server, however new it is.
        Past::ByMany => "(3 + n % 700)::text::xid8",
    };
    quick.run(&many(kept, xid)).await;
    quick.run(then).await;
    // All of them were read.
    quick
        .run("update tidemill_outbox_slot set place = '{\"from\":\"' || pg_current_snapshot()::text || '\"}'")
        .await;
    let explaining = analysing(bench, &mut quick).await;
    let told = EventRecorder::default();
    let listening = told.listen();
    let mut relay = Reader::of_all(&explaining.store, 1, 5).await;
    for _ in 0..10 {
        long.begin().await;
        long.event("long").await;
        quick.commit_event("quick").await;
        assert!(relay.look().await.unwrap().has_events);
        relay.drain().await;
        // From here on one is running at the mark that all is read up to.
        assert!(!relay.look().await.unwrap().has_events);
        relay.drain().await;
        for n in 0..12 {
            quick.commit_event(&format!("quick{n}")).await;
        }
        long.commit().await;
        relay.drain().await;
    }
    // What is written while a window is read is not in its way.
    for n in 0..8 {
        quick.commit_event(&format!("quick{n}")).await;
    }
    relay.step().await;
    quick.run(&many(NEWER, "pg_current_xact_id()")).await;
    relay.step().await;
    drop(listening);
    assert_eq!(relay.settled.len(), 148);
    about_events(&told)
}

/// A server that tells what each statement has really touched.
async fn analysing(bench: &Bench, writer: &mut Writer) -> Bench {
    let url = bench.scratch.url();
    for setting in ["log_analyze = on", "log_timing = off"] {
        let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
        writer.run(&format!("alter database {database} set auto_explain.{setting}")).await;
    }
    explaining(bench).await
}

/// The plans of the statements about events.
fn about_events(told: &EventRecorder) -> Vec<Value> {
    let json = |plan: &String| plan.find('{').and_then(|at| serde_json::from_str(&plan[at..]).ok());
    let is_about_events = |plan: &Value| plan.to_string().contains("\"outbox_event_p1\"");
    told.messages().iter().filter_map(json).filter(is_about_events).collect()
}

/// Writes so many events at once, under these numbers of transactions.
fn many(events: u64, xid: &str) -> String {
    format!(
        "insert into outbox_event (xid, aggregate_type, aggregate_id, event_type, topic, payload)
         select {xid}, 'thing', n::text, 'thing.changed', 'things', '1' from generate_series(1, {events}) as n"
    )
}

/// How many events a statement has touched.
fn touched(plan: &Value) -> u64 {
    touched_of(plan, "outbox_event")
}

/// How many rows a statement has touched of the tables whose names begin so.
pub(super) fn touched_of(plan: &Value, table: &str) -> u64 {
    let text = |key: &str| plan.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| plan.get(key).and_then(Value::as_f64).unwrap_or_default();
    let mut rows = 0;
    if text("Relation Name").starts_with(table) {
        let once = number("Actual Rows")
            + number("Rows Removed by Filter")
            + number("Rows Removed by Index Recheck");
        rows += (once * number("Actual Loops")) as u64;
    }
    let inner = |inner: &Value| touched_of(inner, table);
    rows + match plan {
        Value::Object(fields) => fields.values().map(inner).sum(),
        Value::Array(items) => items.iter().map(inner).sum(),
        _ => 0,
    }
}
