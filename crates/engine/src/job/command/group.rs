//! The process group of a command: whatever the command starts is in it, and none of it outlives us.
//!
//! The group is led by a guard, a shell of one line that waits at a pipe whose other end only this process has.
//! However this process ends, kill -9 included, the kernel closes that end, and the guard kills the group. A
//! parent-death signal would reach only the command itself, not what it has started, and needs `unsafe` or another
//! program to be set. The guard also lets the group be recorded before the command is in it.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

const SHELL: &str = "/bin/sh";

/// Deaf to what is sent to the group; says that it is; waits for our end; ends the group and with it itself.
const GUARD: &str = "trap '' HUP INT QUIT TERM; echo; read -r _; kill -KILL 0";

/// How long a guard may take to stand.
const STANDS_WITHIN: Duration = Duration::from_secs(10);

/// A process group that is killed when its value is dropped.
#[derive(Debug)]
pub struct Group {
    id: Pid,
    // Not waited for before the group is done with: as long as it is not, nobody else can get its number.
    guard: Child,
}

impl Group {
    /// Forms a group with nobody but its guard in it.
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

    /// Sends a signal to all. The guard hears only the one that cannot be ignored.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.id, signal) {
            let id = self.id;
            tracing::warn!(%error, "the process group {id} of a command could not be signalled");
        }
    }

    /// Ends all, and waits for the guard.
    pub async fn disband(mut self) {
        self.signal(Signal::KILL);
        let _ended = self.guard.wait().await;
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once the guard has been waited for, its number may be somebody else's.
        if self.guard.id().is_some() {
            self.signal(Signal::KILL);
        }
    }
}
