//! Pools at the command line: made, looked at, changed, operated on, moved, and audited.

use crate::{Ran, Stage, workspace};
use serde_json::{Value, json};
use std::fs;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::pool::{Answer, Holder, Reason};
use tidemill_domain::time::Timestamp;
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_pool_is_made_changed_paused_and_removed,
    who_holds_and_who_waits_is_told_with_the_reason,
    the_demand_is_told_for_one_pool_and_for_all,
    an_operator_gives_back_what_others_hold_and_the_next_one_starts,
    a_limit_below_usage_takes_nothing_from_anybody_and_says_so,
    the_auditor_counts_decisions_and_finds_what_was_tampered_with,
    pools_come_from_the_documents_tables_and_go_back_as_they_were,
    running_batches_of_the_document_are_taken_over_as_far_as_there_is_room,
    a_batch_whose_ttl_has_passed_is_not_taken_over,
    of_the_registry_only_what_runs_is_exported_if_that_is_asked_for,
    a_migration_makes_the_documents_views_under_the_names_that_are_set,
];

/// A database with a pool of 40 units, all of which may be in use, strictly in order.
pub(crate) fn stage(database: &Scratch) -> Stage {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always").with("USER", "ann");
    stage
        .run(&[
            "pool",
            "create",
            "etl",
            "--id",
            "4",
            "--max",
            "40",
            "--threshold",
            "100",
            "--policy",
            "halving",
        ])
        .succeeds();
    stage
}

pub(crate) fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.succeeds().stdout).unwrap_or_else(|_| panic!("{ran:#?}"))
}

pub(crate) fn in_use(stage: &Stage, pool: &str) -> u64 {
    json_of(&stage.run(&["pool", "show", pool, "-o", "json"]))["in_use"].as_u64().unwrap()
}

/// Asks in this process, without waiting.
async fn ask(pools: &Pools, run: &str, units: u32, least: u32) -> Answer {
    let part = AcquirePart {
        least: NonZeroU32::new(least),
        ..AcquirePart::new("etl".parse().unwrap(), NonZeroU32::new(units))
    };
    let ask = AcquireRequest {
        table: "SALES".into(),
        ..AcquireRequest::new(Holder::run("batch", run).unwrap(), part)
    };
    pools.acquire(&ask, Duration::ZERO).await.unwrap()
}

/// One that holds 32 of 40, one that waits for 16, and one behind it.
async fn busy(database: &Scratch) -> Pools {
    let store = database.store(None).await.unwrap();
    let pools = Pools::start(store, PoolOptions::default());
    assert!(matches!(ask(&pools, "r1", 32, 32).await, Answer::Admitted { .. }));
    assert!(matches!(ask(&pools, "r2", 16, 16).await, Answer::Waits(_)));
    assert!(matches!(ask(&pools, "r3", 2, 2).await, Answer::Waits(_)));
    pools
}

