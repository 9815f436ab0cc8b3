//! `cargo xtask bench`: benchmarks, in release mode and on private servers.

use crate::jars::{self, SPRING};
use crate::kafka;
use crate::nexrender;
use crate::process::{cargo, run_in_terminal};
use crate::supervise::Cancel;
use std::process::ExitCode;
use tidemill_testkit::java::{self, SPRING_HOME};
use tidemill_testkit::nexrender as farm;

/// Builds and runs the benchmark that `arguments` name.
pub(crate) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    let mut words = vec!["run", "--release", "-p", "tidemill-bench", "--"];
    words.extend(arguments.iter().map(String::as_str));
    let mut command = cargo(&words);
    let needs_kafka = arguments.iter().any(|word| word == "--kafka");
    let mut ready = if needs_kafka { kafka::tell(&mut command, cancel) } else { Ok(()) };
    let is = |name: &str| arguments.first().is_some_and(|first| first == name);
    if is("lists") || is("renders") || is("jobs") {
        // They run the program itself.
        ready =
            ready.and_then(|()| run_in_terminal(cargo(&["build", "--release", "-p", "tidemill"]), cancel));
    }
    let has_farm = nexrender::can_be_installed() && nexrender::can_look_at_clips();
    if is("renders") && has_farm && farm::find_home().is_none() {
        ready = ready.and_then(|()| nexrender::home(cancel)).map(|home| {
            command.env(farm::HOME, home);
        });
    }
    if is("jobs") && java::find_home(SPRING_HOME).is_none() && jars::can_be_fetched() {
        ready = ready.and_then(|()| SPRING.home(cancel)).map(|home| {
            command.env(SPRING_HOME, home);
        });
    }
    match ready.and_then(|()| run_in_terminal(command, cancel)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}
