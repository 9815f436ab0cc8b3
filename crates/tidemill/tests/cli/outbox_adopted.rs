//! A table that was there before, at the command line: adopted, served by real relays that are killed and stopped, and
//! given up.

use crate::pool::json_of;
use crate::{Ran, Stage};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_store::sqlx::{AssertSqlSafe, query_scalar};
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(60);

/// The table of the document.
const TRANSFER_EVENTS: &str = "create table transfer_events (
    event_id bigserial primary key, aggregate_id varchar(100) not null, payload text, headers text,
    status varchar(20) not null default 'PENDING', next_retry_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
)";

const ADOPT: [&str; 5] = ["outbox", "adopt", "transfer_events", "--topic", "transfers"];

async fn run(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

async fn count(store: &Store, condition: &str) -> i64 {
    let sql = format!("select count(*) from transfer_events where {condition}");
    let mut tx = store.begin().await.unwrap();
    query_scalar(AssertSqlSafe(sql)).fetch_one(tx.postgres().unwrap()).await.unwrap()
}

async fn until(store: &Store, condition: &str, expected: i64) {
    let reached = async {
        while count(store, condition).await != expected {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reached).await;
    assert!(in_time.is_ok(), "{} of {expected} rows are {condition}", count(store, condition).await);
}

fn relay(stage: &Stage, number: usize) -> Guarded {
    let arguments = ["relay", "--sink", "file:events.jsonl", "--batch", "50", "--lease", "2s"];
    let mut command = stage.command(&arguments);
    let log = File::create(stage.path(&format!("relay-{number}.log"))).unwrap();
    command.stdout(Stdio::null()).stderr(log);
    Guarded::spawn(command).unwrap()
}

fn refused(ran: &Ran, code: &str) {
    assert!(ran.stderr.contains(code), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_adopted_looked_at_and_given_up() {
    let Some(scratch) = Scratch::postgres().await else { return };
    let store = scratch.store(None).await.unwrap();
    let stage = Stage::on(scratch.url()).with("USER", "ann");
    run(&store, "create table transfer_events (event_id bigint primary key, aggregate_id text not null)")
        .await;

    let unfit = stage.run(&ADOPT);
    refused(&unfit, "TM1431");
    for named in [
        "next_retry_at",
        "add column status text not null default 'PENDING'",
        "the column payload is missing",
    ] {
        assert!(unfit.stderr.contains(named), "{named}: {unfit:#?}");
    }
    refused(&stage.run(&["outbox", "adopt", "a\"; drop table b", "--topic", "t"]), "TM1430");
    refused(&stage.run(&["outbox", "unadopt", "transfer_events"]), "TM1433");

    run(&store, "drop table transfer_events").await;
    run(&store, TRANSFER_EVENTS).await;
    run(
        &store,
        "insert into transfer_events (aggregate_id, status) values ('a', 'FAILED'), ('a', 'SENDING')",
    )
    .await;
    let dry = stage.run(&[&ADOPT[..], &["--dry-run", "-o", "json"]].concat());
    assert_eq!(json_of(&dry)["items"][0]["statements"].as_array().unwrap().len(), 2);
    assert!(stage.run(&["outbox", "adopted"]).stdout.contains("No table is adopted"));
    let adopted = stage.run(&ADOPT);
    adopted.succeeds();
    assert!(adopted.stderr.contains("SENDING") && adopted.stderr.contains("FAILED"), "{adopted:#?}");
    let list = json_of(&stage.run(&["outbox", "adopted", "-o", "json"]));
    assert_eq!(
        (&list["items"][0]["table"], &list["items"][0]["by"]),
        (&"public.transfer_events".into(), &"ann".into())
    );

    let stats = json_of(&stage.run(&["outbox", "stats", "-o", "json"]));
    let standing = find(&stats, "adopted");
    assert_eq!(
        (&standing[0]["failed"]["at_least"], &standing[0]["sending"]["at_least"]),
        (&1.into(), &1.into())
    );
    let dead = ["outbox", "dead", "--table", "transfer_events", "-o", "json"];
    assert_eq!(json_of(&stage.run(&dead))["items"][0]["event"], 1);
    let reason = ["--table", "transfer_events", "--reason", "for a test"];
    refused(&stage.run(&[&["outbox", "replay", "2"], &reason[..]].concat()), "TM1434");
    stage.run(&[&["outbox", "replay", "1", "--dry-run"], &reason[..]].concat()).succeeds();
    assert_eq!(count(&store, "status = 'FAILED'").await, 1);
    stage.run(&[&["outbox", "skip", "--matching"], &reason[..]].concat()).succeeds();
    assert_eq!(json_of(&stage.run(&dead))["items"], Value::Array(Vec::new()));
    assert_eq!(json_of(&stage.run(&[&dead[..], &["--all"]].concat()))["items"][0]["is_skipped"], true);
    let audit = stage.run(&["audit", "list", "-o", "json"]).stdout;
    assert!(audit.contains("event.skip") && audit.contains("outbox.adopt"), "{audit}");

    stage.run(&["outbox", "unadopt", "transfer_events", "--drop-indexes"]).succeeds();
    refused(&stage.run(&dead), "TM1433");
    store.close().await;
}

/// A field, wherever it is.
fn find<'a>(value: &'a Value, name: &str) -> &'a Value {
    match value {
        Value::Object(fields) => match fields.get(name) {
            Some(found) => found,
            None => fields
                .values()
                .map(|inner| find(inner, name))
                .find(|found| !found.is_null())
                .unwrap_or(&Value::Null),
        },
        _ => &Value::Null,
    }
}

#[test]
fn without_postgres_adopt_says_why_not() {
    let scratch = Scratch::file();
    let stage = Stage::on(scratch.url());

    refused(&stage.run(&ADOPT), "TM1432");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_while_relays_are_killed_and_stopped() {
    let Some(scratch) = Scratch::postgres().await else { return };
    let store = scratch.store(None).await.unwrap();
    let stage = Stage::on(scratch.url()).with("TIDEMILL_PROCESS_LEASE", "60s");
    run(&store, TRANSFER_EVENTS).await;
    stage.run(&ADOPT).succeeds();
    let mut relays: Vec<Guarded> = (0..3).map(|number| relay(&stage, number)).collect();
    let rows: Vec<String> = (0..40).map(|n| format!("('account-{n}', '{{}}')")).collect();
    let insert = format!("insert into transfer_events (aggregate_id, payload) values {}", rows.join(", "));

    for step in 0..80 {
        run(&store, &insert).await;
        match step {
            20 | 50 => {
                let mut killed = relays.pop().unwrap();
                killed.signal(Signal::KILL).unwrap();
                killed.wait_deadline(PATIENCE).unwrap();
                relays.push(relay(&stage, 10 + step));
            }
            // A ghost: it goes on long after its lease has passed.
            30 => relays[0].signal(Signal::STOP).unwrap(),
            75 => relays[0].signal(Signal::CONT).unwrap(),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until(&store, "status = 'PUBLISHED'", 80 * 40).await;
    for mut relay in relays {
        relay.signal(Signal::TERM).unwrap();
        assert!(relay.wait_deadline(PATIENCE).expect("it ends in time").success());
    }

    let (mut seen, mut latest) = (HashSet::new(), HashMap::new());
    for line in fs::read_to_string(stage.path("events.jsonl")).unwrap().lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let (id, aggregate) =
            (line["id"].as_i64().unwrap(), line["aggregate_id"].as_str().unwrap().to_owned());
        if seen.insert(id) {
            let before = latest.insert(aggregate, id).unwrap_or(0);
            assert!(before < id, "{id} came after {before}");
        }
    }
    assert_eq!(seen.len(), 80 * 40);
    assert_eq!(count(&store, "status <> 'PUBLISHED'").await, 0);
    store.close().await;
}