async fn a_pool_is_made_changed_paused_and_removed(database: Scratch) {
    let stage = stage(&database);

    let listed = json_of(&stage.run(&["pool", "list", "-o", "json"]));
    assert_eq!(listed["schema"], "tidemill.pool/v1");
    assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["limit"]), (&json!("etl"), &json!(40)));
    let windows = ["--capacity", "22:00-06:00=80", "--zone", "Asia/Seoul", "--policy", "fifo"];
    let changed = stage.run(&[&["pool", "set", "4", "--default", "8", "-o", "csv"][..], &windows].concat());
    let expected = "setting,from,to\ndefault_units,1,8\npolicy,halving,fifo\ncapacity,[],\"[{\"\"window\"\":\"\"22:00-06:00\"\",\"\"max_units\"\":80}]\"\nzone,UTC,Asia/Seoul\n";
    assert_eq!(changed.succeeds().stdout, expected);
    assert!(
        stage.run(&["pool", "set", "etl", "--default", "8"]).succeeds().stdout.contains("Nothing changed.")
    );
    let back = stage.run(&["pool", "set", "etl", "--no-capacity"]);
    assert!(back.succeeds().stdout.contains("22:00-06:00"), "{back:#?}");

    stage.run(&["pool", "pause", "etl", "--reason", "patch day"]).succeeds();
    let shown = stage.run(&["pool", "show", "etl"]);
    assert!(shown.succeeds().stdout.contains("patch day"), "{shown:#?}");
    stage.run(&["pool", "resume", "etl", "--reason", "done"]).succeeds();
    assert_eq!(json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]))["state"], "open");
    stage.run(&["pool", "breaker", "open", "4", "--reason", "a restart"]).succeeds();
    let shown = stage.run(&["pool", "show", "etl"]);
    assert!(shown.succeeds().stdout.contains("a restart"), "{shown:#?}");
    assert_eq!(json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]))["breaker"]["state"], "open");
    stage.run(&["pool", "breaker", "close", "etl", "--reason", "it is back"]).succeeds();
    let again = stage.run(&["pool", "breaker", "close", "etl", "--reason", "it is back"]);
    assert!(again.succeeds().stderr.contains("was not open"), "{again:#?}");
    stage.run(&["pool", "delete", "etl", "--reason", "moved"]).succeeds();

    stage.run(&["pool", "show", "etl"]).fails("TM1201", 3);
    let audit = stage.run(&["audit", "list"]).stdout;
    for action in [
        "pool.create",
        "pool.set",
        "pool.pause",
        "pool.resume",
        "breaker.open",
        "breaker.close",
        "pool.delete",
    ] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
}

async fn who_holds_and_who_waits_is_told_with_the_reason(database: Scratch) {
    let stage = stage(&database);
    let _pools = busy(&database).await;

    let holders = json_of(&stage.run(&["pool", "holders", "etl", "-o", "json"]));
    let holder = &holders["items"][0];
    assert_eq!(
        (&holder["holder_name"], &holder["units"], &holder["state"]),
        (&json!("batch/r1"), &json!(32), &json!("running"))
    );
    let queue = json_of(&stage.run(&["pool", "queue", "etl", "-o", "json"]));
    let place = |index: usize, field: &str| queue["items"][index][field].clone();
    assert_eq!((place(0, "holder_name"), place(0, "reason")), (json!("batch/r2"), json!("pool_full")));
    assert_eq!((place(1, "position"), place(1, "reason")), (json!(2), json!("larger_request_reserved")));
    assert!(place(0, "eta_seconds").as_u64().is_some_and(|seconds| seconds > 0), "{queue}");
    let instant = |field| place(0, field).as_str().map(|text| text.parse::<Timestamp>().unwrap());
    assert!(instant("eta_p50") > instant("since") && instant("eta_p90") >= instant("eta_p50"), "{queue}");
    assert_eq!(place(0, "overtaken"), json!(0));
    let shown = stage.run(&["pool", "show", "etl"]).stdout;
    assert!(shown.contains("batch/r2 for 16 units: the pool does not have enough free units"), "{shown}");
    assert!(shown.contains("too few waits yet to judge the estimates (0 of 20)"), "{shown}");
    let detail = json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]));
    assert_eq!(
        (&detail["estimates"]["count"], &detail["estimates"]["p90_held_percent"]),
        (&json!(0), &Value::Null)
    );

    let why = json_of(&stage.run(&["why", "r2", "-o", "json"]));
    let told = &why["items"][0];
    assert_eq!((&told["queue"]["position"], &told["queue"]["would_start_with"]), (&json!(1), &json!(8)));
    assert_eq!(told["queue"]["largest_holders"][0]["holder_name"], "batch/r1");
    let behind = stage.run(&["why", "batch/r3"]);
    for text in [
        "position 2 of 2",
        "ahead     batch/r2 (16 units)",
        "holders   batch/r1 (32 units)",
        "would not start with less",
        "asked for 2",
        "reason    larger_request_reserved: the free units are reserved for a larger request that came before",
        "start     expected at ",
    ] {
        assert!(behind.succeeds().stdout.contains(text), "{text}: {behind:#?}");
    }
    let holder = stage.run(&["why", "batch/r1"]);
    let rule = "granted 32 at once: it was first in the queue, and all of its units fit";
    assert!(holder.succeeds().stdout.contains(rule), "{holder:#?}");
    stage.run(&["why", "nobody/r3"]).fails("TM0508", 3);
}

