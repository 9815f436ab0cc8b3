//! What the dead leave behind: silent processes are declared dead, lapsed leases are freed, executions that nobody
//! runs any more fail, old rows are forgotten. Any process may do it and all do; the statements are guarded, so it does not matter who is first.

use crate::clock::jitter_unit;
use crate::error::EngineError;
use crate::job::recovery;
use crate::metrics;
use crate::process::Process;
use std::time::Duration;
use tidemill_domain::process::heartbeat_interval;
use tidemill_store::Store;

/// Longest pause between two rounds, so that leases move well within five seconds of their end.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Processes and leases dealt with in one round; more wait for the next.
const ROWS_PER_ROUND: u32 = 500;

/// Old rows are looked for in one round out of so many.
const ROUNDS_BETWEEN_PRUNING: u32 = 300;

/// How long ended processes stay in the list.
const KEEP_ENDED: Duration = Duration::from_secs(7 * 24 * 3600);

/// What one round did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reaped {
    /// Processes that were declared dead.
    pub processes: usize,
    /// Leases that were freed.
    pub leases: usize,
    /// Executions that failed because nobody runs them any more.
    pub executions: usize,
}

/// One round.
pub async fn run_once(store: &Store) -> Result<Reaped, EngineError> {
    let mut tx = store.begin().await?;
    let dead = tx.expire_processes(ROWS_PER_ROUND).await?;
    tx.commit().await?;
    for process in &dead {
        tracing::warn!(process.id = %process.id, "process {} ({}) fell silent and was declared dead", process.id, process.identity.name);
    }
    metrics::processes_expired(dead.len());
    // In a transaction of its own: it locks leases, and whoever locks both locks the lease first.
    let mut tx = store.begin().await?;
    let lapsed = tx.expire_leases(ROWS_PER_ROUND).await?;
    tx.commit().await?;
    for lapsed in &lapsed {
        metrics::lease_expired(lapsed.key.kind());
    }
    let orphans = recovery::recover_once(store).await?;
    Ok(Reaped { processes: dead.len(), leases: lapsed.len(), executions: orphans.len() })
}

/// Forgets processes that ended long ago.
async fn prune(store: &Store) -> Result<(), EngineError> {
    let mut tx = store.begin().await?;
    tx.prune_processes(KEEP_ENDED, ROWS_PER_ROUND).await?;
    tx.commit().await?;
    Ok(())
}

/// Rounds until `process` ends.
pub async fn run(process: Process) {
    let pause = heartbeat_interval(process.ttl()).min(PAUSE_MAX);
    let mut rounds = 0_u32;
    loop {
        tokio::select! {
            _ended = process.ended() => return,
            () = tokio::time::sleep(pause.mul_f64(1.0 - 0.1 * jitter_unit())) => {}
        }
        let mut done = run_once(process.store()).await.map(drop);
        if done.is_ok() && rounds.is_multiple_of(ROUNDS_BETWEEN_PRUNING) {
            done = prune(process.store()).await;
        }
        if let Err(error) = done {
            tracing::warn!(%error, "looking for dead processes failed; will try again");
        }
        rounds = rounds.wrapping_add(1);
    }
}
