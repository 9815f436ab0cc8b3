//! A child process that cannot be forgotten: it is killed and reaped when its value is dropped.

use crate::deadline::Deadline;
use crate::keeper;
use rustix::process::{Pid, kill_process, kill_process_group};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

pub use rustix::process::Signal;

/// Children are looked at this often while somebody waits for them to end.
const POLL: Duration = Duration::from_millis(5);

/// A running child that dies with its value.
///
/// ```
/// # use std::process::Command;
/// # use std::time::Duration;
/// # use tidemill_testkit::{Guarded, NoLine};
/// let mut command = Command::new("echo");
/// command.arg("ready");
/// let mut child = Guarded::spawn_reading(command).unwrap();
///
/// let wait = Duration::from_secs(10);
/// assert_eq!(child.next_line(wait).unwrap(), "ready");
/// assert_eq!(child.next_line(wait), Err(NoLine::Ended));
/// assert!(child.wait_deadline(wait).unwrap().success());
/// ```
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    reach: Reach,
    lines: Option<Receiver<String>>,
}

/// Who gets the signals that are meant for a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    Child,
    Group,
}

/// Why there is no next line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoLine {
    /// The child has closed its standard output, or it was never read.
    Ended,
    /// Nothing came in time.
    TimedOut,
}

impl fmt::Display for NoLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the child has no more lines",
            Self::TimedOut => "the child wrote no line in time",
        })
    }
}

impl std::error::Error for NoLine {}

impl Guarded {
    /// Starts a child with its standard streams as the command says.
    pub fn spawn(command: Command) -> io::Result<Self> {
        Ok(Self { child: keeper::spawn(command)?, reach: Reach::Child, lines: None })
    }

    /// Starts a child whose standard output is read line by line with [`Self::next_line`].
    pub fn spawn_reading(mut command: Command) -> io::Result<Self> {
        command.stdout(Stdio::piped());
        let mut started = Self::spawn(command)?;
        started.lines = started.child.stdout.take().map(lines_of);
        Ok(started)
    }

    /// Starts a child in a process group of its own. Signals, and the kill on drop, reach the whole group:
    /// the child and whatever it has started.
    pub fn spawn_group(mut command: Command) -> io::Result<Self> {
        command.process_group(0);
        let mut started = Self::spawn(command)?;
        started.reach = Reach::Group;
        Ok(started)
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. A child that has already ended is an error, never a stranger who got its number.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Err(rustix::io::Errno::SRCH.into());
        }
        let pid = Pid::from_child(&self.child);
        match self.reach {
            Reach::Child => kill_process(pid, signal)?,
            Reach::Group => kill_process_group(pid, signal)?,
        }
        Ok(())
    }

    /// Waits until the child has ended, at most for `wait`; none when it still runs.
    pub fn wait_deadline(&mut self, wait: Duration) -> Option<ExitStatus> {
        let deadline = Deadline::after(wait);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(deadline.remaining()?.min(POLL));
        }
    }

    /// The next line of standard output, without its line end, waited for at most for `wait`.
    pub fn next_line(&mut self, wait: Duration) -> Result<String, NoLine> {
        let lines = self.lines.as_ref().ok_or(NoLine::Ended)?;
        lines.recv_timeout(wait).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoLine::TimedOut,
            RecvTimeoutError::Disconnected => NoLine::Ended,
        })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Fails only when the child has ended already. It is not reaped before, so its group still has its
        // number and nobody else can be hit.
        let _killed = self.signal(Signal::KILL);
        let _reaped = self.child.wait();
    }
}

/// Reads on a thread of its own, so that a full pipe never holds up the child. The thread ends at the end of
/// the stream, and nobody waits for it: a grandchild may keep the stream open.
fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line);
            if sender.send(line.trim_end_matches('\r').to_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}
