//! Windows: there are no process groups that end with this process however it ends. So steps start no commands, and
//! programs that are started in a group must start no others.

pub(super) mod previous_run {
    use crate::job::{StepFailure, StepTask};
    use tidemill_domain::code::Code;

    const REFUSED: &str = "Windows cannot end all that a command has started; run this job on Linux";

    pub(in crate::job::command) fn remember(_task: &mut StepTask, _group: u32) {}

    pub(in crate::job::command) fn forget(_task: &mut StepTask) {}

    /// Refuses the step.
    pub(in crate::job::command) async fn end(_task: &mut StepTask) -> Result<(), StepFailure> {
        Err(StepFailure::failed(Code::CommandFailed, REFUSED))
    }
}

use std::io;
use std::process::ExitStatus;
use tokio::process::{Child, Command};

/// A process group, which Windows does not have.
#[derive(Debug)]
pub struct Group {
    pub(super) id: u32,
}

/// A signal, which Windows does not have.
#[derive(Clone, Copy, Debug)]
pub struct Signal;

impl Signal {
    pub(super) const TERM: Self = Self;
    pub(super) const KILL: Self = Self;
}

impl Group {
    /// Cannot fail.
    pub async fn form() -> io::Result<Self> {
        Ok(Self { id: 0 })
    }

    /// Starts a program, which is ended when its value is dropped.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.kill_on_drop(true).spawn()
    }

    /// Reaches nobody.
    pub fn signal(&self, _signal: Signal) {}

    /// Has nothing to end.
    pub async fn disband(self) {}
}

pub(super) fn signal_of(_status: ExitStatus) -> Option<i32> {
    None
}
