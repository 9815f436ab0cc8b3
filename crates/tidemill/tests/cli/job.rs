//! Jobs at the command line: what is shown, how it ends, and a server that runs them.

use crate::examples::Program;
use crate::{Ran, Stage};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(180);

/// What `crash_sweep` writes into.
const TABLE: &str = "create table swept (run text not null, id bigint not null)";

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

/// The program of `restart_after_crash`, after a run that failed in the sixth chunk.
fn stumbled() -> (Program, Ran) {
    let program = Program::new("restart_after_crash", Stage::new());
    let mut command = program.command(&["job", "run", "squares", "-p", "day=2026-11-15,date"]);
    let failed = Ran::of(command.env("STUMBLE", "fail").output().unwrap());
    (program, failed)
}

#[test]
fn what_fails_ends_with_10_and_tells_the_command_that_goes_on() {
    let (program, failed) = stumbled();

    failed.fails("TM1013", 10);
    assert!(
        failed.stderr.contains("failed in step square\n  process failed: stumbled over a stone"),
        "{failed:#?}"
    );
    assert!(failed.stderr.contains("`restart_after_crash job restart 1`"), "{failed:#?}");
    let restarted = program.run(&["job", "restart", "1", "-o", "json"]);

    let run = json(restarted.succeeds());
    let execution = &run["execution"];
    assert_eq!(
        (&execution["status"], &execution["id"], &execution["instance"]),
        (&"COMPLETED".into(), &2.into(), &1.into())
    );
    assert_eq!(
        (&run["steps"][0]["name"], &run["steps"][0]["counters"]["read"]),
        (&"square".into(), &50.into())
    );
    assert_eq!(run["steps"][0]["delivery"], "exactly-once");
}

#[test]
fn what_is_complete_ends_with_5_and_what_is_not_there_with_3() {
    let (program, _) = stumbled();
    program.run(&["job", "restart", "1"]).succeeds();

    program.run(&["job", "run", "squares", "-p", "day=2026-11-15,date"]).fails("TM1004", 5);
    program.run(&["job", "restart", "1"]).fails("TM1004", 5);
    program.run(&["job", "restart", "9"]).fails("TM1002", 3);
    let unknown = program.run(&["job", "run", "cubes"]);
    assert!(unknown.fails("TM1001", 3).stderr.contains("there are: squares"), "{unknown:#?}");
    let stock = program.stage.run(&["job", "run", "squares"]);
    assert!(stock.fails("TM1001", 3).stderr.contains("App::new().job("), "{stock:#?}");
    program.run(&["executions", "9"]).fails("TM1002", 3);
    program.run(&["job", "show", "cubes"]).fails("TM1001", 3);
}

#[test]
fn parameters_and_ids_that_make_no_sense_are_refused_before_the_database_is_touched() {
    let stage = Stage::on("postgres://t@127.0.0.1:1/x");
    let program = Program::new("hello_chunk", stage);

    for wrong in ["n", "=1", "n=x,long"] {
        program.run(&["job", "run", "hello", "-p", wrong]).fails("TM1007", 2);
    }
    program.run(&["job", "run", "hello", "-p", "n=1", "-p", "n=2"]).fails("TM1007", 2);
    let secret = program.run(&["job", "run", "hello", "-p", "n=s3cret,long"]);
    assert!(!secret.fails("TM1007", 2).stderr.contains("s3cret"), "{secret:#?}");
    for arguments in [
        &["job", "stop", "0"][..],
        &["job", "stop", "x"],
        &["job", "abandon", "1"],
        &["job", "abandon", "1", "--reason", " "],
        &["executions", "--status", "DONE"],
        &["executions", "1", "--job", "hello"],
        &["executions", "--context"],
        &["executions", "--limit", "0"],
    ] {
        program.run(arguments).fails("TM0002", 2);
    }
}

