//! `cargo xtask bench`: benchmarks, in release mode and on private servers.

use crate::process::{cargo, run_in_terminal};
use crate::supervise::Cancel;
use std::process::ExitCode;

/// Builds and runs the benchmark that `arguments` name.
pub(crate) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    let mut words = vec!["run", "--release", "-p", "tidemill-bench", "--"];
    words.extend(arguments.iter().map(String::as_str));
    match run_in_terminal(cargo(&words), cancel) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}
