//! The command: its environment, its signals and its exit code.
//!
//! It runs in its own process group, which ends with this process, even after kill -9. At a terminal that would take
//! the terminal away from it, so there it stays in our group and gets Ctrl-C directly.

use super::request::Request;
use crate::commands::prelude::*;
use crate::commands::shutdown::Signals;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tidemill_domain::job::command::{HINT_VARIABLE, LEASE_VARIABLE, UNITS_VARIABLE};
use tidemill_domain::pool::command::Admitted;
use tidemill_engine::job::command::Group;
use tokio::process::{Child, Command};

/// Signals that the command gets too.
pub(super) const FORWARDED: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Additional environment variables of the command.
pub(super) fn variables(request: &Request, parts: &[Admitted]) -> Result<Vec<(String, String)>> {
    let hint = request.hint(parts)?;
    let mut variables: Vec<_> = hint.map(|hint| (HINT_VARIABLE.to_owned(), hint)).into_iter().collect();
    let several = parts.iter().filter(|_| parts.len() > 1).map(|part| (suffix(part), part));
    for (suffix, part) in parts.first().map(|part| (String::new(), part)).into_iter().chain(several) {
        let granted = part.ticket.granted.map_or_else(String::new, |granted| granted.to_string());
        variables.push((format!("{UNITS_VARIABLE}{suffix}"), granted));
        variables.push((format!("{LEASE_VARIABLE}{suffix}"), part.ticket.id.to_string()));
    }
    Ok(variables)
}

/// The suffix of variables when there are several pools.
fn suffix(part: &Admitted) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("_{}", part.pool.as_str().chars().map(plain).collect::<String>())
}

/// Runs the command and returns its exit code. Our `secrets` are not in its environment.
pub(super) async fn run(
    command: &[OsString],
    variables: Vec<(String, String)>,
    secrets: &BTreeSet<String>,
    signals: &mut Signals,
) -> Result<u8> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| not_started(&io::ErrorKind::NotFound.into(), ""))?;
    let mut ready = Command::new(program);
    ready.args(arguments).envs(variables);
    for name in secrets {
        ready.env_remove(name);
    }
    let failed = |error: io::Error| not_started(&error, &program.to_string_lossy());
    if stdin().is_terminal() {
        let child = ready.spawn().map_err(failed)?;
        return to_the_end(child, signals, None).await;
    }
    let group = Group::form().await.map_err(failed)?;
    let child = group.spawn(ready).map_err(failed)?;
    let ended = to_the_end(child, signals, Some(&group)).await;
    group.disband().await;
    ended
}

/// With a `group`, the command and all its children get our signals. Otherwise only the command gets them, except for
/// those that the terminal sends to it.
async fn to_the_end(mut child: Child, signals: &mut Signals, group: Option<&Group>) -> Result<u8> {
    let lost = |error: io::Error| Failure::unexpected("the command could not be waited for", &error);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(ended(status.map_err(lost)?)),
            signal = signals.next() => match group {
                Some(group) => group.signal(signal),
                None if signal == Signal::INT || signal == Signal::QUIT => {}
                None => pass_on(&child, signal),
            }
        }
    }
}

fn pass_on(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
        tracing::warn!(%error, "the command could not be signalled");
    }
}

fn ended(status: ExitStatus) -> u8 {
    let by_signal = status.signal().and_then(|signal| Signal::from_named_raw(signal).map(number));
    let code = status.code().map(|code| u8::try_from(code).unwrap_or(u8::MAX));
    code.or(by_signal).unwrap_or(u8::MAX)
}

/// 127 when the program does not exist and 126 when it cannot be run, as in shells.
fn not_started(error: &io::Error, program: &str) -> Failure {
    let number = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let fix = "check the name, PATH and permissions; the command after -- is run without a shell";
    let what = format!("{program} could not be started");
    Failure::new(Code::CommandNotStarted, what, fix).because(error).ending(number)
}

/// The exit code of a process that a signal ended, as in shells.
pub(super) fn number(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}