#[test]
fn a_run_tells_its_steps_in_every_form_and_nothing_more_when_quiet() {
    let program = Program::new("hello_chunk", Stage::new());
    let run = |day: &str, form: &str| {
        fs::remove_file(program.stage.path("doubled.txt")).ok();
        let day = format!("day={day}");
        program.run(&["job", "run", "hello", "-p", &day, "-o", form, "-q"])
    };

    let (table, csv) = (run("1", "table"), run("2", "csv"));
    let (pretty, line) = (run("3", "json"), run("4", "jsonl"));

    for quiet in [&table, &csv, &pretty, &line] {
        assert!(quiet.succeeds().stderr.is_empty(), "{quiet:#?}");
    }
    assert!(table.stdout.starts_with("STEP    STATUS     READ  WRITE"), "{table:#?}");
    assert!(
        csv.stdout.starts_with("step,status,read,write,")
            && csv.stdout.contains("\ndouble,COMPLETED,100,100,")
    );
    assert_eq!(json(&pretty)["schema"], "tidemill.job_run/v1");
    assert_eq!(line.stdout.lines().count(), 1);
    assert_eq!(json(&line)["steps"][0]["counters"]["write"], 100);
}

#[test]
fn jobs_and_executions_are_shown_by_any_program_with_the_same_database() {
    let (program, _) = stumbled();
    program.run(&["job", "restart", "1"]).succeeds();
    let any = &program.stage;

    let (ours, theirs) =
        (program.run(&["job", "list", "-o", "json"]), any.run(&["job", "list", "-o", "json"]));

    assert_eq!(json(ours.succeeds())["items"][0]["is_registered"], true);
    let listed = json(theirs.succeeds())["items"][0].clone();
    assert_eq!((&listed["name"], &listed["is_registered"]), (&"squares".into(), &false.into()));
    assert_eq!((&listed["last"]["status"], &listed["instances"]), (&"COMPLETED".into(), &1.into()));
    let shown = program.run(&["job", "show", "squares"]);
    assert!(shown.succeeds().stdout.contains("step square (chunk)"), "{shown:#?}");
    assert!(shown.stdout.contains("day=2026-11-15"), "{shown:#?}");
    let detail = json(any.run(&["job", "show", "squares", "-o", "json"]).succeeds());
    assert_eq!((&detail["definition"], &detail["instances"][0]["executions"]), (&Value::Null, &2.into()));
    let executions = |arguments: &[&str]| -> Vec<i64> {
        let mut all = vec!["executions", "-o", "json"];
        all.extend(arguments);
        let items = json(any.run(&all).succeeds())["items"].clone();
        items.as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
    };
    assert_eq!(executions(&[]), [2, 1]);
    assert_eq!(executions(&["--status", "failed"]), [1]);
    assert_eq!(executions(&["--before", "2"]), [1]);
    assert_eq!(executions(&["--limit", "1"]), [2]);
    assert_eq!(executions(&["--job", "cubes"]), [0_i64; 0]);
    assert_eq!(any.run(&["job", "executions"]).stdout, any.run(&["executions"]).stdout);
}

#[test]
fn one_execution_is_told_with_parameters_process_reason_and_contexts() {
    let (program, _) = stumbled();
    let any = &program.stage;

    let (table, object) = (
        any.run(&["executions", "1", "--context"]),
        any.run(&["executions", "1", "--context", "-o", "json"]),
    );

    for part in [
        "execution 1 of job squares",
        "FAILED",
        "parameter   day=2026-11-15 (date)",
        "stumbled over a stone",
        "delivers exactly-once",
        "\"numbers.read.count\": 50",
        "), stopped",
    ] {
        assert!(table.succeeds().stdout.contains(part), "{part}: {table:#?}");
    }
    let object = json(object.succeeds());
    assert_eq!(object["contexts"]["steps"]["square"]["values"]["numbers.read.count"], 50);
    assert_eq!(
        (&object["owner"]["state"], &object["owner"]["holds_lease"]),
        (&"stopped".into(), &false.into())
    );
    let without = json(any.run(&["executions", "1", "-o", "json"]).succeeds());
    assert!(without.get("contexts").is_none(), "{without}");
}

#[test]
fn what_was_given_up_is_never_restarted() {
    let (program, _) = stumbled();
    let any = &program.stage;
    any.run(&["job", "recover", "1", "--reason", "x"]).fails("TM1008", 5);
    any.run(&["job", "stop", "1"]).fails("TM1008", 5);

    any.run(&["job", "abandon", "1", "--reason", "the day is over"]).succeeds();

    program.run(&["job", "restart", "1"]).fails("TM1004", 5);
    let log = any.run(&["audit", "list", "-o", "json"]);
    assert!(log.stdout.contains("execution.abandon") && log.stdout.contains("the day is over"), "{log:#?}");
}

