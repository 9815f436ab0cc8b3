//! `cargo xtask test`: every test, with the servers that they need.

use crate::process::{cargo, run_in_terminal};
use crate::report;
use crate::services::Services;
use crate::stages::Stages;
use crate::summary::{SkipLog, Summary};
use crate::supervise::Cancel;
use crate::tool::NEXTEST;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tidemill_testkit::{long, skip};

/// Runs the tests that `arguments` of `cargo nextest run` select; all of them when there are none. With `--long` first,
/// sweeps run in full.
pub(crate) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    let (is_long, arguments) = match arguments {
        [first, rest @ ..] if first == "--long" => (true, rest),
        all => (false, all),
    };
    let mut stages = Stages::default();
    let mut output = RunOutput::default();
    let outcome = match stages.run("services", || Services::start(is_long, cancel)) {
        Ok(services) => {
            let outcome = build_and_test(&mut stages, (arguments, is_long), &services, cancel, &mut output);
            let _stopped = stages.run("stop", || -> Result<(), String> {
                drop(services);
                Ok(())
            });
            outcome
        }
        Err(problem) => Err(problem),
    };
    let summary =
        Summary::new(report::parse(&output.report), &output.skips, &env::var(skip::SKIP).unwrap_or_default());
    print!("\n{}{summary}", stages.table());
    let outcome = summary.verdict().and(outcome);
    if let Err(problem) = &outcome {
        println!("xtask: {problem}");
    }
    println!("{}", summary.counts());
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a run left behind.
#[derive(Default)]
struct RunOutput {
    /// The JUnit report of nextest.
    report: String,
    /// The tests that skipped themselves.
    skips: String,
}

fn build_and_test(
    stages: &mut Stages,
    (arguments, is_long): (&[String], bool),
    services: &Services,
    cancel: &Cancel,
    output: &mut RunOutput,
) -> Result<(), String> {
    let nextest = NEXTEST.program(cancel)?;
    let with_services = |mut command: Command| {
        services.tell(&mut command);
        command
    };
    let command = |extra: &[&str]| {
        let selection = if arguments.is_empty() { &["--workspace".to_owned()] } else { arguments };
        let mut command = cargo_tool(&nextest);
        command.args(["nextest", "run"]).args(extra).args(selection);
        with_services(command)
    };
    stages.run("build", || run_in_terminal(command(&["--no-run"]), cancel))?;
    let report = report_file()?;
    let log = SkipLog::create().map_err(|error| format!("cannot make a file for skipped tests: {error}"))?;
    let mut tests = command(&["--no-tests=fail"]);
    tests.env(skip::SKIPPED_LOG, log.path());
    if is_long {
        tests.env(long::LONG, "1");
    }
    let ran = stages.run("tests", || run_in_terminal(tests, cancel));
    output.report = fs::read_to_string(report).unwrap_or_default();
    output.skips = log.read();
    if !arguments.is_empty() {
        return ran;
    }
    // Nextest runs none of them.
    let docs = stages.run("doc tests", || {
        run_in_terminal(with_services(cargo(&["test", "--doc", "--workspace", "--no-fail-fast"])), cancel)
    });
    ran.and(docs)
}

/// Nextest itself, in the environment of the cargo that runs us.
fn cargo_tool(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, value) in cargo::<&str>(&[]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Where nextest writes its report: by `.config/nextest.toml`, and in the workspace wherever the target folder is. What
/// another run has left there is gone.
fn report_file() -> Result<PathBuf, String> {
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/nextest/default/junit.xml");
    match fs::remove_file(&report) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", report.display()))
        }
        _ => Ok(report),
    }
}
