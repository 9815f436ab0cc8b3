//! The process group of a command and of everything that it starts. It is killed when this process ends.
//!
//! The group leader is a guard: a one-line shell that reads from a pipe whose other end only this process has. However
//! this process ends, even by kill -9, the kernel closes the pipe and the guard kills the group. A parent-death signal
//! would reach only the command itself, and needs `unsafe`. The guard also lets us record the group before the command
//! starts.

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process_group};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

const SHELL: &str = "/bin/sh";

/// Ignores signals to the group, reports that it is ready, waits for our end, and kills the group including itself.
const GUARD: &str = "trap '' HUP INT QUIT TERM; echo; read -r _; kill -KILL 0";

/// How long the guard may take to start.
const STANDS_WITHIN: Duration = Duration::from_secs(10);

/// A process group that is killed on drop.
#[derive(Debug)]
pub struct Group {
    pub(super) id: Pid,
    // Not waited for until the group is done, so that its process id is not reused.
    guard: Child,
}

impl Group {
    /// Forms a group that contains only its guard.
    #[crate::boxed]
    pub async fn form() -> io::Result<Self> {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", GUARD])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut guard = command.spawn()?;
        let id = guard.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| io::Error::other("the guard has no process id"))?;
        let word = guard.stdout.take();
        let group = Self { id, guard };
        let mut word = word.ok_or_else(|| io::Error::other("the guard has no standard output"))?;
        match tokio::time::timeout(STANDS_WITHIN, word.read_u8()).await {
            Ok(stands) => stands.map(|_| group),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Starts a program in the group.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(self.id.as_raw_nonzero().get()).spawn()
    }

    /// Signals all members. The guard ignores all but SIGKILL.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.id, signal) {
            let id = self.id;
            tracing::warn!(%error, "the process group {id} of a command could not be signalled");
        }
    }

    /// Kills all members, and waits for the guard.
    pub async fn disband(mut self) {
        self.signal(Signal::KILL);
        let _ended = self.guard.wait().await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once the guard has been waited for, its process id may be reused.
        if self.guard.id().is_some() {
            self.signal(Signal::KILL);
        }
    }
}

/// The signal that ended a program.
pub(super) fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}