/// A server that can launch the jobs of `crash_sweep`, one at a time.
struct Served {
    program: Program,
    child: Guarded,
    address: String,
    _database: Scratch,
}

impl Served {
    async fn start() -> Self {
        let database = Scratch::file();
        let store = database.store(None).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test(TABLE).await.unwrap();
        tx.commit().await.unwrap();
        store.close().await;
        let stage = Stage::on(database.url()).with("TIDEMILL_JOBS_MAX_RUNNING", "1");
        let program = Program::new("crash_sweep", stage);
        let child = program.start("serve.log", &["serve", "--listen", "127.0.0.1:0"]);
        let address = found(|| {
            let log = fs::read_to_string(program.stage.path("serve.log")).unwrap();
            let line = log.split("serving http://").nth(1)?.lines().next()?;
            Some(line.trim_end_matches('/').to_owned())
        });
        Self { program, child, address, _database: database }
    }

    /// Asks, and returns the head and the body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (String, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
            self.address
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
    }

    fn status(&self, id: i64) -> String {
        let (_, detail) = self.ask("GET", &format!("/api/v1/executions/{id}"), "");
        detail["execution"]["status"].as_str().unwrap().to_owned()
    }

    fn launch(&self, run: &str, pause: u32) -> i64 {
        let body = serde_json::json!({ "parameters": {
            "run": run,
            "pause": { "value": pause, "type": "long", "identifying": false },
        }});
        let (head, execution) = self.ask("POST", "/api/v1/jobs/sweep/executions", &body.to_string());
        assert!(head.starts_with("HTTP/1.1 202 "), "{head} {execution}");
        let id = execution["id"].as_i64().unwrap();
        assert!(head.to_lowercase().contains(&format!("location: /api/v1/executions/{id}\r\n")), "{head}");
        id
    }
}

/// Looks until there is something, which has to be in time.
fn found<T>(look: impl Fn() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nothing was found in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_runs_what_it_is_asked_to() {
    let served = Served::start().await;

    let id = served.launch("night", 0);

    found(|| (served.status(id) == "COMPLETED").then_some(()));
    let (_, steps) = served.ask("GET", &format!("/api/v1/executions/{id}/steps"), "");
    assert_eq!(steps["items"][0]["counters"]["write"], 50);
    let (head, refused) = served.ask("POST", "/api/v1/jobs/nightly/executions", "{}");
    assert!(head.starts_with("HTTP/1.1 404 ") && refused["code"] == "TM1001", "{head} {refused}");
    assert_eq!(refused["remedy"], "there are: files, leaky, phoenix, sweep, table");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_runs_as_many_executions_at_once_as_is_configured() {
    let served = Served::start().await;
    served.launch("night", 500);

    let (head, refused) =
        served.ask("POST", "/api/v1/jobs/sweep/executions", r#"{"parameters":{"run":"day"}}"#);

    assert!(head.starts_with("HTTP/1.1 503 ") && refused["code"] == "TM1018", "{head} {refused}");
    assert!(head.to_lowercase().contains("retry-after: 10\r\n"), "{head}");
    served.program.run(&["job", "run", "sweep", "-p", "run=day"]).succeeds();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_to_end_stops_its_executions_first() {
    let mut served = Served::start().await;
    let id = served.launch("night", 20);
    found(|| {
        let (_, steps) = served.ask("GET", &format!("/api/v1/executions/{id}/steps"), "");
        (steps["items"][0]["counters"]["commit"].as_u64()? > 0).then_some(())
    });

    served.child.signal(Signal::TERM).unwrap();
    let ended = served.child.wait_deadline(PATIENCE).expect("it ends within 25 seconds");

    assert!(ended.success(), "{ended:?}");
    let detail = json(&served.program.run(&["executions", &id.to_string(), "-o", "json"]));
    assert_eq!(
        (&detail["execution"]["status"], &detail["owner"]["state"]),
        (&"STOPPED".into(), &"stopped".into())
    );
    let written = detail["steps"][0]["counters"]["write"].as_u64().unwrap();
    assert!((10..50).contains(&written) && written.is_multiple_of(10), "{detail}");
    served.program.run(&["job", "restart", &id.to_string()]).succeeds();
}
