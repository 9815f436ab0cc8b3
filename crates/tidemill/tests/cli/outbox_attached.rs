//! A table that was there before, at the command line: attached, served, and given up. What happens when relays are killed is
//! in `outbox_chaos`.

use crate::pool::json_of;
use crate::{Ran, Stage};
use serde_json::Value;
use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_store::sqlx::{AssertSqlSafe, query_scalar};
use tidemill_testkit::{Guarded, PostgresOptions, PrivatePostgres, Signal, postgres, skip};

const PATIENCE: Duration = Duration::from_secs(120);

/// The table of the document.
const TRANSFER_EVENTS: &str = "create table transfer_events (
    event_id bigserial primary key, aggregate_id varchar(100) not null, payload text, headers text,
    status varchar(20) not null default 'PENDING', next_retry_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
)";

const ATTACH: [&str; 5] = ["outbox", "attach", "transfer_events", "--topic", "transfers"];

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

/// Waits until something is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let reached = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect(what);
}

fn relay(stage: &Stage) -> Guarded {
    let mut command = stage.command(&["relay", "--sink", "file:events.jsonl"]);
    command.stdout(Stdio::null()).stderr(File::create(stage.path("relay.log")).unwrap());
    Guarded::spawn(command).unwrap()
}

fn refused(ran: &Ran, code: &str) {
    assert!(ran.stderr.contains(code), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_attached_looked_at_and_given_up() {
    let Some(scratch) = Scratch::postgres().await else { return };
    let store = scratch.store(None).await.unwrap();
    let stage = Stage::on(scratch.url()).with("USER", "ann");
    run(&store, "create table transfer_events (event_id bigint primary key, aggregate_id text not null)")
        .await;

    let unfit = stage.run(&ATTACH);
    refused(&unfit, "TM1431");
    for named in [
        "next_retry_at",
        "add column status text not null default 'PENDING'",
        "the column payload is missing",
    ] {
        assert!(unfit.stderr.contains(named), "{named}: {unfit:#?}");
    }
    refused(&stage.run(&["outbox", "attach", "a\"; drop table b", "--topic", "t"]), "TM1430");
    refused(&stage.run(&["outbox", "detach", "transfer_events"]), "TM1433");

    run(&store, "drop table transfer_events").await;
    run(&store, TRANSFER_EVENTS).await;
    run(
        &store,
        "insert into transfer_events (aggregate_id, status) values ('a', 'FAILED'), ('a', 'SENDING')",
    )
    .await;
    let dry = stage.run(&[&ATTACH[..], &["--dry-run", "-o", "json"]].concat());
    assert_eq!(json_of(&dry)["items"][0]["statements"].as_array().unwrap().len(), 2);
    assert!(stage.run(&["outbox", "attached"]).stdout.contains("No table is attached"));
    let attached = stage.run(&ATTACH);
    attached.succeeds();
    assert!(attached.stderr.contains("SENDING") && attached.stderr.contains("FAILED"), "{attached:#?}");
    let list = json_of(&stage.run(&["outbox", "attached", "-o", "json"]));
    assert_eq!(
        (&list["items"][0]["table"], &list["items"][0]["by"]),
        (&"transfer_events".into(), &"ann".into())
    );

    let stats = json_of(&stage.run(&["outbox", "stats", "-o", "json"]));
    let attached = find(&stats, "attached");
    assert_eq!(
        (&attached[0]["failed"]["at_least"], &attached[0]["sending"]["at_least"]),
        (&1.into(), &1.into())
    );
    let dead = ["outbox", "failed", "--table", "transfer_events", "-o", "json"];
    assert_eq!(json_of(&stage.run(&dead))["items"][0]["id"], 1);
    let reason = ["--table", "transfer_events", "--reason", "for a test"];
    refused(&stage.run(&[&["outbox", "replay", "2"], &reason[..]].concat()), "TM1434");
    stage.run(&[&["outbox", "replay", "1", "--dry-run"], &reason[..]].concat()).succeeds();
    assert_eq!(count(&store, "status = 'FAILED'").await, 1);
    stage.run(&[&["outbox", "skip", "--matching"], &reason[..]].concat()).succeeds();
    assert_eq!(json_of(&stage.run(&dead))["items"], Value::Array(Vec::new()));
    assert_eq!(json_of(&stage.run(&[&dead[..], &["--all"]].concat()))["items"][0]["is_skipped"], true);
    let audit = stage.run(&["audit", "list", "-o", "json"]).stdout;
    assert!(audit.contains("event.skip") && audit.contains("outbox.attach"), "{audit}");

    stage.run(&["outbox", "detach", "transfer_events", "--drop-indexes"]).succeeds();
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
fn without_postgres_attach_says_why_not() {
    let scratch = Scratch::file();
    let stage = Stage::on(scratch.url());

    refused(&stage.run(&ATTACH), "TM1432");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_psql_inserts_are_published() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let stage = Stage::on(&server.url("postgres")).with("TIDEMILL_DATABASE_INIT", "always");
    let psql = |sql: &str| server.psql("postgres", sql).unwrap();
    psql(TRANSFER_EVENTS);
    stage.run(&ATTACH).succeeds();
    let mut relay = relay(&stage);

    psql("insert into transfer_events (aggregate_id, payload) values ('a', '{\"n\":1}'), ('a', null)");
    until("both are published", async || {
        psql("select count(*) from transfer_events where status = 'PUBLISHED'") == "2"
    })
    .await;
    relay.signal(Signal::TERM).unwrap();
    assert!(relay.wait_deadline(PATIENCE).expect("it ends in time").success());

    let file = fs::read_to_string(stage.path("events.jsonl")).unwrap();
    let lines: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&Value, &Value)> = lines.iter().map(|line| (&line["id"], &line["payload"])).collect();
    assert_eq!(told, [(&1.into(), &serde_json::json!({ "n": 1 })), (&2.into(), &Value::Null)]);
    assert_eq!((&lines[0]["topic"], &lines[0]["aggregate_id"]), (&"transfers".into(), &"a".into()));
}

/// As of the outbox itself, of which `outbox_relay` tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fixed_share_processes_and_what_takes_long_is_told_of_an_attached_table_too() {
    let Some(scratch) = Scratch::postgres().await else { return };
    let store = scratch.store(None).await.unwrap();
    let stage = Stage::on(scratch.url())
        .with("RELAY_INSTANCE_ID", "0")
        .with("RELAY_TOTAL_INSTANCES", "1")
        .with("TIDEMILL_OUTBOX_SLOW_BATCH", "20ms");
    run(&store, TRANSFER_EVENTS).await;
    stage.run(&ATTACH).succeeds();
    run(
        &store,
        "create function take_a_while() returns trigger language plpgsql as
         $$ begin perform pg_sleep(0.05); return new; end $$",
    )
    .await;
    run(
        &store,
        "create trigger take_a_while before update on transfer_events
         for each row when (new.status = 'PUBLISHED') execute function take_a_while()",
    )
    .await;
    run(&store, "insert into transfer_events (aggregate_id) values ('a'), ('a')").await;

    let mut relay = relay(&stage);
    until("both are published", async || count(&store, "status = 'PUBLISHED'").await == 2).await;
    relay.signal(Signal::TERM).unwrap();
    assert!(relay.wait_deadline(PATIENCE).expect("it ends in time").success());

    let log = fs::read_to_string(stage.path("relay.log")).unwrap();
    for line in [
        "[Instance-0] Processing 2 events (partition 0/1)",
        "for a batch of 2 events of public.transfer_events",
    ] {
        assert!(log.contains(line), "{line} is not in: {log}");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_whose_role_lacks_a_privilege_says_which_and_what_gives_it() {
    let Some(scratch) = Scratch::postgres().await else { return };
    let store = scratch.store(None).await.unwrap();
    run(&store, TRANSFER_EVENTS).await;
    Stage::on(scratch.url()).run(&ATTACH).succeeds();
    run(&store, "insert into transfer_events (aggregate_id) values ('a')").await;
    let role = format!("relay_{}_{}", std::process::id(), fastrand::u32(..));
    run(&store, &format!("create role {role} login")).await;
    run(&store, &format!("grant all on all tables in schema public to {role}")).await;
    run(&store, &format!("grant all on all sequences in schema public to {role}")).await;
    run(&store, &format!("revoke update on transfer_events from {role}")).await;
    let (scheme, rest) = scratch.url().split_once("://").unwrap();
    let stage = Stage::on(&format!("{scheme}://{role}@{}", rest.split_once('@').unwrap().1));
    let mut relay = relay(&stage);

    let log = || fs::read_to_string(stage.path("relay.log")).unwrap();
    let grant = format!("grant update on \"public\".\"transfer_events\" to \"{role}\"");
    let expected = format!("{role} lacks the privilege update on public.transfer_events: {grant}");
    until("it says what it lacks", async || log().contains(&expected)).await;
    run(&store, &grant).await;
    until("it goes on", async || count(&store, "status = 'PUBLISHED'").await == 1).await;

    relay.signal(Signal::TERM).unwrap();
    assert!(relay.wait_deadline(PATIENCE).expect("it ends in time").success(), "{}", log());
    run(&store, &format!("drop owned by {role}")).await;
    run(&store, &format!("drop role {role}")).await;
    store.close().await;
}