async fn the_demand_is_told_for_one_pool_and_for_all(database: Scratch) {
    let stage = stage(&database);
    let _pools = busy(&database).await;
    stage.run(&["pool", "create", "idle", "--max", "10"]).succeeds();

    let one = json_of(&stage.run(&["pool", "demand", "4", "-o", "json"]));
    let later = json!({ "p50": 50, "p90": 50 });
    let expected = json!([{ "pool": "etl", "now": 50, "in_5_min": later, "in_15_min": later }]);
    assert_eq!((&one["schema"], &one["items"]), (&json!("tidemill.pool_demand/v1"), &expected));
    let all = stage.run(&["pool", "demand"]).succeeds().stdout.clone();
    let rows: Vec<Vec<&str>> = all.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["etl", "50", "50", "50", "50", "50"], ["idle", "0", "0", "0", "0", "0"]], "{all}");
    stage.run(&["pool", "demand", "none"]).fails("TM1201", 3);
}

async fn an_operator_gives_back_what_others_hold_and_the_next_one_starts(database: Scratch) {
    let stage = stage(&database);
    let pools = busy(&database).await;
    let lease = json_of(&stage.run(&["why", "r1", "-o", "json"]))["items"][0]["id"].clone();
    let lease = lease.as_str().unwrap();

    let released = stage.run(&["pool", "release", lease, "--reason", "its host is gone"]);

    assert!(released.succeeds().stderr.contains("released 32 units of batch/r1 in etl"), "{released:#?}");
    assert!(matches!(ask(&pools, "r2", 16, 16).await, Answer::Admitted { .. }));
    assert_eq!(in_use(&stage, "etl"), 18);
    let again = stage.run(&["pool", "release", lease, "--reason", "again"]);
    assert!(again.fails("TM1207", 5).stderr.contains("batch/r1 ended at"), "{again:#?}");
    let why = stage.run(&["why", lease]);
    assert!(why.succeeds().stdout.contains("was released by ann: its host is gone"), "{why:#?}");
    let events = stage.run(&["pool", "events", "etl"]);
    assert!(events.succeeds().stdout.contains("batch was released by ann: its host is gone"), "{events:#?}");
    assert!(events.stdout.contains("batch/r1"), "{events:#?}");
    assert!(stage.run(&["audit", "list"]).stdout.contains("pool.release"));

    let lease = json_of(&stage.run(&["why", "r2", "-o", "json"]))["items"][0]["id"].clone();
    let error = ["--outcome", "failed", "--error", "ORA-00018: maximum number of sessions exceeded"];
    let release = ["pool", "release", lease.as_str().unwrap(), "--reason", "its run failed"];
    stage.run(&[&release[..], &error].concat()).succeeds();
    let breaker = json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]))["breaker"].clone();
    assert_eq!((&breaker["state"], &breaker["reason"]), (&json!("open"), &json!("ORA-00018")));
}

