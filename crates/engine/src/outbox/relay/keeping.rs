//! The relay that has the first slot keeps the outbox, beside its own work.

use super::Relay;
use crate::clock::jittered;
use crate::outbox::keeper;
use std::time::Duration;
use tidemill_domain::time::Monotonic;
use tokio::task::JoinHandle;

/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(30);

/// The round that is under way, and when the next one is due.
#[derive(Debug)]
pub(super) struct Keeping {
    next: Monotonic,
    round: Option<JoinHandle<()>>,
}

impl Keeping {
    pub(super) fn new(now: Monotonic) -> Self {
        Self { next: now, round: None }
    }

    /// Begins a round if one is due. What it does is safe whoever does it, so it needs no lease of its own.
    pub(super) fn look(&mut self, keeps: bool, now: Monotonic, relay: &Relay) {
        let is_running = self.round.as_ref().is_some_and(|round| !round.is_finished());
        if !keeps {
            if self.round.take().is_some() {
                keeper::forget();
            }
            return;
        }
        if is_running || now < self.next {
            return;
        }
        self.next = now.plus(jittered(PAUSE));
        let (store, options) = (relay.store.clone(), relay.options.keeper.clone());
        self.round = Some(tokio::spawn(async move {
            if let Err(error) = keeper::keep(&store, &options).await {
                let (code, fix) = (error.code(), error.fix());
                tracing::warn!(%code, %error, %fix, "the outbox could not be kept ({code}); will try again");
            }
        }));
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if let Some(round) = self.round.take() {
            round.abort();
            keeper::forget();
        }
    }
}
