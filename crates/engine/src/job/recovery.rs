//! What becomes of executions whose process died: they fail with the reason, and are restarted where their job says
//! so. Any process may find them; only one that has the job restarts it.

use crate::error::EngineError;
use crate::job::launcher::Launcher;
use crate::metrics;
use std::time::Duration;
use tidemill_domain::poll::{Found, Pace};
use tidemill_store::Store;
use tidemill_store::job::{RESTART_DUE, Recovered};

/// Executions dealt with in one round; more wait for the next.
const EXECUTIONS_PER_ROUND: u32 = 100;

/// How often to look for restarts that are due, when nobody calls.
const PACE: Pace = Pace { min: Duration::from_millis(200), max: Duration::from_secs(2) };

/// Fails executions that nobody runs any more.
pub async fn recover_once(store: &Store) -> Result<Vec<Recovered>, EngineError> {
    let mut tx = store.begin().await?;
    let recovered = tx.recover_orphans(EXECUTIONS_PER_ROUND).await?;
    tx.commit().await?;
    for orphan in &recovered {
        let id = orphan.execution;
        tracing::warn!(execution.id = %id, job = orphan.job, "execution {id} of job {} failed: its process was lost", orphan.job);
        metrics::execution_recovered(&orphan.job);
    }
    Ok(recovered)
}

/// Restarts what is due, until the launcher's process ends.
pub async fn run(launcher: Launcher) {
    let process = launcher.process().clone();
    let mut wakeup = launcher.store().wakeup(RESTART_DUE);
    let mut pause = PACE.min;
    loop {
        let found = match launcher.restart_due().await {
            Ok(Some(running)) => {
                let id = running.execution;
                tracing::info!(execution.id = %id, "execution {id} goes on with work whose process died");
                Found::Work
            }
            Ok(None) => Found::Nothing,
            Err(error) => {
                tracing::warn!(%error, "looking for executions to restart failed; will try again");
                Found::Nothing
            }
        };
        pause = PACE.next(pause, found, crate::clock::jitter_unit());
        tokio::select! {
            _ended = process.ended() => return,
            _woken = wakeup.wait(pause) => {}
        }
    }
}
