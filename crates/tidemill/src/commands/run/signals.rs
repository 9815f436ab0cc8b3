//! The signals that ask to end, which go on to the command.

use crate::report::Failure;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The signals that ask to end.
pub(super) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    quit: unix::Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let deaf = |error: std::io::Error| Failure::unexpected("signals cannot be received", &error);
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(deaf)?,
            interrupt: signal(SignalKind::interrupt()).map_err(deaf)?,
            hangup: signal(SignalKind::hangup()).map_err(deaf)?,
            quit: signal(SignalKind::quit()).map_err(deaf)?,
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _signal = self.terminate.recv() => Signal::TERM,
            _signal = self.interrupt.recv() => Signal::INT,
            _signal = self.hangup.recv() => Signal::HUP,
            _signal = self.quit.recv() => Signal::QUIT,
        }
    }
}

/// The number that shells give to what a signal ended.
pub(super) fn number(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}
