//! The real Spring Batch on the same database: each reads what the other has run, and continues it where that is exact.

mod operate;

use crate::Stage;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use tidemill_domain::job::{ExecutionId, ExitStatus, JobParameters};
use tidemill_domain::time::FakeClock;
use tidemill_engine::job::listener::{StepListener, StepRun};
use tidemill_engine::job::{Job, Step};
use tidemill_engine::testing::JobBench;
use tidemill_store::Store;
use tidemill_store::job::{ExecutionDetail, StepRecord};
use tidemill_store::scratch::Scratch;
use tidemill_testkit::java::{self, SPRING_HOME};
use tidemill_testkit::skip::require;

/// A program with the jars of Spring Batch.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/spring/Batch.java");

const VECTORS: &str = include_str!("../../../../vectors/spring_batch_5.2.6/context.json");

/// Copies the numbers of a file or a table.
const LOAD: &str = r#"
job: load
parameters: { day: { type: string, required: true } }
steps:
  - name: load
    chunk: 2
    read: { csv: { path: "in-${day}.csv" } }
    process: { map: { n: "int(row.n)" } }
    write: { sql: { table: loaded, mode: insert } }
"#;

const READ_CURSOR: &str = r#"read: { sql: { query: "select n from source order by n" } }"#;
const READ_KEYSET: &str = r#"read: { sql: { query: "select n from source", key: n } }"#;

/// A database with both programs on it.
struct Site {
    stage: Stage,
    store: Store,
    database: Scratch,
}

impl Site {
    /// `None` if Spring Batch or PostgreSQL is skipped.
    async fn new() -> Option<Self> {
        require("spring", java::find_home(SPRING_HOME))?;
        let database = Scratch::postgres().await?;
        let store = database.store(None).await.unwrap();
        let site = Self { stage: Stage::on(database.url()), store, database };
        site.execute("create table loaded (n bigint not null); create table source (n bigint primary key)")
            .await;
        site.execute("insert into source select generate_series(1, 7)").await;
        Some(site)
    }

    async fn execute(&self, sql: &str) {
        let mut tx = self.store.begin().await.unwrap();
        tx.execute_for_test(sql).await.unwrap();
        tx.commit().await.unwrap();
    }

