//! `cargo xtask test`: every test, with the servers that they need.

use crate::process::{cargo, run_captured, run_in_terminal};
use crate::report::{self, Section};
use crate::services::Services;
use crate::stages::Stages;
use crate::summary::{SkipLog, Summary};
use crate::supervise::Cancel;
use std::env;
use std::process::{Command, ExitCode};
use tidemill_testkit::skip;

/// Runs the tests that `arguments` of `cargo test` select; all of them when there are none.
pub(crate) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    let mut stages = Stages::default();
    let mut sections = Vec::new();
    let mut skips = String::new();
    let outcome = match stages.run("services", || Services::start(cancel)) {
        Ok(services) => {
            let outcome =
                build_and_test(&mut stages, arguments, &services, cancel, &mut sections, &mut skips);
            let _stopped = stages.run("stop", || -> Result<(), String> {
                drop(services);
                Ok(())
            });
            outcome
        }
        Err(problem) => Err(problem),
    };
    let summary = Summary::new(&sections, &skips, &env::var(skip::SKIP).unwrap_or_default());
    print!("\n{}{summary}", stages.table());
    let outcome = outcome.and_then(|()| summary.verdict());
    if let Err(problem) = &outcome {
        println!("xtask: {problem}");
    }
    println!("{}", summary.counts());
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn build_and_test(
    stages: &mut Stages,
    arguments: &[String],
    services: &Services,
    cancel: &Cancel,
    sections: &mut Vec<Section>,
    skips: &mut String,
) -> Result<(), String> {
    let (build, tests) = cargo_arguments(arguments);
    stages.run("build", || run_in_terminal(with(services, cargo(&build)), cancel))?;
    let skip_log =
        SkipLog::create().map_err(|error| format!("cannot make a file for skipped tests: {error}"))?;
    let mut command = with(services, cargo(&tests));
    command.env(skip::SKIPPED_LOG, skip_log.path());
    let ran = stages.run("tests", || run_captured(command, cancel))?;
    *sections = report::parse(&ran.output, &ran.messages);
    *skips = skip_log.read();
    ran.outcome
}

fn with(services: &Services, mut command: Command) -> Command {
    services.tell(&mut command);
    command
}

/// The arguments of cargo that build the tests, and those that run them.
fn cargo_arguments(given: &[String]) -> (Vec<&str>, Vec<&str>) {
    let split = given.iter().position(|argument| argument == "--").unwrap_or(given.len());
    let (for_cargo, for_tests) = given.split_at(split);
    let mut selection: Vec<&str> = for_cargo.iter().map(String::as_str).collect();
    if selection.is_empty() {
        selection.push("--workspace");
    }
    let build = [&["test", "--no-run"], &selection[..]].concat();
    let rest = for_tests.iter().map(String::as_str);
    let tests = ["test", "--no-fail-fast"].into_iter().chain(selection).chain(rest).collect();
    (build, tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], build: &str, tests: &str) {
        let given: Vec<String> = given.iter().map(|argument| (*argument).to_owned()).collect();
        let (found_build, found_tests) = cargo_arguments(&given);
        assert_eq!(found_build.join(" "), build);
        assert_eq!(found_tests.join(" "), tests);
    }

    #[test]
    fn without_arguments_the_whole_workspace_is_tested() {
        check(&[], "test --no-run --workspace", "test --no-fail-fast --workspace");
    }

    #[test]
    fn arguments_replace_the_workspace() {
        let given = ["-p", "tidemill-store", "lease"];

        check(&given, "test --no-run -p tidemill-store lease", "test --no-fail-fast -p tidemill-store lease");
    }

    #[test]
    fn arguments_for_the_tests_stay_behind_those_for_cargo() {
        let given = ["--", "--test-threads=1"];

        check(&given, "test --no-run --workspace", "test --no-fail-fast --workspace -- --test-threads=1");
    }
}
