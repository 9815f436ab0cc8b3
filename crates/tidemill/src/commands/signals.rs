//! The signals that ask this process to end.

use crate::report::Failure;
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
