//! Runs other programs so that they end when the work is cancelled.

use crate::supervise::Cancel;
use std::env;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use tidemill_testkit::{Guarded, Signal};

/// How soon a cancellation is noticed.
const POLL: Duration = Duration::from_millis(50);

/// How long a program has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(5);

/// The cargo that runs us, or the one that is found first. What cargo has told us about ourselves is not passed on: a
/// build script that looks at it would be run again, and all that depends on it built again, at every change between
/// this and a cargo of the user's own.
pub(crate) fn cargo<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.iter().map(AsRef::as_ref));
    command.env_remove("TIDEMILL_XTASK_SUPERVISED");
    for (name, _) in env::vars_os().filter(|(name, _)| is_about_us(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_about_us(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

/// Runs a program that writes to our own terminal.
pub(crate) fn run_in_terminal(command: Command, cancel: &Cancel) -> Result<(), String> {
    let name = name_of(&command);
    succeeded(&name, wait(command, cancel)?)
}

fn wait(mut command: Command, cancel: &Cancel) -> Result<ExitStatus, String> {
    let name = name_of(&command);
    command.stdin(Stdio::null());
    let mut child = Guarded::spawn_group(command).map_err(|error| format!("cannot run {name}: {error}"))?;
    loop {
        if let Some(status) = child.wait_deadline(POLL) {
            return Ok(status);
        }
        if cancel.is_asked_for() {
            // Fails only when it has just ended; the kill on drop is for the deaf.
            let _asked = child.signal(Signal::TERM);
            let _ended = child.wait_deadline(GRACE);
            return Err("cancelled".to_owned());
        }
    }
}

fn succeeded(name: &str, status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

fn name_of(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(first) = command.get_args().next() {
        name = format!("{name} {}", first.to_string_lossy());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_named_with_its_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);

        let problem = run_in_terminal(command, &Cancel::default()).unwrap_err();

        assert_eq!(problem, "sh -c failed (exit status: 3)");
    }

    #[test]
    fn cargo_is_not_told_what_another_cargo_told_us() {
        let command = cargo(&["--version"]);

        // Cargo sets it for every test.
        let removed = command.get_envs().any(|(name, value)| name == "CARGO_PKG_NAME" && value.is_none());
        assert!(removed);
        assert!(!is_about_us("CARGO_TARGET_DIR") && !is_about_us("CARGO_HOME"));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let problem =
            run_in_terminal(Command::new("no-such-program-anywhere"), &Cancel::default()).unwrap_err();

        assert!(problem.starts_with("cannot run no-such-program-anywhere"), "{problem}");
    }
}
