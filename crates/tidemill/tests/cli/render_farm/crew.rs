//! Our workers as processes: started, killed, frozen and thawed.

use super::PATIENCE;
use super::site::eventually;
use crate::Stage;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use tidemill_testkit::{Guarded, Signal};

/// A worker that dies with its value.
pub(super) struct Worker {
    child: Guarded,
    stage: Stage,
    name: String,
}

impl Worker {
    pub(super) fn start(stage: Stage, name: &str) -> Self {
        Self::start_as(stage, name, Command::new(crate::BINARY))
    }

    /// Starts one by a command that runs what is given to it.
    pub(super) fn start_as(stage: Stage, name: &str, command: Command) -> Self {
        let mut command = stage.dress(command, &["render", "worker", "-v"]);
        command.stderr(fs::File::create(stage.path("worker.log")).unwrap()).stdout(Stdio::null());
        Self { child: Guarded::spawn(command).unwrap(), stage, name: name.to_owned() }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.stage.path("worker.log")).unwrap()
    }

    /// Waits until it has logged this.
    pub(super) async fn until_logged(&self, text: &str) {
        let logged = eventually(async || self.log().contains(text).then_some(()));
        assert!(logged.await.is_some(), "{text}: {}", self.log());
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Ends it at once, as a power cut does.
    pub(super) fn kill(&mut self) {
        self.child.signal(Signal::KILL).unwrap();
        assert!(self.child.wait_deadline(PATIENCE).is_some(), "{} is not dead", self.name);
    }

    /// Stops it in the middle of what it does; it does not notice.
    pub(super) fn freeze(&mut self) {
        self.child.signal(Signal::STOP).unwrap();
    }

    pub(super) fn thaw(&mut self) {
        self.child.signal(Signal::CONT).unwrap();
    }

    /// Waits until all of it stands still.
    pub(super) async fn until_frozen(&self) {
        let status = format!("/proc/{}/status", self.child.pid());
        let is_so = || fs::read_to_string(&status).unwrap_or_default().contains("State:\tT");
        let frozen = eventually(async || is_so().then_some(()));
        assert!(frozen.await.is_some(), "{} goes on: {}", self.name, self.log());
    }

    /// Waits until it has died at its crash point.
    pub(super) fn has_crashed(&mut self) {
        let ended = self.child.wait_deadline(PATIENCE);
        let signal = ended.and_then(|status| status.signal());
        assert_eq!(signal, Some(6), "{}: {ended:?} {}", self.name, self.log());
    }

    /// Ends it in order.
    pub(super) fn end(mut self) {
        self.child.signal(Signal::TERM).unwrap();
        let ended = self.child.wait_deadline(PATIENCE);
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{}: {}", self.name, self.log());
        assert!(!self.log().contains("panicked"), "{}: {}", self.name, self.log());
    }
}
