//! Schedules with real processes, and what the command line says of them; next instances and backfills.

use crate::examples::Program;
use crate::{Ran, Stage};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use tidemill_domain::schedule::TickOutcome;
use tidemill_store::Store;
use tidemill_store::job::ExecutionFilter;
use tidemill_store::schedule::TickRecord;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    a_server_that_dies_between_the_launch_and_its_commit_leaves_nothing,
    the_command_line_shows_schedules_and_pauses_them,
    a_backfill_runs_each_date_and_passes_over_what_is_complete,
];

const PATIENCE: Duration = Duration::from_secs(180);

/// A database with the table that the jobs of `crash_sweep` write to.
async fn prepared(database: &Scratch) -> Store {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table swept (run text not null, id bigint not null)").await.unwrap();
    tx.commit().await.unwrap();
    store
}

/// A server that runs the job `sweep` every second.
fn every_second(url: &str) -> Program {
    let stage =
        Stage::on(url).with("SWEEP_CRON", "* * * * * *").with("TIDEMILL_SERVER_LISTEN", "127.0.0.1:0");
    Program::new("crash_sweep", stage)
}

async fn ticks(store: &Store) -> Vec<TickRecord> {
    let mut tx = store.read().await.unwrap();
    let ticks = tx.schedules().ticks("often", None, 1000).await.unwrap();
    tx.rollback().await.unwrap();
    ticks
}

async fn executions(store: &Store) -> usize {
    let mut tx = store.read().await.unwrap();
    let found = tx.jobs().executions(&ExecutionFilter::default(), None, 1000).await.unwrap().len();
    tx.rollback().await.unwrap();
    found
}

