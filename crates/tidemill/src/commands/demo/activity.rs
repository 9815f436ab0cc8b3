//! What happens after the verification: rounds of imports, events, renders and pool requests. The number of rounds is
//! limited and the pauses grow, so that a forgotten demo does not fill the disk.

use super::import::{self, Imports};
use super::processes::{Setup, Supervisor};
use super::renders::Films;
use super::{Stage, WORKERS, relays};
use crate::report::Failure;
use std::time::Duration;
use tokio::sync::watch;

const ROUNDS_MAX: u32 = 200;

/// Rounds with short pauses: about half an hour.
const ROUNDS_QUICK: u32 = 40;

const PAUSE_SHORT: Duration = Duration::from_secs(5);
const PAUSE_LONG: Duration = Duration::from_secs(60);

impl Stage<'_> {
    /// Runs rounds until it is stopped or all rounds are over.
    pub(super) async fn play(&self, mut stopped: watch::Receiver<bool>) -> Result<(), Failure> {
        let Self { setup, store, workers, .. } = *self;
        // Numbers continue after those of the verification.
        workers.begin(WORKERS + 1..=WORKERS * 2)?;
        let relays = Supervisor::new(setup, Setup::start_relay);
        relays.begin(relays::RELAYS + 1..=relays::RELAYS * 2)?;
        let imports = Imports::start(self, import::SMALL).await?;
        let films = Films::start_slow(self)?;
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
            _stopped = stopped.wait_for(|stop| *stop) => {}
        }
        relays.end().await;
        workers.end().await;
        films.end().await;
        imports.end().await
    }
}

/// A failed round is logged, and the next one starts.
pub(super) async fn rounds(what: &str, play: impl AsyncFn(u32) -> Result<(), Failure>) {
    for round in 1..=ROUNDS_MAX {
        if let Err(failure) = play(round).await {
            tracing::warn!(?failure, "round {round} of {what} did not finish");
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