async fn a_limit_below_usage_takes_nothing_from_anybody_and_says_so(database: Scratch) {
    let stage = stage(&database);
    let _pools = busy(&database).await;

    let cut = stage.run(&["pool", "set", "etl", "--max", "20"]);

    let text = "40 -> 20: 32 in use; nothing is killed; no grants until fewer than 20 units are in use";
    assert!(cut.succeeds().stderr.contains(text), "{cut:#?}");
    let shown = json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]));
    assert_eq!(
        (&shown["in_use"], &shown["over_by"], &shown["state"]),
        (&json!(32), &json!(12), &json!("over limit"))
    );
    stage.run(&["pool", "delete", "etl"]).fails("TM1203", 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_its_code() {
    let database = Scratch::file();
    let stage = stage(&database);

    stage.run(&["pool", "create", "etl", "--max", "1"]).fails("TM1202", 5);
    stage.run(&["pool", "create", "other", "--max", "1", "--id", "4"]).fails("TM1202", 5);
    stage.run(&["pool", "set", "etl", "--max-hold", "1s"]).fails("TM1206", 2);
    stage.run(&["pool", "create", "a b", "--max", "1"]).fails("TM0002", 2);
    stage.run(&["pool", "set", "etl", "--capacity", "25:00-26:00=1"]).fails("TM0002", 2);
    for command in ["show", "holders", "queue", "verify", "events", "resume", "delete"] {
        stage.run(&["pool", command, "5"]).fails("TM1201", 3);
    }
    let nothing = "018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11";
    stage.run(&["pool", "release", nothing, "--reason", "x"]).fails("TM1207", 5);
}

async fn the_auditor_counts_decisions_and_finds_what_was_tampered_with(database: Scratch) {
    let stage = stage(&database);
    let pools = busy(&database).await;

    let verified = stage.run(&["pool", "verify"]);
    assert!(verified.succeeds().stderr.contains("decisions, 0 violations"), "{verified:#?}");
    let mut tx = pools.store().begin().await.unwrap();
    tx.execute_for_test("update tidemill_pool set usage = usage + 1, suspect = 1").await.unwrap();
    tx.commit().await.unwrap();

    let found = stage.run(&["pool", "verify", "etl"]);

    found.fails("TM0212", 1);
    assert!(found.stderr.contains("decisions, 2 violations"), "{found:#?}");
    assert!(found.stderr.contains("33 units are in use, and its tickets say 32"), "{found:#?}");
    assert!(found.stderr.contains("1 tickets are suspect, and 0 are"), "{found:#?}");
}

/// What the document's own tables hold, as `aws dynamodb scan` prints it.
const LIMITS: &str = r#"{"Items": [
  {"src_db_id": {"N": "4"}, "name": {"S": "ADW"}, "db_type": {"S": "oracle"}, "max_connections": {"N": "1000"},
   "threshold_percent": {"N": "95"}, "default_parallel": {"N": "8"}, "min_parallel": {"N": "2"}},
  {"src_db_id": {"N": "5"}, "name": {"S": "ERP"}, "max_connections": {"N": "500"}, "threshold_percent": {"N": "90"}}
], "Count": 2, "ScannedCount": 2}"#;

async fn pools_come_from_the_documents_tables_and_go_back_as_they_were(database: Scratch) {
    let url = database.url();
    let stage = Stage::on(url).with("TIDEMILL_DATABASE_INIT", "always").with("DEFAULT_PARALLEL", "3");
    fs::write(stage.path("limits.json"), LIMITS).unwrap();

    let imported = stage.run(&["pool", "import", "limits.json", "-o", "csv"]);

    assert_eq!(imported.succeeds().stdout, "table,item,result\nlimits,ADW,created\nlimits,ERP,created\n");
    let erp = json_of(&stage.run(&["pool", "show", "5", "-o", "json"]));
    assert_eq!(
        (&erp["default_units"], &erp["min_units"], &erp["limit"]),
        (&json!(3), &json!(2), &json!(450))
    );
    stage.run(&["pool", "set", "ERP", "--policy", "fifo", "--capacity", "22:00-06:00=900"]).succeeds();
    let exported = stage.run(&["pool", "export"]);
    let first: Value = serde_json::from_str(exported.succeeds().stdout.lines().next().unwrap()).unwrap();
    let given: Value = serde_json::from_str(LIMITS).unwrap();
    assert_eq!(first["Item"], given["Items"][0]);

    // Into another database, and out again.
    let other = Stage::new();
    fs::write(other.path("export.json"), &exported.stdout).unwrap();
    other.run(&["pool", "import", "export.json"]).succeeds();
    assert_eq!(other.run(&["pool", "export"]).succeeds().stdout, exported.stdout);
    let again = other.run(&["pool", "import", "export.json", "-o", "csv"]);
    assert!(again.succeeds().stdout.contains("limits,ERP,unchanged"), "{again:#?}");
}

