//! A duty of one process among many: whoever has the lease does it, and the others wait for their turn.

use super::HeldLease;
use crate::clock::jittered;
use crate::error::EngineError;
use crate::process::Process;
use std::time::Duration;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_store::lease::freed_topic;
use tidemill_store::wakeup::Wakeup;

/// The lease of a duty, asked for again and again.
#[derive(Debug)]
pub(crate) struct Duty {
    process: Process,
    key: LeaseKey,
    pause: Duration,
    freed: Wakeup,
    is_first: bool,
}

impl Duty {
    /// The duty of this key, which is asked for at once and then after pauses of this length.
    pub(crate) fn new(process: &Process, key: LeaseKey, pause: Duration) -> Self {
        // Registered before the first attempt, so that no release in between is missed.
        let freed = process.store().wakeup(&freed_topic(key.kind()));
        Self { process: process.clone(), key, pause, freed, is_first: true }
    }

    /// Waits for the lease; none when the process has ended.
    pub(crate) async fn lease(&mut self) -> Option<HeldLease> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                tokio::select! {
                    _ended = self.process.ended() => return None,
                    _woken = self.freed.wait(jittered(self.pause)) => {}
                }
            }
            match self.process.acquire(&self.key, Term::Process).await {
                Ok(lease) => return Some(lease),
                Err(EngineError::LeaseHeld { .. }) => {}
                Err(EngineError::ProcessExpired { .. }) => return None,
                Err(error) => {
                    tracing::warn!(%error, "the lease {} was not had; will try again", self.key);
                }
            }
        }
    }
}
