//! `cargo xtask ci`: format and lints, then every test.

use crate::commands::test;
use crate::process::{cargo, run_in_terminal};
use crate::stages::Stages;
use crate::supervise::Cancel;
use std::process::ExitCode;

/// Runs the checks in order of their price, and stops at the first that fails.
pub(crate) fn run(cancel: &Cancel) -> ExitCode {
    let mut stages = Stages::default();
    let lints = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    for (name, arguments) in [("format", &["fmt", "--all", "--check"][..]), ("lints", &lints)] {
        if let Err(problem) = stages.run(name, || run_in_terminal(cargo(arguments), cancel)) {
            print!("\n{}", stages.table());
            eprintln!("xtask: {name}: {problem}");
            return ExitCode::FAILURE;
        }
    }
    test::run_after(stages, &[], cancel)
}
