//! With many rows that were published long ago, serving a table touches only what is open. PostgreSQL tells what each
//! statement that really runs has touched.

use super::{attached, claim, look, mark, number, numbers, table};
use crate::Bench;
use crate::event_recorder::{EventRecorder, explaining};
use crate::outbox::plan::touched_of;
use crate::outbox::reader::{LEASE, Reader, retire};
use crate::outbox::run;
use serde_json::Value;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::RowOutcome;
use tidemill_store::outbox::TableLook;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::Skipped;

/// Rows of the table, and how many of them are not PUBLISHED.
const ROWS: u64 = 200_000;
const OPEN: u64 = 200;

/// Enough where the plan does not depend on how many there are.
const FEWER: u64 = 20_000;

/// Without its index, a slot is looked for in the whole table.
const FEWEST: u64 = 4_000;

/// Rows that are claimed at once.
const BATCH: u32 = 10;

/// Most rows that a statement may touch: all that is open several times over, but by no means all that there are.
const TOUCHED_MAX: u64 = 2_000;

/// Statements of relays and of those who measure, and what their texts have, and no others.
const OFTEN: [(&str, &str); 7] = [
    ("look", "select from unnest($1::integer[]) as s (slot)"),
    ("claim", "passed_over as materialized"),
    ("recover", "left_over as materialized"),
    ("mark", "set status = 'PUBLISHED'"),
    ("stats", "as counted"),
    ("watch for what is due", "as longest"),
    ("watch for what has failed", "as parked"),
];

/// Those of people who look at what has FAILED.
const SELDOM: [(&str, &str); 2] =
    [("failed", "is_skipped\n             from"), ("list of failed", "left join tidemill_outbox_attempt")];

#[tokio::test]
async fn what_was_published_is_not_touched() {
    let Some(bench) = attached().await else { return };

    let plans = plans(&bench, ROWS, "analyze transfer_events").await;

    check(&plans, &OFTEN);
    check(&plans, &SELDOM);
}

#[tokio::test]
async fn what_was_published_is_not_touched_before_the_server_knows_how_much_there_is() {
    let Some(bench) = attached().await else { return };

    let plans = plans(&bench, FEWER, "").await;

    check(&plans, &OFTEN);
}

/// Otherwise each row is compared with all open ones before it, and a claim that takes too long is repeated for ever.
#[tokio::test]
async fn a_claim_does_not_take_longer_with_each_row_that_waits() {
    let Some(bench) = attached().await else { return };
    let rows = "insert into transfer_events (aggregate_id, payload)
                select 'account-' || n % 40, '{}' from generate_series(1, 20000) as n";
    run(&bench.store, rows).await;
    let (explaining, told) = recorded(&bench).await;
    let listening = told.listen();

    let mut relay = Reader::of_all(&explaining.store, 1, 10).await;
    assert_eq!(claim(&mut relay, &[], BATCH).await.unwrap().rows.len(), BATCH as usize);

    drop(listening);
    let claims: Vec<Value> = found(&told).into_iter().filter(|plan| is_meant(plan, OFTEN[1].1)).collect();
    assert_eq!(claims.len(), 1);
    // 16 rows of each slot, and the open ones before each of them.
    assert!(touched(&claims[0]) <= 20_000, "{} rows: {:#}", touched(&claims[0]), claims[0]);
}

#[tokio::test]
async fn a_lost_index_is_noticed() {
    for index in ["tidemill_transfer_events_slot", "tidemill_transfer_events_aggregate"] {
        let Some(bench) = attached().await else { return };

        let plans = plans(&bench, FEWEST, &format!("drop index {index}")).await;

        assert!(plans.iter().any(|plan| touched(plan) > TOUCHED_MAX), "{index}");
    }
}

fn check(plans: &[Value], statements: &[(&str, &str)]) {
    for (name, words) in statements {
        let found: Vec<&Value> = plans.iter().filter(|plan| is_meant(plan, words)).collect();
        assert!(!found.is_empty(), "the plan of {name} was not told");
        for plan in found {
            assert!(touched(plan) <= TOUCHED_MAX, "{name} touches {} rows: {plan:#}", touched(plan));
        }
    }
}