    fn write(&self, file: &str, text: &str) -> String {
        let path = self.stage.path(file);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A job like `load` with another name and another line.
    fn write_job(&self, name: &str, read: &str, more: &str) {
        let text = LOAD.replace("job: load", &format!("job: {name}"));
        let text = text.replace(r#"read: { csv: { path: "in-${day}.csv" } }"#, read);
        self.write(&format!("{name}.yaml"), &format!("{text}{more}"));
    }

    async fn loaded(&self) -> Vec<i64> {
        let mut tx = self.store.read().await.unwrap();
        let query = tidemill_store::sqlx::query_scalar("select n from loaded order by n");
        let found = query.fetch_all(tx.postgres().unwrap()).await.unwrap();
        tx.rollback().await.unwrap();
        found
    }

    /// Does each order in one run of the program.
    fn spring(&self, orders: &[Value]) -> Vec<Value> {
        answers(self.spring_command(orders))
    }

    fn spring_command(&self, orders: &[Value]) -> Command {
        let home = java::find_home(SPRING_HOME).unwrap();
        let mut command = java::command(&home).unwrap();
        // Spring Batch stores local times, and compares them.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC", PROGRAM]);
        for order in orders {
            let mut order = order.clone();
            order["url"] = jdbc(self.database.url()).into();
            command.arg(order.to_string());
        }
        command
    }

    fn tell(&self, arguments: &[&str]) -> Value {
        let all = [arguments, &["-o", "json"]].concat();
        serde_json::from_str(&self.stage.run(&all).succeeds().stdout).unwrap()
    }

    /// The id of the last execution.
    fn last(&self) -> i64 {
        self.tell(&["executions", "--limit", "1"])["items"][0]["id"].as_i64().unwrap()
    }
}

fn answers(mut command: Command) -> Vec<Value> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `postgres://user@host:port/name` as Java's driver writes it.
fn jdbc(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    let (user, place) = rest.split_once('@').unwrap();
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let parameters = if place.contains('?') { '&' } else { '?' };
    format!("jdbc:postgresql://{place}{parameters}user={user}&password={password}")
}

/// Values of all kinds, for the contexts of a step and a job.
fn kinds() -> Value {
    json!({
        "text": "가 🦀 \" \\ \u{0}", "long": i64::MIN, "small": 7, "large": u64::MAX, "double": 0.1, "whole": 1.0,
        "yes": true, "list": [1, "x", null, [2.5, {}]], "map": {"z": {"long": 7}, "a": "b"}, "r.read.count": 12,
        "long_text": "x".repeat(5_000),
    })
}

/// A job of ours that keeps all of them.
async fn run_kinds(database: &Scratch) {
    struct Remember;
    impl StepListener for Remember {
        fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
            kinds()
                .as_object()
                .unwrap()
                .iter()
                .for_each(|(key, value)| run.job_context.put(key, value.clone()));
            None
        }
    }
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let store = database.store(Some(clock.clone())).await.unwrap();
    let step = Step::tasklet("keep", |mut scope| async move {
        let kinds = kinds();
        kinds.as_object().unwrap().iter().for_each(|(key, value)| scope.context().put(key, value.clone()));
        Ok(())
    });
    let parameters = JobParameters::new()
        .with("long", 7_i64)
        .with("double", 1.0)
        .with("text", "x, y")
        .with("date", jiff::civil::date(2026, 1, 31))
        .with("time", jiff::civil::time(23, 59, 0, 0))
        .with("datetime", jiff::civil::date(2026, 1, 31).at(12, 0, 0, 0));
    let bench = JobBench::on(store, clock).await.unwrap();
    let run = bench.run(&Job::new("kinds").step(step.listener(Remember)), &parameters).await.unwrap();
    assert!(run.is_completed());
}

/// Compares an execution as Spring Batch tells it with ours.
fn assert_same(theirs: &Value, ours: &Value) {
    let execution = &ours["execution"];
    for field in ["id", "instance", "status", "exit_code"] {
        assert_eq!(theirs[field], execution[field], "{field} of {ours:#}");
    }
    for field in ["created_at", "started_at", "ended_at"] {
        assert_same_time(&theirs[field], &execution[field]);
    }
    let parameters = ours["parameters"].as_array().unwrap();
    assert_eq!(theirs["parameters"].as_object().unwrap().len(), parameters.len());
    for parameter in parameters {
        let found = &theirs["parameters"][parameter["name"].as_str().unwrap()];
        assert_eq!(found["identifying"], parameter["is_identifying"], "{parameter}");
        // Java leaves out seconds that are zero.
        assert!(
            parameter["value"].as_str().unwrap().starts_with(found["value"].as_str().unwrap()),
            "{found}"
        );
    }
    assert_same_message(theirs, execution);
    assert_same_context(&theirs["context"], &ours["contexts"]["job"]);
    let steps = ours["steps"].as_array().unwrap();
    assert_eq!(theirs["steps"].as_object().unwrap().len(), steps.len(), "{ours:#}");
    for step in steps {
        let name = step["name"].as_str().unwrap();
        let found = &theirs["steps"][name];
        for field in ["status", "exit_code"] {
            assert_eq!(found[field], step[field], "{field} of {name}");
        }
        for (counter, count) in step["counters"].as_object().unwrap() {
            assert_eq!(&found[counter], count, "{counter} of {name}");
        }
        assert_same_time(&found["started_at"], &step["started_at"]);
        assert_same_time(&found["ended_at"], &step["ended_at"]);
        assert_same_message(found, step);
        assert_same_context(&found["context"], &ours["contexts"]["steps"][name]);
    }
}

/// What the answers in JSON leave out.
fn assert_same_record(theirs: &Value, ours: &ExecutionDetail, steps: &[StepRecord]) {
    let record = &ours.execution;
    assert_eq!(theirs["version"], record.version, "{ours:?}");
    assert_same_time(&theirs["updated_at"], &json!(record.updated_at));
    for parameter in &ours.parameters {
        assert_eq!(theirs["parameters"][&parameter.name]["type"], parameter.class, "{parameter:?}");
    }
    for step in steps {
        let found = &theirs["steps"][&step.name];
        assert_eq!(
            (&found["id"], &found["version"]),
            (&json!(step.id.get()), &json!(step.version)),
            "{step:?}"
        );
        assert_same_time(&found["created_at"], &json!(step.created_at));
        assert_same_time(&found["updated_at"], &json!(step.updated_at));
    }
}

/// Theirs has at most 2,500 characters.
fn assert_same_message(theirs: &Value, ours: &Value) {
    let (theirs, ours) =
        (theirs["exit_message"].as_str().unwrap(), ours["exit_description"].as_str().unwrap());
    let cut: String = ours.chars().take(2500).collect();
    assert_eq!(theirs, cut);
}

/// Java writes no zeros at the end.
fn assert_same_time(theirs: &Value, ours: &Value) {
    let Some(theirs) = theirs.as_str() else {
        assert!(ours.is_null(), "{ours}");
        return;
    };
    assert!(ours.as_str().is_some_and(|ours| ours.starts_with(theirs)), "{theirs} and {ours}");
}

fn assert_same_context(theirs: &Value, ours: &Value) {
    let theirs = theirs.as_object().unwrap();
    let values: serde_json::Map<String, Value> =
        theirs.iter().map(|(key, pair)| (key.clone(), pair[1].clone())).collect();
    assert_eq!(&Value::Object(values), &ours["values"]);
    for (key, pair) in theirs {
        let is_int = key.ends_with(".read.count");
        if pair[1].is_i64() {
            assert_eq!(pair[0], if is_int { "java.lang.Integer" } else { "java.lang.Long" }, "{key}");
        }
    }
}

/// All executions of both programs, by id.
async fn compare(site: &Site, theirs: &Value) -> usize {
    let mut compared = 0;
    for instance in theirs.as_object().unwrap().values().flat_map(|instances| instances.as_array().unwrap()) {
        for execution in instance["executions"].as_array().unwrap() {
            let id = execution["id"].as_i64().unwrap();
            assert_same(execution, &site.tell(&["executions", &id.to_string(), "--context"]));
            let mut tx = site.store.read().await.unwrap();
            let ours = tx.jobs().execution(ExecutionId::new(id)).await.unwrap().unwrap();
            let steps = tx.jobs().steps(ExecutionId::new(id)).await.unwrap();
            tx.rollback().await.unwrap();
            assert_same_record(execution, &ours, &steps);
            compared += 1;
        }
    }
    compared
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spring_batch_reads_all_that_we_have_run() {
    let Some(site) = Site::new().await else { return };
    site.write("load.yaml", LOAD);
    site.write("in-1.csv", "n\n1\n2\n3\n");
    site.write("in-2.csv", "n\n1\n2\nx\n4\n");
    site.write_job(
        "skips",
        r#"read: { csv: { path: "in-${day}.csv" } }"#,
        "    skip: { limit: 5, on: [process] }\n",
    );
    site.write_job("pages", READ_KEYSET, "");
    site.write(
        "parts.yaml",
        &LOAD.replace("job: load", "job: parts").replace(
            r#"read: { csv: { path: "in-${day}.csv" } }"#,
            "partitions: { by: range, table: source, column: n, count: 3 }\n    \
             read: { sql: { query: \"select n from source where n between ${range.from} and ${range.to}\", key: n } }",
        ),
    );
    site.write_job("stops", r#"read: { csv: { path: "in-${day}.csv" } }"#, "    on: { COMPLETED: stop }\n");

    for (file, day, code) in [
        ("load.yaml", "day=1", 0),
        ("load.yaml", "day=2", 10),
        ("skips.yaml", "day=2", 0),
        ("pages.yaml", "day=1", 0),
        ("parts.yaml", "day=1", 0),
        ("stops.yaml", "day=1", 11),
    ] {
        let ran = site.stage.run(&["job", "run", file, "-p", day]);
        assert_eq!(ran.code, Some(code), "{file}: {ran:#?}");
    }
    run_kinds(&site.database).await;
    let answers = site.spring(&[json!({"do": "list"}), json!({"do": "list", "serializer": "either"})]);

    assert_eq!(compare(&site, &answers[0]).await, 7, "{:#}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    let kept = &answers[0]["kinds"][0]["executions"][0];
    for (key, class) in [
        ("large", "java.math.BigInteger"),
        ("list", "java.util.ArrayList"),
        ("map", "java.util.LinkedHashMap"),
        ("whole", "java.lang.Double"),
        ("yes", "java.lang.Boolean"),
    ] {
        assert_eq!(
            (&kept["context"][key][0], &kept["steps"]["keep"]["context"][key][0]),
            (&json!(class), &json!(class))
        );
    }
    assert_eq!(kept["context"]["long_text"][1].as_str().unwrap().len(), 5_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spring_batch_continues_what_we_failed() {
    let Some(site) = Site::new().await else { return };
    site.write("load.yaml", LOAD);
    let file = site.write("in-1.csv", "n\n1\n2\nx\n4\n5\n");
    assert_eq!(site.stage.run(&["job", "run", "load.yaml", "-p", "day=1"]).code, Some(10));
    let other = site.write("in-2.csv", "n\n11\n12\n13\n14\nx\n");
    assert_eq!(site.stage.run(&["job", "run", "load.yaml", "-p", "day=2"]).code, Some(10));
    let failed = site.last();
    site.write("in-1.csv", "n\n1\n2\n3\n4\n5\n");
    site.write("in-2.csv", "n\n11\n12\n13\n14\n15\n");

    let load = json!({"do": "launch", "job": "load", "step": "csv", "name": "read"});
    let (mut first, mut second) = (load.clone(), load);
    first["file"] = file.into();
    first["parameters"] = json!({"day": "1"});
    second["do"] = "restart".into();
    second["file"] = other.into();
    second["execution"] = failed.into();
    let answers = site.spring(&[first.clone(), first, second, json!({"do": "list"})]);

    assert_eq!(answers[0]["status"], "COMPLETED", "{:#}", answers[0]);
    assert!(answers[1]["error"].as_str().unwrap().contains("JobInstanceAlreadyComplete"), "{}", answers[1]);
    assert_eq!(answers[2]["status"], "COMPLETED", "{:#}", answers[2]);
    assert_eq!(site.loaded().await, [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]);
    assert_eq!(answers[0]["steps"]["load"]["read"], 3, "it begins behind what was committed");
    assert_eq!(compare(&site, &answers[3]).await, 4);
    site.stage.run(&["job", "run", "load.yaml", "-p", "day=1"]).fails("TM1004", 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_read_what_spring_batch_has_run_and_continue_it_where_that_is_exact() {
    let Some(site) = Site::new().await else { return };
    site.write("load.yaml", LOAD);
    site.write_job("cursor", READ_CURSOR, "");
    site.write_job("pages", READ_CURSOR, "");
    site.write_job("keys", READ_KEYSET, "");
    site.write("work.yaml", &LOAD.replace("job: load", "job: work").replace("name: load", "name: work"));
    let file = site.write("in-1.csv", "n\n11\n12\n13\n14\n15\n");
    site.write("in-2.csv", "n\n21\n22\n23\nx\n25\n");
    let java_file = site.write("java-2.csv", "n\n21\n22\n23\n24\n25\n");
    let launch = |job: &str, step: &str, more: Value| {
        let mut order =
            json!({"do": "launch", "job": job, "step": step, "name": "reader", "parameters": {"day": "1"}});
        more.as_object().unwrap().iter().for_each(|(key, value)| order[key] = value.clone());
        order
    };

    let answers = site.spring(&[
        launch("load", "csv", json!({"name": "", "file": file, "fails_at": 14})),
        launch(
            "load",
            "csv",
            json!({"parameters": {"day": "2"}, "file": java_file, "fails_at": 23, "serializer": "jackson"}),
        ),
        launch("cursor", "cursor", json!({"fails_at": 5})),
        launch("pages", "paging", json!({"fails_at": 5})),
        launch("keys", "cursor", json!({"fails_at": 5})),
        launch("kinds", "tasklet", json!({"dates": true, "longs": {"run.id": 3}})),
        launch("work", "tasklet", json!({"foreign": true, "fails_at": 0})),
        json!({"do": "vectors"}),
    ]);
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(answers[7], vectors, "the vectors are those of the real serializer");

    // What it has run is told with its contexts.
    for (answer, status) in
        answers.iter().zip(["FAILED", "FAILED", "FAILED", "FAILED", "FAILED", "COMPLETED", "FAILED"])
    {
        assert_eq!(answer["status"], status, "{answer:#}");
        let ours = site.tell(&["executions", &answer["id"].to_string(), "--context"]);
        let execution = &ours["execution"];
        assert_eq!((&execution["status"], &execution["is_foreign"]), (&json!(status), &json!(true)));
    }
    let ours = site.tell(&["executions", &answers[0]["id"].to_string(), "--context"]);
    assert_eq!(ours["contexts"]["steps"]["load"]["values"]["FlatFileItemReader.read.count"], 2);
    let ours = site.tell(&["executions", &answers[5]["id"].to_string(), "--context"]);
    for values in [&ours["contexts"]["job"]["values"], &ours["contexts"]["steps"]["work"]["values"]] {
        assert_eq!((&values["decimal"], &values["local_date"]), (&json!("-12.50"), &json!("2026-01-31")));
        assert_eq!(values["array_list"], json!([1, "x", true, 2.5]));
    }
    let types = |name: &str| {
        let all = ours["parameters"].as_array().unwrap();
        all.iter().find(|parameter| parameter["name"] == name).unwrap()["type"].clone()
    };
    assert_eq!(["date", "time", "double", "legacy"].map(types), ["date", "time", "double", "java.util.Date"]);

    // Continued where the items have the same order.
    assert_eq!(site.loaded().await, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 11, 12, 21, 22]);
    for job in ["load", "cursor"] {
        site.stage.run(&["job", "run", &format!("{job}.yaml"), "-p", "day=1"]).succeeds();
    }
    assert_eq!(
        site.loaded().await,
        [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, 11, 12, 13, 14, 15, 21, 22]
    );

    // Refused elsewhere, with the reason; nothing is written.
    for (job, day, reason) in [
        ("pages", "day=1", "\"reader.start.after\" is a position that only Spring Batch can continue"),
        ("keys", "day=1", "this reader may read them in another order"),
        ("work", "day=1", "\"uri\" is a java.net.URI, which only Java can read"),
        ("load", "day=2", "in-2.csv line 5"),
    ] {
        let refused = site.stage.run(&["job", "run", &format!("{job}.yaml"), "-p", day]);
        assert_eq!(refused.code, Some(10), "{refused:#?}");
        assert!(refused.stderr.contains(reason), "{refused:#?}");
    }
    let foreign = site.tell(&["executions", &answers[6]["id"].to_string(), "--context"]);
    let stored = foreign["contexts"]["steps"]["work"]["foreign"].as_str().unwrap();
    assert!(stored.starts_with("rO0AB"), "{stored}");

    // A step that we have continued after Spring Batch is not begun again by Spring Batch.
    let before = site.loaded().await;
    let again = site.spring(&[launch(
        "load",
        "csv",
        json!({"parameters": {"day": "2"}, "file": java_file, "serializer": "either"}),
    )]);
    assert_eq!(again[0]["status"], "FAILED", "{:#}", again[0]);
    assert!(again[0]["failures"].to_string().contains("continued by Tidemill"), "{:#}", again[0]);
    assert_eq!(site.loaded().await, before);
}

#[test]
fn the_class_on_the_page_of_the_migration_is_the_one_that_is_tested() {
    let page = fs::read_to_string(crate::workspace().join("docs/migrate/spring-batch.md")).unwrap();
    let (_, class) = page.split_once("```java\nclass EitherSerializer").unwrap();
    let (class, _) = class.split_once("```").unwrap();
    let program = fs::read_to_string(PROGRAM).unwrap();
    let lines = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");

    assert!(lines(&program).contains(lines(class).trim_end()), "{class}");
}