/// Waits until so many ticks are recorded.
async fn until_ticks(store: &Store, count: usize) {
    for _ in 0..4_800 {
        if ticks(store).await.len() >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{count} ticks have not come: {:?}", ticks(store).await);
}

fn end(mut server: Guarded) {
    server.signal(Signal::TERM).unwrap();
    assert!(server.wait_deadline(PATIENCE).unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_fire_each_tick_once() {
    let Some(database) = Scratch::postgres().await else { return };
    let store = prepared(&database).await;
    let (one, two) = (every_second(database.url()), every_second(database.url()));
    let servers = [one.start("one.log", &["serve"]), two.start("two.log", &["serve"])];

    until_ticks(&store, 6).await;
    servers.into_iter().for_each(end);

    let ticks = ticks(&store).await;
    assert!(ticks.iter().all(|tick| tick.outcome == TickOutcome::Fired), "{ticks:?}");
    let distinct: BTreeSet<_> = ticks.iter().map(|tick| tick.execution.unwrap()).collect();
    assert_eq!((distinct.len(), executions(&store).await), (ticks.len(), ticks.len()));
    let whole = ticks.iter().all(|tick| tick.tick.as_micros() % 1_000_000 == 0);
    let no_gap = ticks.windows(2).all(|pair| pair[0].tick.since(pair[1].tick) == Duration::from_secs(1));
    assert!(whole && no_gap, "{ticks:?}");
    let late = ticks.iter().map(|tick| tick.at.since(tick.tick)).max().unwrap();
    // At once, but for what a busy machine takes. A server that looks now and then is later.
    assert!(late < Duration::from_secs(30), "a tick was fired {late:?} late");
}

async fn a_server_that_dies_between_the_launch_and_its_commit_leaves_nothing(database: Scratch) {
    let store = prepared(&database).await;
    let program = every_second(database.url());
    let mut dying = program.command(&["serve"]);
    let ended = dying.env("TIDEMILL_CRASH_AT", "schedule_fired:1").output().unwrap();
    assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
    assert_eq!((ticks(&store).await.len(), executions(&store).await), (0, 0), "on {}", database.url());

    let server = program.start("again.log", &["serve"]);
    until_ticks(&store, 2).await;
    end(server);

    let ticks = ticks(&store).await;
    assert!(ticks.iter().all(|tick| tick.execution.is_some()), "{ticks:?}");
    assert_eq!(executions(&store).await, ticks.len());
}

/// A database on which a server of `scheduled_job` has been.
async fn served(database: &Scratch) -> Program {
    let store = database.store(None).await.unwrap();
    let stage = Stage::on(database.url()).with("TIDEMILL_SERVER_LISTEN", "127.0.0.1:0");
    let program = Program::new("scheduled_job", stage);
    let server = program.start("serve.log", &["serve"]);
    let written_down = async {
        loop {
            let mut tx = store.read().await.unwrap();
            let is_there = tx.schedules().find("nightly").await.unwrap().is_some();
            tx.rollback().await.unwrap();
            if is_there {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, written_down).await.expect("the schedule of the server");
    end(server);
    program
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.succeeds().stdout).unwrap()
}

async fn the_command_line_shows_schedules_and_pauses_them(database: Scratch) {
    let program = served(&database).await;

    let listed = json(&program.run(&["schedule", "list", "-o", "json"]));
    assert_eq!(listed["schema"], "tidemill.schedule/v1");
    assert_eq!(
        (&listed["items"][0]["name"], &listed["items"][0]["state"]),
        (&"nightly".into(), &"active".into())
    );
    let paused = program.run(&["schedule", "pause", "nightly", "--reason", "the source moves"]);
    assert!(paused.succeeds().stdout.contains("reason=the source moves"), "{paused:#?}");
    let shown = json(&program.run(&["schedule", "show", "nightly", "-o", "json"]));
    assert_eq!((&shown["state"], &shown["cron"]), (&"paused".into(), &"0 2 * * *".into()));
    assert_eq!(shown["parameters"]["day"], "${tick.date-1d}");
    let resumed = program.run(&["schedule", "resume", "nightly"]);
    assert!(!resumed.succeeds().stdout.contains("pause"), "{resumed:#?}");

    let next = json(&program.run(&["schedule", "next", "nightly", "--count", "3", "-o", "json"]));
    let local: Vec<&str> =
        next["items"].as_array().unwrap().iter().map(|tick| tick["local_time"].as_str().unwrap()).collect();
    assert_eq!(local.len(), 3);
    assert!(local.iter().all(|time| time.ends_with("T02:00:00")), "{local:?}");
    let ticks = program.run(&["schedule", "ticks", "nightly"]);
    assert!(ticks.succeeds().stdout.contains("No ticks yet."), "{ticks:#?}");
    for command in ["show", "resume", "next", "ticks"] {
        program.run(&["schedule", command, "weekly"]).fails("TM1024", 3);
    }
    for command in ["pause", "delete"] {
        let mistyped = program.run(&["schedule", command, "nigthly", "--reason", "x"]);
        assert!(mistyped.fails("TM1024", 3).stderr.contains("fix: did you mean nightly? "), "{mistyped:#?}");
    }
    let audit = program.run(&["audit", "list"]);
    for action in ["schedule.define", "schedule.pause", "schedule.resume"] {
        assert!(audit.stdout.contains(action), "{action}: {audit:#?}");
    }
}

#[test]
fn the_next_instance_counts_up_and_takes_nothing_else_along() {
    let program = Program::new("hello_chunk", Stage::new());

    for arguments in [["-p", "note=old"].as_slice(), &["--next"], &["--next"]] {
        program.run(&[&["job", "run", "hello"], arguments].concat()).succeeds();
        std::fs::remove_file(program.stage.path("doubled.txt")).unwrap();
    }

    let shown = json(&program.run(&["executions", "3", "-o", "json"]));
    let parameters = shown["parameters"].to_string();
    assert!(parameters.contains("run.id") && parameters.contains("\"2\""), "{parameters}");
    assert!(!parameters.contains("note"), "{parameters}");
    program.run(&["job", "run", "hello", "--next", "-p", "run.id=7,long"]).fails("TM1007", 2);
}

/// Dates and results of a backfill.
fn results(ran: &Ran) -> Vec<(String, String)> {
    let object: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:#?}"));
    let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    let items = object["items"].as_array().unwrap();
    items.iter().map(|item| (text(item, "date"), text(item, "result"))).collect()
}

async fn a_backfill_runs_each_date_and_passes_over_what_is_complete(database: Scratch) {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    let program = Program::new("scheduled_job", stage);
    let backfill = |to: &'static str, more: &[&'static str]| {
        let mut arguments =
            vec!["job", "backfill", "report", "--parameter", "day", "--from", "2026-01-01", "--to", to];
        let output = if more.contains(&"csv") { "csv" } else { "json" };
        arguments.extend(["-o", output]);
        arguments.extend(more.iter().filter(|word| **word != "csv"));
        program.run(&arguments)
    };
    let line = |date: &str, result: &str| (date.to_owned(), result.to_owned());
    let days = ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"];
    let passed = "skipped: already complete";

    let dry = backfill("2026-01-02", &["--dry-run"]);
    assert_eq!(results(dry.succeeds()), [line(days[0], "would run"), line(days[1], "would run")]);
    let first = backfill("2026-01-02", &[]);
    // The job writes a line of its own for each date.
    let told: Vec<&str> =
        first.succeeds().stdout.lines().filter(|line| line.contains("report for")).collect();
    assert_eq!(told, ["  report for 2026-01-01", "  report for 2026-01-02"]);
    let dry = backfill("2026-01-03", &["--dry-run"]);
    let expected = [line(days[0], passed), line(days[1], passed), line(days[2], "would run")];
    assert_eq!(results(&dry), expected);
    let all = backfill("2026-01-04", &["--parallel", "3", "csv"]);
    for (day, result) in days.iter().zip([passed, passed, "COMPLETED", "COMPLETED"]) {
        let found = all.succeeds().stdout.lines().find(|line| line.starts_with(day)).unwrap().to_owned();
        assert!(found.ends_with(result), "{found}");
    }

    backfill("2025-12-31", &[]).fails_in_json("TM1025", 2);
    backfill("2056-12-31", &[]).fails_in_json("TM1025", 2);
    backfill("2026-01-02", &["--every", "1h"]).fails_in_json("TM1025", 2);
    backfill("2026-01-02", &["-p", "day=2026-01-01"]).fails_in_json("TM1025", 2);
}

impl Ran {
    #[track_caller]
    fn fails_in_json(&self, code: &str, exit: i32) {
        assert_eq!(self.code, Some(exit), "{self:#?}");
        assert!(self.stderr.contains(code), "{self:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_stops_at_the_first_failure_unless_told_to_keep_going_and_goes_on_the_next_time() {
    let database = Scratch::file();
    let program = Program::new("crash_sweep", Stage::on(database.url()));
    let backfill = |more: &[&str]| {
        let mut arguments = vec!["job", "backfill", "sweep", "--parameter", "run", "-o", "json"];
        arguments.extend(["--from", "2026-01-01", "--to", "2026-01-03"]);
        arguments.extend(more);
        let ran = program.run(&arguments);
        let words = results(&ran).into_iter().map(|(_, result)| result).collect::<Vec<_>>();
        (ran.code, words.join(", "))
    };
    let is = |code, words: &str| (Some(code), words.to_owned());

    // The table that the job writes to is not there.
    assert_eq!(backfill(&[]), is(10, "FAILED, not started, not started"));
    assert_eq!(backfill(&["--keep-going"]), is(10, "FAILED, FAILED, FAILED"));
    assert_eq!(backfill(&["--dry-run"]), is(0, "would resume, would resume, would resume"));
    prepared(&database).await;
    assert_eq!(backfill(&[]), is(0, "COMPLETED, COMPLETED, COMPLETED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_that_is_told_to_stop_starts_no_further_date() {
    let database = Scratch::file();
    let store = prepared(&database).await;
    let program = Program::new("crash_sweep", Stage::on(database.url()));
    let arguments = ["job", "backfill", "sweep", "--parameter", "run", "-p", "pause=100"];
    let dates = ["--from", "2026-01-01", "--to", "2026-01-03"];
    let mut working = program.start("backfill.log", &[arguments.as_slice(), &dates].concat());
    while executions(&store).await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    working.signal(Signal::TERM).unwrap();
    let ended = working.wait_deadline(PATIENCE).unwrap();

    let log = std::fs::read_to_string(program.stage.path("backfill.log")).unwrap();
    assert_eq!(ended.code(), Some(11), "{log}");
    assert!(log.contains("2026-01-01: STOPPED") && log.contains("2 were not started"), "{log}");
    assert_eq!(executions(&store).await, 1);
}