const REGISTRY: &str = r#"
{"src_db_id": 4, "dag_run_id": "r1", "dag_id": "a", "table_name": "T", "parallel_hint": "8", "status": "RUNNING"}
{"src_db_id": 4, "dag_run_id": "r1", "dag_id": "b", "table_name": "T", "parallel_hint": 30, "status": "RUNNING"}
{"src_db_id": 4, "dag_run_id": "r1", "dag_id": "c", "table_name": "T", "parallel_hint": 4, "status": "RUNNING"}
{"src_db_id": 4, "dag_run_id": "r0", "dag_id": "a", "table_name": "T", "parallel_hint": 8, "status": "COMPLETED"}
"#;

async fn running_batches_of_the_document_are_taken_over_as_far_as_there_is_room(database: Scratch) {
    let stage = stage(&database);
    fs::write(stage.path("registry.jsonl"), REGISTRY).unwrap();

    let imported = stage.run(&["pool", "import", "registry.jsonl", "-o", "csv"]);

    assert_eq!(imported.code, Some(8), "{imported:#?}");
    for line in [
        "registry,a/r1,holds 8 units",
        "registry,b/r1,holds 30 units",
        "registry,c/r1,\"no lease:",
        "registry,a/r0,skipped: COMPLETED",
    ] {
        assert!(imported.stdout.contains(line), "{line}: {imported:#?}");
    }
    assert_eq!(in_use(&stage, "etl"), 38);
    assert_eq!(json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]))["waiting"], 0);
    let exported = json_of(&stage.run(&["pool", "export", "--table", "registry", "-o", "json"]));
    let status = |dag: &str| {
        let items = exported["Items"].as_array().unwrap();
        let found = items.iter().find(|item| item["dag_id"]["S"] == dag).unwrap_or_else(|| panic!("{dag}"));
        (found["status"]["S"].clone(), found["parallel_hint"]["N"].clone(), found["src_db_id"]["N"].clone())
    };
    assert_eq!(status("b"), (json!("RUNNING"), json!("30"), json!("4")));
    assert_eq!(status("c").0, "FAILED");
}

/// One whose ttl was in 2024, and one whose ttl is in 2100.
const OLD_AND_NEW: &str = r#"
{"src_db_id": 4, "dag_run_id": "old", "dag_id": "a", "parallel_hint": 8, "status": "RUNNING", "ttl": 1706227530}
{"src_db_id": 4, "dag_run_id": "new", "dag_id": "a", "parallel_hint": 4, "status": "RUNNING", "ttl": "4102444800"}
"#;

async fn a_batch_whose_ttl_has_passed_is_not_taken_over(database: Scratch) {
    let stage = stage(&database);
    fs::write(stage.path("registry.jsonl"), OLD_AND_NEW).unwrap();

    let imported = stage.run(&["pool", "import", "registry.jsonl", "-o", "csv"]);

    let told = "table,item,result\nregistry,a/old,skipped: its ttl has passed\n\
                    registry,a/new,holds 4 units\n";
    assert_eq!(imported.succeeds().stdout, told);
    assert_eq!(in_use(&stage, "etl"), 4);
}

/// One that holds nothing, before one that does.
const NOTHING_AND_SOME: &str = r#"{"Items": [
  {"src_db_id": {"N": "4"}, "dag_run_id": {"S": "r1"}, "dag_id": {"S": "none"}, "parallel_hint": {"N": "0"},
   "status": {"S": "RUNNING"}},
  {"src_db_id": {"N": "4"}, "dag_run_id": {"S": "r1"}, "dag_id": {"S": "some"}, "parallel_hint": {"N": "8"},
   "status": {"S": "RUNNING"}}
]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_holds_nothing_does_not_keep_others_from_being_taken_over() {
    let database = Scratch::file();
    let stage = stage(&database);
    fs::write(stage.path("registry.json"), NOTHING_AND_SOME).unwrap();

    let imported = stage.run(&["pool", "import", "registry.json", "-o", "csv"]);

    let told = "table,item,result\nregistry,none/r1,skipped: its parallel_hint is 0\n\
                registry,some/r1,holds 8 units\n";
    assert_eq!(imported.succeeds().stdout, told);
    assert_eq!(in_use(&stage, "etl"), 8);
}

