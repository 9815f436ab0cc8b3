//! `cargo xtask ci`: what a change has to pass. The list of checks is `.ci/run`, and only there.

use crate::process::run_in_terminal;
use crate::supervise::Cancel;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs the checks, and stops at the first that fails.
pub(crate) fn run(cancel: &Cancel) -> ExitCode {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/run");
    let mut command = Command::new("bash");
    command.arg(script);
    match run_in_terminal(command, cancel) {
        Ok(_) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: ci: {problem}");
            ExitCode::FAILURE
        }
    }
}
