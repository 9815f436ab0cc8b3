//! How this process ends: the signals that ask for it, and the last word to the database.

use crate::report::Failure;
use std::time::Duration;
use tidemill_engine::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask this process to end.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let deaf = |error: std::io::Error| Failure::unexpected("signals cannot be received", &error);
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(deaf)?,
            interrupt: signal(SignalKind::interrupt()).map_err(deaf)?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _signal = self.terminate.recv() => {}
            _signal = self.interrupt.recv() => {}
        }
    }
}

/// How long the last word may take, of the 25 seconds in which everything of ours ends.
pub(super) const STOP_TIME: Duration = Duration::from_secs(2);

/// Says that this process ends. Without that the others find out later, when its lease has lapsed.
pub(super) async fn stop(process: &Process) {
    let _lapses_otherwise = tokio::time::timeout(STOP_TIME, process.stop()).await;
}