async fn of_the_registry_only_what_runs_is_exported_if_that_is_asked_for(database: Scratch) {
    let stage = stage(&database);
    let _pools = busy(&database).await;
    let runs = |flags: &[&str]| {
        let export = ["pool", "export", "--table", "registry", "-o", "json"];
        let exported = json_of(&stage.run(&[&export[..], flags].concat()));
        let item = |item: &Value| (item["dag_run_id"]["S"].clone(), item["status"]["S"].clone());
        exported["Items"].as_array().unwrap().iter().map(item).collect::<Vec<_>>()
    };

    let (all, running) = (runs(&[]), runs(&["--running"]));

    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(running, [(json!("r1"), json!("RUNNING"))]);
    stage.run(&["pool", "export", "--running"]).fails("TM0002", 2);
}

#[test]
fn an_import_that_is_not_understood_changes_nothing() {
    let stage = Stage::new();
    let good = r#"{"name": "good", "max_connections": 4}"#;
    for (bad, why) in [
        (r#"{"name": "bad"}"#, "item 2: max_connections is missing"),
        (r#"{"name": "bad", "max_connections": 4, "threshold_percent": 101}"#, "item 2: threshold_percent"),
        (r#"{"dag_run_id": "r", "dag_id": "d", "status": "RUNNING"}"#, "item 2: src_db_id is missing"),
        ("{", "EOF"),
    ] {
        fs::write(stage.path("limits.json"), format!("{good}\n{bad}")).unwrap();
        let ran = stage.run(&["pool", "import", "limits.json"]);
        assert!(ran.fails("TM1210", 2).stderr.contains(why), "{why}: {ran:#?}");
    }
    stage.run(&["pool", "import", "nothing.json"]).fails("TM1210", 2);
    assert!(stage.run(&["pool", "list"]).succeeds().stdout.contains("No pools."));
}

#[test]
fn every_reason_stands_in_the_reference() {
    let document = fs::read_to_string(workspace().join("docs/reference/http.md")).unwrap();
    let table = document.split("<!-- reasons -->").nth(1).unwrap().split("<!-- /reasons -->").next().unwrap();
    let mut found: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let mut expected: Vec<String> =
        Reason::ALL.iter().map(|reason| format!("| `{reason}` | {} |", reason.sentence())).collect();

    found.sort_unstable();
    expected.sort_unstable();

    assert_eq!(found, expected);
}

async fn a_migration_makes_the_documents_views_under_the_names_that_are_set(database: Scratch) {
    let stage = Stage::on(database.url())
        .with("EMR_AGENT_TABLE_REGISTRY", "my_registry")
        .with("TIDEMILL_POOLS_LIMITS_VIEW", "my_limits");

    stage.run(&["db", "migrate"]).succeeds();

    stage.run(&["pool", "create", "ADW", "--id", "4", "--max", "1000"]).succeeds();
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let found = "insert into my_seen select max_connections from my_limits where src_db_id = 4";
    tx.execute_for_test("create table my_seen (max_connections bigint not null)").await.unwrap();
    tx.execute_for_test(found).await.unwrap();
    tx.execute_for_test("delete from my_seen where max_connections <> 1000").await.unwrap();
    // Fails unless there is the one row.
    tx.execute_for_test("insert into my_seen values ((select max_connections from my_seen))").await.unwrap();
    tx.execute_for_test("insert into my_seen select ttl from my_registry").await.unwrap();
    tx.rollback().await.unwrap();
    let bad = stage.with("EMR_AGENT_TABLE_REGISTRY", "tidemill_pool").run(&["db", "migrate"]);
    assert_eq!(bad.code, Some(5), "{bad:?}");
}
