//! Partitions over real processes, of which some die.

use crate::Stage;
use crate::exact::{self, GRACE, LEASE, start_mortal};
use crate::examples::Program;
use serde_json::Value;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    several_processes_take_part_and_what_a_dead_one_had_goes_on_elsewhere,
    a_killed_manager_is_replaced_soon_after_its_lease,
];

const PATIENCE: Duration = Duration::from_secs(180);

fn stage(url: &str) -> Stage {
    exact::stage(url).with("TIDEMILL_DATABASE_INIT", "always")
}

/// The executions of the copy, the newest first.
fn executions(program: &Program) -> Vec<Value> {
    let ran = program.run(&["executions", "--job", "copy", "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    answer["items"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

/// Waits until it is so.
fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    loop {
        let passed = clock.monotonic().since(start);
        if is_so() {
            return passed;
        }
        assert!(passed < limit, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_complete(program: &Program) -> bool {
    executions(program).first().is_some_and(|newest| newest["status"] == "COMPLETED")
}

fn steps(program: &Program, execution: &Value) -> Vec<Value> {
    let id = execution["id"].to_string();
    let ran = program.run(&["executions", &id, "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    answer["steps"].as_array().unwrap().clone()
}

/// Kills a process once the newest execution has so many committed chunks.
fn kill_at(program: &Program, mut victim: Guarded, commits: u64) {
    until("enough chunks have committed", PATIENCE, || {
        let Some(newest) = executions(program).into_iter().next() else { return false };
        let counted = |step: &Value| step["counters"]["commit"].as_u64().unwrap();
        steps(program, &newest).iter().map(counted).sum::<u64>() >= commits
    });
    victim.signal(Signal::KILL).unwrap();
    victim.wait_deadline(PATIENCE).unwrap();
}

async fn several_processes_take_part_and_what_a_dead_one_had_goes_on_elsewhere(database: Scratch) {
    let program = Program::new("partitions", stage(database.url()));
    program.run(&["job", "run", "prepare", "-p", "rows=60000,long"]).succeeds();
    let work = ["job", "work", "--slots", "2"];
    let victim = start_mortal(&program, "one.log", &work);
    let mut helper = program.start("two.log", &work);
    let _manager = program.start("run.log", &["job", "run", "copy"]);
    kill_at(&program, victim, 20);

    until("it is complete", PATIENCE, || is_complete(&program));

    let all = executions(&program);
    let newest = steps(&program, &all[0]);
    let whole = newest.iter().find(|step| step["name"] == "copy").unwrap();
    assert_eq!((&whole["counters"]["read"], &whole["counters"]["write"]), (&60000.into(), &60000.into()));
    let mut processes: Vec<String> = Vec::new();
    for execution in &all {
        let of_parts = steps(&program, execution);
        processes.extend(of_parts.iter().filter_map(|step| step["process"].as_str().map(str::to_owned)));
    }
    processes.sort_unstable();
    processes.dedup();
    assert!(processes.len() >= 2, "{processes:?}");
    program.run(&["job", "run", "verify"]).succeeds();
    helper.signal(Signal::TERM).unwrap();
    assert!(helper.wait_deadline(PATIENCE).unwrap().success());
}

async fn a_killed_manager_is_replaced_soon_after_its_lease(database: Scratch) {
    let program = Program::new("partitions", stage(database.url()));
    program.run(&["job", "run", "prepare", "-p", "rows=60000,long"]).succeeds();
    let helper = program.start("helper.log", &["job", "work", "--slots", "1"]);
    let manager = start_mortal(&program, "run.log", &["job", "run", "copy"]);
    kill_at(&program, manager, 20);

    let took = until("it runs again", PATIENCE, || executions(&program).len() == 2);

    assert!(took < LEASE + GRACE, "{took:?}");
    until("it is complete", PATIENCE, || is_complete(&program));
    assert_eq!(executions(&program).len(), 2);
    program.run(&["job", "run", "verify"]).succeeds();
    drop(helper);
}
