//! A pause of PostgreSQL: its connections stay open, and nobody answers.

use super::PrivatePostgres;
use crate::child::{Guarded, Signal};
use crate::deadline::Deadline;
use crate::error::ServerError;
use rustix::process::{Pid, kill_process};
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

/// A process stops a moment after its signal.
const STOPS_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

impl PrivatePostgres {
    /// Stops all its processes in their tracks: it keeps its connections and answers nothing. New connections wait as well.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        self.server.as_mut().map_or(Ok(()), stop_all).map_err(failed)
    }

    /// Lets them go on.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        self.server.as_mut().map_or(Ok(()), continue_all).map_err(failed)
    }
}

fn failed(error: io::Error) -> ServerError {
    ServerError::caused("cannot pause PostgreSQL, or let it go on", error)
}

fn stop_all(server: &mut Guarded) -> io::Result<()> {
    server.signal(Signal::STOP)?;
    // Then it starts no more sessions.
    wait_until_stopped(server.pid())?;
    for session in started_by(server.pid())? {
        signal(session, Signal::STOP)?;
        wait_until_stopped(session)?;
    }
    Ok(())
}

fn continue_all(server: &mut Guarded) -> io::Result<()> {
    for session in started_by(server.pid())? {
        signal(session, Signal::CONT)?;
    }
    server.signal(Signal::CONT)
}

/// The processes that this one has started, and that still run.
fn started_by(parent: u32) -> io::Result<Vec<u32>> {
    let mut started = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        started.extend(number.filter(|number| state_of(*number).is_some_and(|(_, by)| by == parent)));
    }
    Ok(started)
}

/// Sends a signal to a process, unless it has ended meanwhile.
fn signal(process: u32, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(process.cast_signed()) else { return Ok(()) };
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// One that has ended is left as a zombie while the postmaster stands still.
fn wait_until_stopped(process: u32) -> io::Result<()> {
    let deadline = Deadline::after(STOPS_WITHIN);
    while state_of(process).is_some_and(|(state, _)| !matches!(state.as_str(), "T" | "Z")) {
        let remaining = deadline.remaining().ok_or(io::ErrorKind::TimedOut)?;
        thread::sleep(remaining.min(POLL));
    }
    Ok(())
}

/// The state of a process and its parent; none when it is gone.
fn state_of(process: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name may have any characters.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
