//! The relay that has the first slot keeps the outbox, beside its own work.

use super::Relay;
use crate::outbox::keeper;
use tokio::task::JoinHandle;

/// The keeping that is under way.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    rounds: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Keeps, or no longer. What it does is safe whoever does it, so it needs no lease of its own.
    pub(super) fn look(&mut self, keeps: bool, relay: &Relay) {
        if !keeps {
            self.end();
        } else if self.rounds.is_none() {
            self.rounds = Some(tokio::spawn(keeper::run(relay.store.clone(), relay.options.keeper.clone())));
        }
    }

    /// A round that is under way is undone, which does no harm: the next keeper begins with one.
    fn end(&mut self) {
        if let Some(rounds) = self.rounds.take() {
            rounds.abort();
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.end();
    }
}
