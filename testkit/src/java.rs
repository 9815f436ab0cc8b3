//! Programs in Java with the jars of a folder, which `cargo xtask test` fetches.

use crate::account::find_program;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with the folder that the jars of Spring Batch are in.
pub const SPRING_HOME: &str = "TIDEMILL_TEST_SPRING_HOME";

/// The folder that a variable names.
pub fn find_home(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// A command that runs a program with these jars: the name of a class, or a file with the source of one.
pub fn command(home: &Path) -> Option<Command> {
    let mut command = Command::new(find_program("java")?);
    command.arg("-cp").arg(home.join("*"));
    Some(command)
}
