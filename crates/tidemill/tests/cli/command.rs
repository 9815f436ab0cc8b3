//! Commands of a real program that is killed, frozen and asked to stop. The program is the example `nightly_report`.

use crate::BINARY;
use crate::exact::{die_at, go_on, stage, start_mortal};
use crate::examples::Program;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    the_command_of_a_killed_process_dies_with_it_and_runs_once_more,
    a_signal_to_the_program_stops_its_command,
    our_own_settings_are_not_passed_on_and_a_command_may_be_our_program,
    a_command_says_how_the_job_goes_on,
];

const PATIENCE: Duration = Duration::from_secs(120);

const NIGHTLY: [&str; 5] = ["job", "run", "nightly", "-p", "date=2026-11-15,date"];

/// Holds a lock together with what it has started, and notes when somebody else holds it. In its first run it does
/// not end.
const LOCKED: &str = "exec 9> lock
flock -n 9 || echo overlap >> overlaps
echo \"run $TIDEMILL_RESTART\" >> runs
if [ \"$TIDEMILL_RESTART\" = 0 ]; then sleep 600 & echo $! > child; echo $$ > parent; wait; fi
echo \"report of $1\" > report.txt";

/// The program in a folder with the script that it runs.
fn program(database: &Scratch, script: &str) -> Program {
    let stage = stage(database.url()).with("TIDEMILL_DATABASE_INIT", "always").with("PROGRAM", BINARY);
    let program = Program::new("nightly_report", stage);
    let path = program.stage.path("report.sh");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    program
}

fn text(program: &Program, file: &str) -> String {
    fs::read_to_string(program.stage.path(file)).unwrap_or_default()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    while !is_so() {
        assert!(clock.monotonic().since(start) < PATIENCE, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts the program, and waits until its command and what that has started run.
fn at_work(program: &Program) -> (Guarded, [u32; 2]) {
    let told = [&NIGHTLY[..], &["-v"]].concat();
    let running = start_mortal(program, "run.log", &told);
    until("the command", || text(program, "parent").ends_with('\n'));
    let number = |file| text(program, file).trim().parse().unwrap();
    let processes = [number("parent"), number("child")];
    assert!(processes.into_iter().all(is_running));
    (running, processes)
}

/// Whether a process still does something. One that is dead and not yet waited for does not.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn assert_done(program: &Program) {
    assert_eq!(text(program, "runs"), "run 0\nrun 1\n");
    assert_eq!(text(program, "overlaps"), "", "two copies ran at once");
    assert_eq!(text(program, "report.txt"), "report of 2026-11-15\n");
}

async fn the_command_of_a_killed_process_dies_with_it_and_runs_once_more(database: Scratch) {
    let program = program(&database, LOCKED);
    let (mut running, processes) = at_work(&program);

    running.signal(Signal::KILL).unwrap();

    until("the end of the command", || !processes.into_iter().any(is_running));
    go_on(&program, &NIGHTLY).succeeds();
    assert_done(&program);
}

/// On PostgreSQL only: on SQLite who is frozen at the wrong moment keeps everybody else from writing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_of_a_frozen_process_is_ended_before_it_runs_once_more() {
    let Some(database) = Scratch::postgres().await else { return };
    let program = program(&database, LOCKED);
    let (mut running, processes) = at_work(&program);

    running.signal(Signal::STOP).unwrap();
    assert!(processes.into_iter().all(is_running), "nobody ends it while its process stands still");
    go_on(&program, &NIGHTLY).succeeds();

    assert!(!processes.into_iter().any(is_running));
    assert_done(&program);
    running.signal(Signal::CONT).unwrap();
    let ended = running.wait_deadline(PATIENCE).expect("it finds out that it has been given up");
    assert!(!ended.success(), "{ended:?}");
}

/// Before it runs and after it has run: at the worst a command runs twice, one after the other.
#[test]
fn a_process_that_dies_around_its_command_leaves_nothing_and_goes_on() {
    for (point, runs) in [("command_before_start:1", "run 1\n"), ("command_after_end:1", "run 0\nrun 1\n")] {
        let database = Scratch::file();
        let script = "echo \"run $TIDEMILL_RESTART\" >> runs; echo \"report of $1\" > report.txt";
        let program = program(&database, script);

        die_at(&program, &NIGHTLY, point);
        go_on(&program, &NIGHTLY).succeeds();

        assert_eq!(text(&program, "runs"), runs, "{point}");
        assert_eq!(text(&program, "report.txt"), "report of 2026-11-15\n");
    }
}

async fn a_signal_to_the_program_stops_its_command(database: Scratch) {
    let program = program(&database, &format!("echo from the script\n{LOCKED}"));
    let (mut running, processes) = at_work(&program);

    running.signal(Signal::TERM).unwrap();

    let ended = running.wait_deadline(PATIENCE).expect("it stops");
    assert_eq!(ended.code(), Some(11), "{ended:?}");
    until("the end of the command", || !processes.into_iter().any(is_running));
    let log = text(&program, "run.log");
    assert!(log.contains("from the script") && log.contains("report"), "{log}");
    program.run(&NIGHTLY).succeeds();
    assert_done(&program);
}

async fn our_own_settings_are_not_passed_on_and_a_command_may_be_our_program(database: Scratch) {
    let program = program(&database, "env > told\n\"$PROGRAM\" config check || exit 1");

    program.run(&NIGHTLY).succeeds();

    let told = text(&program, "told");
    let mut ours: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("TIDEMILL_"))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        .collect();
    ours.sort_unstable();
    let expected = ["EXECUTION_ID", "JOB", "PARAM_DATE", "RESTART", "STEP", "STEP_EXECUTION_ID"];
    assert_eq!(ours, expected.map(|name| format!("TIDEMILL_{name}")));
    assert!(told.contains("\nPROGRAM=") || told.starts_with("PROGRAM="), "{told}");
}

async fn a_command_says_how_the_job_goes_on(database: Scratch) {
    let nothing = program(&database, "exit 3");
    let broken = program(&database, "echo 'the printer is on fire' >&2; exit 1");

    let ended = nothing.run(&NIGHTLY);
    let failed = broken.run(&["job", "run", "nightly", "-p", "date=2026-11-16,date"]);

    let steps = &ended.succeeds().stdout;
    assert!(steps.contains("report") && !steps.contains("publish"), "{ended:#?}");
    assert!(failed.fails("TM1022", 10).stderr.contains("the printer is on fire"), "{failed:#?}");
    assert!(text(&broken, "report.log").contains("the printer is on fire"));
}
