//! The one task that looks at the database for all who listen, renders what pages render, and sends what changed.

use crate::dashboard::instant::Times;
use crate::dashboard::overview::page::{Regions, Snapshot};
use crate::dashboard::{pulse, render};
use crate::state::State;
use std::time::Duration;
use tidemill_engine::clock::jitter_unit;
use tidemill_store::StoreError;
use tidemill_store::process::PROCESS_ENDED;
use tidemill_store::wakeup::Woken;
use tokio::sync::watch;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon it looks again when it is called, so that many calls at once are one look.
const CALLED_PAUSE: Duration = Duration::from_millis(100);

/// Looks while somebody listens, until `shutdown` says true; then ends all streams.
pub async fn run(state: State, mut shutdown: watch::Receiver<bool>) {
    let mut wakeup = state.store().wakeup(PROCESS_ENDED);
    let mut is_down = false;
    let looking = async {
        loop {
            state.inner().live.listened().await;
            is_down = look(&state, is_down).await;
            // A little more than a second, so that what was sent at the last look may be sent again.
            let pause = LOOK_EVERY.mul_f64(0.1f64.mul_add(jitter_unit(), 1.0));
            if wakeup.wait(pause).await == Woken::Called {
                tokio::time::sleep(CALLED_PAUSE).await;
            }
        }
    };
    tokio::select! {
        // A sender that is gone is a server that is gone.
        _ = shutdown.wait_for(|is_stopping| *is_stopping) => {}
        () = looking => {}
    }
    state.inner().live.close();
}

/// Looks once; whether the database was silent.
async fn look(state: &State, was_down: bool) -> bool {
    let watched = state.inner().live.pages();
    let snapshot = async {
        let snapshot = Snapshot::read(state).await?;
        let times = Times::for_everybody(snapshot.pulse.now);
        let renders = render::live::regions(state, &watched, &times).await?;
        Ok::<_, StoreError>((snapshot, times, renders))
    };
    let snapshot = snapshot.await;
    let now = state.inner().parts.clock.monotonic();
    match snapshot {
        Ok((snapshot, times, renders)) => {
            let mut regions = pulse::regions(state, Some(&snapshot.pulse));
            regions.extend(Regions::new(state, &snapshot, &times).into_vec());
            regions.extend(renders);
            state.inner().live.publish(regions, now);
            false
        }
        Err(error) => {
            if !was_down {
                tracing::warn!(%error, "live pages show old values, the database does not answer");
            }
            // The rest stays as it was, and the status line says why.
            state.inner().live.publish(pulse::regions(state, None), now);
            true
        }
    }
}
