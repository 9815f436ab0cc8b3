//! What goes on after the verification, for those who look at the dashboard: all pillars move, in rounds with pauses between
//! them. The rounds are counted, and the pauses become longer, so that a demo that somebody forgets does not fill the disk.

use super::import::Imports;
use super::night;
use super::processes::{Setup, Supervisor};
use super::relays;
use super::renders::Films;
use crate::context::Context;
use crate::report::Failure;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_engine::pool::Pools;
use tidemill_store::Store;
use tokio::sync::watch;

/// After so many rounds nothing moves any more.
const ROUNDS_MAX: u32 = 200;

/// For so many rounds the pauses are short: about half an hour.
const ROUNDS_QUICK: u32 = 40;

const PAUSE_SHORT: Duration = Duration::from_secs(5);
const PAUSE_LONG: Duration = Duration::from_secs(60);

/// How long a piece of work of the workers takes: long enough that they do not fill the audit log.
pub(super) const WORK: Duration = Duration::from_secs(2);

const RELAYS: usize = 2;

pub(super) struct Activity<'a> {
    pub(super) context: &'a Context,
    pub(super) setup: &'a Arc<Setup>,
    pub(super) store: &'a Store,
    pub(super) server: ProcessId,
    pub(super) workers: &'a Supervisor,
}

impl Activity<'_> {
    /// Plays the rounds of all pillars but that of pools, which has begun before; until it is told to stop, or all of them
    /// are over.
    pub(super) async fn play(&self, mut told: watch::Receiver<bool>) -> Result<(), Failure> {
        let Self { context, setup, store, server, workers } = *self;
        // The numbers go on behind those that were there for the verification.
        workers.begin(setup.workers + 1..=setup.workers * 2)?;
        let published = Arc::clone(setup);
        let relays =
            Supervisor::new(move |number| relays::start(&published, &relays::sink(&published), number));
        relays.begin(RELAYS + 1..=RELAYS * 2)?;
        let imports = Imports::start(context, store, &setup.folder).await?;
        let films = Films::start(context, store, &setup.folder, server)?;
        let playing = async {
            tokio::join!(
                rounds("the import", async |round| imports.play(round).await),
                rounds("the outbox", async |round| relays::play(store, &relays, round).await),
                rounds("the renders", async |_| films.play().await),
            );
        };
        tokio::select! {
            () = playing => {}
            () = workers.keep() => {}
            () = relays.keep() => {}
            _told = told.wait_for(|stop| *stop) => {}
        }
        relays.end().await;
        workers.end().await;
        films.end().await;
        imports.end().await
    }
}

/// Plays nights in the pools that the dashboard shows.
pub(super) async fn nights(pools: &Pools) {
    rounds("the night", async |round| night::play(pools, round).await).await;
}

/// One round after the other. One that fails is told, and the next one begins all the same.
async fn rounds(what: &str, play: impl AsyncFn(u32) -> Result<(), Failure>) {
    for round in 1..=ROUNDS_MAX {
        if let Err(failure) = play(round).await {
            tracing::warn!(?failure, "round {round} of {what} did not come to its end");
        }
        tokio::time::sleep(pause_after(round)).await;
    }
}

fn pause_after(round: u32) -> Duration {
    if round < ROUNDS_QUICK { PAUSE_SHORT } else { PAUSE_LONG }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_for_hours_and_comes_to_its_end() {
        let pauses: Duration = (1..=ROUNDS_MAX).map(pause_after).sum();

        assert!(pauses > Duration::from_secs(2 * 3_600) && pauses < Duration::from_secs(4 * 3_600));
        assert!((1..ROUNDS_MAX).all(|round| pause_after(round) <= pause_after(round + 1)));
    }
}
