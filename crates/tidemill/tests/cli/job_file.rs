//! Jobs that are declared in files: run, restarted, served, and refused with place and suggestion.

use crate::serve::Served;
use crate::{Ran, Stage, workspace};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![the_example_runs_as_its_first_lines_say,];

const TABLE: &str = "create table transfers
    (id bigint primary key, day date not null, account text not null, cents bigint not null)";

fn example(name: &str) -> String {
    workspace().join("examples/jobs").join(name).canonicalize().unwrap().display().to_string()
}

/// A stage on this database, which has the table of the example.
async fn stage(database: &Scratch) -> Stage {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(TABLE).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always")
}

fn copy_job(name: &str) -> String {
    format!(
        "job: {name}\nparameters: {{ n: {{ type: long }} }}\nsteps:\n  - name: copy\n    chunk: 1\n    \
         read: {{ jsonl: {{ path: in.jsonl }} }}\n    write: {{ jsonl: {{ path: \"{name}-${{n}}.jsonl\" }} }}\n"
    )
}

/// Launches a job by HTTP, and returns the head and the body of the answer.
fn launch(address: &str, job: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    write!(
        stream,
        "POST /api/v1/jobs/{job}/executions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// A stage with a folder of jobs, of which there are `first` and `second`.
fn with_jobs(stage: Stage) -> Stage {
    fs::create_dir(stage.path("jobs")).unwrap();
    fs::write(stage.path("jobs/first.yaml"), copy_job("first")).unwrap();
    fs::write(stage.path("jobs/second.yml"), copy_job("second")).unwrap();
    stage
}

async fn the_example_runs_as_its_first_lines_say(database: Scratch) {
    let stage = stage(&database).await;
    let file = format!("file={}", example("transfers.csv"));
    let run = ["job", "run", &example("transfers.yaml"), "-p", "date=2026-11-15", "-p", &file];

    stage.run(&run).succeeds();

    let report = fs::read_to_string(stage.path("report-2026-11-15.csv")).unwrap();
    assert_eq!(report, "account,cents\nKIM,10029\nLEE,1949\n");
    let rejects = fs::read_to_string(stage.path("rejects-2026-11-15.csv")).unwrap();
    assert!(rejects.contains("12.345 would lose digits"), "{rejects}");
    stage.run(&run).fails("TM1004", 5);
}

#[test]
fn a_broken_file_is_refused_with_place_and_suggestion_before_the_database_is_touched() {
    let stage = Stage::on("postgres://nobody@127.0.0.1:1/x");
    let good = fs::read_to_string(example("transfers.yaml")).unwrap();
    let broken = good.replace("upper(", "uper(").replace("filter:", "fliter:");
    fs::write(stage.path("broken.yaml"), broken).unwrap();

    let ran = stage.run(&["job", "run", "broken.yaml", "-p", "date=2026-11-15"]);

    ran.fails("TM1020", 2);
    assert!(ran.stderr.contains("broken.yaml:19:7: "), "{ran:#?}");
    assert!(ran.stderr.contains("did you mean filter?"), "{ran:#?}");
    fs::write(stage.path("broken.yaml"), good.replace("upper(", "uper(")).unwrap();
    let ran = stage.run(&["job", "run", "./broken.yaml", "-p", "date=2026-11-15"]);
    ran.fails("TM1020", 2);
    assert!(ran.stderr.contains("broken.yaml:23:19: "), "{ran:#?}");
    assert!(ran.stderr.contains("did you mean upper?"), "{ran:#?}");
    stage.run(&["job", "run", "nowhere.yaml"]).fails("TM1020", 2);
    fs::write(stage.path("copy.yaml"), copy_job("copy")).unwrap();
    let ran = stage.run(&["job", "run", "copy.yaml"]);
    assert!(ran.fails("TM1007", 2).stderr.contains("copy.yaml:7:35: the parameter \"n\" is needed here"));
    let ran = stage.run(&["job", "run", "copy.yaml", "-p", "n=x"]);
    ran.fails("TM1007", 2);
}

/// The job of the README.
const PAYMENTS: &str = r#"job: payments
parameters:
  day: { type: date, required: true }
steps:
  - name: table
    sql: "create table if not exists payment (id bigint primary key, cents bigint not null)"
  - name: load
    chunk: 2
    read: { csv: { path: "payments-${day}.csv" } }
    process: { map: { id: "int(row.id)", cents: "decimal(row.amount, 2)" } }
    write:
      sql: { table: payment }
"#;

#[test]
fn parameters_that_are_missing_misspelt_or_without_a_value_are_named() {
    let stage = Stage::on("postgres://nobody@127.0.0.1:1/x");
    fs::write(stage.path("payments.yaml"), PAYMENTS).unwrap();
    let refused = |given: &[&str]| {
        let ran = stage.run(&[&["job", "run", "payments.yaml"], given].concat());
        ran.fails("TM1007", 2);
        ran.stderr
    };

    let misspelt = refused(&["-p", "dya=2026-11-16"]);
    assert!(misspelt.contains("parameter \"day\" is missing"), "{misspelt}");
    assert!(misspelt.contains("no parameter \"dya\" (did you mean \"day\"?)"), "{misspelt}");
    // The file says itself that it is required: no line of it is to blame.
    assert!(!misspelt.contains("payments.yaml:"), "{misspelt}");
    let bare = refused(&["-p", "day=2026-11-16", "-p", "day"]);
    assert!(bare.contains("argument 2 is \"day\": write day=VALUE"), "{bare}");
    let secret = refused(&["-p", "hunter2"]);
    assert!(secret.contains("it is argument 1") && !secret.contains("hunter2"), "{secret}");
}

#[test]
fn a_backfill_tells_why_a_date_failed_and_where_there_is_more() {
    let stage = Stage::new();
    fs::write(stage.path("payments.yaml"), PAYMENTS).unwrap();

    let range = ["--parameter", "day", "--from", "2026-01-01", "--to", "2026-01-02"];
    let ran = stage.run(&[&["job", "backfill", "payments.yaml"], &range[..]].concat());

    ran.fails("TM1013", 10);
    let cause = "2026-01-01: FAILED: ";
    let told: Vec<&str> = ran.stderr.lines().filter(|line| line.contains(cause)).collect();
    assert_eq!(told.len(), 2, "as it happens, and at the end: {ran:#?}");
    assert!(told.iter().all(|line| line.contains("payments-2026-01-01.csv")), "{ran:#?}");
    assert!(ran.stderr.contains("fix: fix the cause (see `tidemill executions 1`)"), "{ran:#?}");
    assert!(ran.stdout.contains("2026-01-01  1          FAILED\n"), "{ran:#?}");
}

#[test]
fn who_goes_on_right_after_a_death_elsewhere_is_told_how_long_to_wait() {
    let database = Scratch::file();
    let stage = Stage::on(database.url()).with("TIDEMILL_PROCESS_LEASE", "10m");
    let pid = killed_while_it_runs(&stage);
    stage.move_away(pid);

    let restarted = stage.run(&["job", "restart", "1", "--file", "slow.yaml"]);
    let again = stage.run(&["job", "run", "slow.yaml"]);
    let recovered = stage.run(&["job", "recover", "1", "--reason", "killed"]);

    let exactly = [(&restarted, "TM1003"), (&recovered, "TM1010")];
    for (ran, code) in exactly {
        ran.fails(code, 5);
        assert!(ran.stderr.contains("if its process "), "{ran:#?}");
        // What is left of ten minutes.
        let left =
            ["10m", "9m"].map(|left| format!("has just died, wait until its lease lapses, at most {left}"));
        assert!(left.iter().any(|left| ran.stderr.contains(left)), "{ran:#?}");
    }
    again.fails("TM1003", 5);
    assert!(again.stderr.contains("wait until its lease lapses, at most 10m, then try again"), "{again:#?}");
}

#[test]
fn who_goes_on_right_after_a_death_on_this_machine_need_not_wait() {
    let recover = ["job", "recover", "1", "--reason", "killed"];
    for command in [&recover[..], &["job", "run", "slow.yaml", "--accept-change"]] {
        let database = Scratch::file();
        let stage = Stage::on(database.url()).with("TIDEMILL_PROCESS_LEASE", "10m");
        killed_while_it_runs(&stage);
        fs::write(stage.path("slow.yaml"), SLOW.replace("600", "0")).unwrap();

        stage.run(command).succeeds();
    }
}

const SLOW: &str = "job: slow\nsteps:\n  - { name: nap, command: [sleep, '600'] }\n";

/// Runs `slow.yaml` and kills it; returns its pid.
fn killed_while_it_runs(stage: &Stage) -> u32 {
    fs::write(stage.path("slow.yaml"), SLOW).unwrap();
    let mut command = stage.command(&["job", "run", "slow.yaml"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Guarded::spawn(command).unwrap();
    let is_running =
        |_: &u32| stage.run(&["executions", "--status", "STARTED", "-o", "jsonl"]).stdout.contains("slow");
    (0..2_000).find(is_running).expect("it starts");
    running.signal(Signal::KILL).unwrap();
    running.wait_deadline(Duration::from_secs(120)).expect("it is dead");
    running.pid()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_tells_the_command_that_goes_on_and_that_does() {
    let database = Scratch::file();
    let stage = stage(&database).await;
    let lines = |amount: &str| format!("id,account,amount\n1,a,{amount}\n2,a,{amount}\n3,a,{amount}\n");
    fs::write(stage.path("in.csv"), lines("x.00")).unwrap();
    fs::create_dir(stage.path("my jobs")).unwrap();
    fs::copy(example("transfers.yaml"), stage.path("my jobs/t.yaml")).unwrap();

    let failed = stage.run(&["job", "run", "my jobs/t.yaml", "-p", "date=2026-11-15", "-p", "file=in.csv"]);

    failed.fails("TM1017", 10);
    assert!(failed.stderr.contains("`tidemill job restart 1 --file 'my jobs/t.yaml'`"), "{failed:#?}");
    fs::write(stage.path("in.csv"), lines("1.00")).unwrap();
    stage.run(&["job", "restart", "1"]).fails("TM1001", 3);
    stage.run(&["job", "restart", "1", "--file", "my jobs/t.yaml"]).succeeds();
    assert_eq!(fs::read_to_string(stage.path("report-2026-11-15.csv")).unwrap(), "account,cents\nA,300\n");
}

#[test]
fn the_jobs_of_a_folder_are_listed_run_and_restarted() {
    let stage = with_jobs(Stage::new());
    let json = |ran: &Ran| serde_json::from_str::<serde_json::Value>(&ran.succeeds().stdout).unwrap();

    let listed = json(&stage.run(&["job", "list", "--jobs", "jobs", "-o", "json"]));
    assert_eq!(
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["first", "second"]
    );
    let failed = stage.run(&["job", "run", "second", "--jobs", "jobs", "-p", "n=1"]);
    assert!(
        failed.fails("TM1013", 10).stderr.contains("`tidemill job restart 1 --jobs jobs`"),
        "{failed:#?}"
    );
    fs::write(stage.path("in.jsonl"), "{\"a\":1}\n").unwrap();
    fs::write(stage.path("tidemill.toml"), "[jobs]\nfolder = \"jobs\"\n").unwrap();
    stage.run(&["job", "restart", "1"]).succeeds();
    assert_eq!(fs::read_to_string(stage.path("second-1.jsonl")).unwrap(), "{\"a\":1}\n");
    stage.run(&["job", "show", "first"]).succeeds();
    let missing = stage.run(&["job", "run", "first"]);
    assert!(missing.fails("TM1007", 2).stderr.contains("\"n\" is needed here"), "{missing:#?}");
}

#[test]
fn a_server_with_a_folder_runs_its_jobs() {
    let stage = with_jobs(Stage::new());
    fs::write(stage.path("in.jsonl"), "{\"a\":1}\n").unwrap();
    let served = Served::start(&stage, &["--jobs", "jobs"]);

    let (head, body) = launch(&served.address, "first", r#"{"parameters":{"n":7}}"#);

    assert!(head.starts_with("HTTP/1.1 202 "), "{head} {body}");
    for _ in 0..6_000 {
        if stage.path("first-7.jsonl").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read_to_string(stage.path("first-7.jsonl")).unwrap(), "{\"a\":1}\n");
}

#[test]
fn a_server_does_not_start_with_a_folder_that_does_not_exist() {
    Stage::new().run(&["serve", "--jobs", "nowhere"]).fails("TM1020", 2);
}