fn is_meant(plan: &Value, words: &str) -> bool {
    plan["Query Text"].as_str().unwrap_or_default().contains(words)
}

/// A bench whose server tells the plans of its statements, and who hears them.
async fn recorded(bench: &Bench) -> (Bench, EventRecorder) {
    for setting in ["log_analyze = on", "log_timing = off"] {
        let database = bench.scratch.url().rsplit('/').next().unwrap().split('?').next().unwrap();
        run(&bench.store, &format!("alter database {database} set auto_explain.{setting}")).await;
    }
    (explaining(bench).await, EventRecorder::default())
}

/// The plans of statements about the table.
fn found(told: &EventRecorder) -> Vec<Value> {
    let json = |plan: &String| plan.find('{').and_then(|at| serde_json::from_str(&plan[at..]).ok());
    let is_about_it = |plan: &Value| plan.to_string().contains("\"transfer_events\"");
    told.messages().iter().filter_map(json).filter(is_about_it).collect()
}

fn touched(plan: &Value) -> u64 {
    touched_of(plan, "transfer_events")
}

/// Fills the table, has it served in every way, and returns the plans of the statements about it.
async fn plans(bench: &Bench, rows: u64, then: &str) -> Vec<Value> {
    let (every, is_index_lost) = (rows / OPEN, then.starts_with("drop index"));
    run(
        &bench.store,
        &format!(
            "insert into transfer_events (aggregate_id, payload, status)
             select 'account-' || n % 7919, '{{}}',
                    case when n % {every} <> 0 then 'PUBLISHED' when n % {} = 0 then 'FAILED' else 'PENDING' end
             from generate_series(1, {rows}) as n",
            every * 50
        ),
    )
    .await;
    if !then.is_empty() {
        run(&bench.store, then).await;
    }
    let (explaining, told) = recorded(bench).await;
    let listening = told.listen();
    let mut dead = Reader::of_all(&explaining.store, 1, 10).await;
    for _ in 0..8 {
        let looked = look(&dead).await;
        assert!(looked == TableLook::Due || is_index_lost, "{looked:?}");
        let claimed = numbers(&claim(&mut dead, &[], BATCH).await.unwrap());
        assert_eq!(claimed.len(), BATCH as usize);
        let published: Vec<(i64, RowOutcome)> =
            claimed.into_iter().map(|id| (id, RowOutcome::Published)).collect();
        mark(&mut dead, &published).await.unwrap();
    }
    claim(&mut dead, &[], BATCH).await.unwrap();
    bench.advance(LEASE * 2);
    retire(&explaining.store).await;
    let mut heir = Reader::of_all(&explaining.store, 2, 10).await;
    let slots = heir.slots();
    let recovered = claim(&mut heir, &slots, BATCH).await.unwrap();
    assert_eq!((recovered.rows.len(), recovered.unrecovered.len()), (BATCH as usize, 0));
    let mut tx = explaining.begin().await;
    let counts = tx.outbox().attached_stats(10_000).await.unwrap()[0].counts.unwrap();
    assert_eq!(counts.sending.least(), u64::from(BATCH));
    let failed = tx.outbox().attached_failed(&table(), EventId::ZERO, 5, Skipped::Not).await.unwrap();
    let first = [failed[0].id];
    let replayed =
        tx.outbox().order_attached(&table(), RowOrder::Replay, &first, &Actor::system(), "for a test").await;
    assert_eq!(replayed.unwrap().changed, first);
    tx.outbox().attached_waits().await.unwrap();
    tx.outbox().attached_parked(1_000).await.unwrap();
    tx.commit().await.unwrap();
    drop(listening);
    let total = number(bench, "select count(*) from transfer_events").await;
    assert_eq!(u64::try_from(total).unwrap(), rows);
    found(&told)
}
