//! Deleting old executions: at the command line, and by a server that is configured to.

use crate::examples::Program;
use crate::{Ran, Stage};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tidemill_testkit::{Guarded, Signal};

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.succeeds().stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

/// A program that has completed `hello` twice and failed with neither.
fn history() -> Program {
    let program = Program::new("hello_chunk", Stage::new());
    for day in ["1", "2"] {
        std::fs::remove_file(program.stage.path("doubled.txt")).ok();
        program.run(&["job", "run", "hello", "-p", &format!("day={day}")]).succeeds();
    }
    program
}

#[test]
fn a_dry_run_counts_and_a_deletion_is_in_the_audit_log() {
    let program = history();
    let delete = |more: &[&str]| {
        let arguments = [&["job", "delete", "-o", "json"], more].concat();
        json(&program.run(&arguments))["items"][0].clone()
    };

    let dry = delete(&["--older-than", "0s", "--dry-run"]);
    assert_eq!((&dry["instances"], &dry["steps"], &dry["is_dry_run"]), (&2.into(), &2.into(), &true.into()));
    assert_eq!(delete(&["--keep", "2"])["instances"], 0);
    assert_eq!(delete(&["--older-than", "90d"])["instances"], 0);
    assert_eq!(delete(&["--keep", "1", "--job", "hello", "--batch", "1"])["instances"], 1);

    let left = json(&program.run(&["executions", "-o", "json"]));
    assert_eq!((left["items"].as_array().unwrap().len(), &left["items"][0]["id"]), (1, &2.into()));
    let audit = program.run(&["audit", "list", "--object", "job/hello", "-o", "csv"]);
    assert!(audit.succeeds().stdout.contains("keeps the newest 1 instance of each job"), "{audit:#?}");
    assert!(audit.stdout.contains("\"1 instance, 1 execution, 1 step\""), "{audit:#?}");
    // It is forgotten that this was done, so it can be done again.
    std::fs::remove_file(program.stage.path("doubled.txt")).ok();
    program.run(&["job", "run", "hello", "-p", "day=1"]).succeeds();
    program.run(&["job", "run", "hello", "-p", "day=2"]).fails("TM1004", 5);
}

#[test]
fn what_failed_is_kept_and_the_flag_that_forgets_it_is_named() {
    let program = Program::new("restart_after_crash", Stage::new());
    let mut command = program.command(&["job", "run", "squares", "-p", "day=2026-11-15,date"]);
    Ran::of(command.env("STUMBLE", "fail").output().unwrap()).fails("TM1013", 10);

    let kept = program.run(&["job", "delete", "--older-than", "0s"]);
    assert!(kept.succeeds().stderr.contains("1 kept: they failed or were stopped"), "{kept:#?}");
    assert!(kept.stderr.contains("--include-failed"), "{kept:#?}");
    let gone = program.run(&["job", "delete", "--older-than", "0s", "--include-failed"]);

    assert!(gone.succeeds().stdout.contains('1'), "{gone:#?}");
    program.run(&["executions", "1"]).fails("TM1002", 3);
}

#[test]
fn a_deletion_without_a_limit_is_refused_before_the_database_is_touched() {
    let stage = Stage::on("postgres://t@127.0.0.1:1/x");

    stage.run(&["job", "delete"]).fails("TM1026", 2);
    stage.run(&["job", "delete", "--include-failed", "--dry-run"]).fails("TM1026", 2);
    for wrong in [&["--keep", "0"][..], &["--older-than", "90"], &["--older-than", "soon"], &["--batch", "0"]]
    {
        stage.run(&[&["job", "delete"], wrong].concat()).fails("TM0002", 2);
    }
}

#[test]
fn a_server_forgets_what_is_beyond_the_configuration() {
    let mut program = history();
    program.stage = program.stage.with("TIDEMILL_JOBS_KEEP_INSTANCES", "1");
    let mut command = program.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Guarded::spawn(command).unwrap();

    let mut left = 2;
    for _ in 0..2_400 {
        left = json(&program.run(&["executions", "-o", "json"]))["items"].as_array().unwrap().len();
        if left == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }

    assert_eq!(left, 1);
    let leases = program.run(&["lease", "list", "-o", "csv"]);
    assert!(leases.succeeds().stdout.contains("purge,history,held"), "{leases:#?}");
    server.signal(Signal::TERM).unwrap();
    assert!(server.wait_deadline(Duration::from_secs(120)).is_some_and(|ended| ended.success()));
}
