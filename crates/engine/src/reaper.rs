//! Cleans up after dead processes: declares those dead that are silent or that this machine no longer has, frees
//! expired leases, fails their executions, and deletes old rows. After the database's clock was set back, it shortens
//! leases and waits that reach too far. All processes do it; the statements are guarded, so it does not matter which
//! is first.

use crate::job::recovery;
use crate::{EngineError, Process, Service, incarnation, metrics, transact};
use std::time::Duration;
use tidemill_domain::process::heartbeat_interval;
use tidemill_domain::time::Timestamp;
use tidemill_store::Store;

/// Longest pause between two rounds, so that leases move within five seconds of their end; a test below adds it up.
const PAUSE_MAX: Duration = Duration::from_secs(2);

const ROWS_PER_ROUND: u32 = 500;

/// Old rows are deleted every 300 rounds.
const ROUNDS_BETWEEN_PRUNING: u32 = 300;

const KEEP_ENDED: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reaped {
    pub processes: usize,
    pub leases: usize,
    /// Executions that failed because their process died.
    pub executions: usize,
}

#[crate::boxed]
pub async fn run_once(store: &Store) -> Result<Reaped, EngineError> {
    let count = transact(store, async |tx| tx.leases().shorten_leases().await).await?;
    if count > 0 {
        tracing::warn!(
            leases = count,
            "the database's clock has gone back; {count} leases were shortened so that they end in time"
        );
    }
    let dead = transact(store, async |tx| tx.processes().expire(ROWS_PER_ROUND).await).await?;
    for process in &dead {
        tracing::warn!(process.id = %process.id, "process {} ({}) fell silent and was declared dead", process.id, process.identity.name);
    }
    metrics::processes_expired().increment(dead.len() as u64);
    // In a separate transaction, because leases are locked before processes.
    let lapsed = transact(store, async |tx| tx.leases().expire(ROWS_PER_ROUND).await).await?;
    for lapsed in &lapsed {
        metrics::lease_expired(lapsed.key.kind()).increment(1);
    }
    let orphans = recovery::recover_once(store).await?;
    Ok(Reaped { processes: dead.len(), leases: lapsed.len(), executions: orphans.len() })
}

/// Declares processes of this machine dead that have certainly ended, without waiting for their leases; returns how many.
#[crate::boxed]
pub async fn bury_neighbours(store: &Store) -> Result<usize, EngineError> {
    let Some(own) = incarnation::own() else { return Ok(0) };
    let neighbours = store.read().await?.processes().neighbours(&own.place).await?;
    let mut buried = 0;
    for (id, one) in neighbours {
        if one.has_ended(&own.place, incarnation::look_up(one.pid))
            && transact(store, async |tx| tx.processes().bury(id).await).await?
        {
            tracing::warn!(process.id = %id, "process {id} (pid {}) has ended on this machine and was declared dead", one.pid);
            metrics::processes_expired().increment(1);
            buried += 1;
        }
    }
    Ok(buried)
}

fn longest_pause(lease: Duration) -> Duration {
    heartbeat_interval(lease).min(PAUSE_MAX)
}

#[crate::boxed]
pub async fn run(process: Process) {
    let pause = longest_pause(process.ttl());
    let mut service = Service::new("looking for dead processes", pause).later().until_end_of(&process);
    let (mut rounds, mut seen) = (0_u32, None);
    while service.is_due().await {
        service.ended(round(process.store(), rounds, &mut seen).await);
        rounds = rounds.wrapping_add(1);
    }
}

/// Also shortens waits that reach too far, if the clock was set back since `seen` or that is unknown.
async fn round(store: &Store, number: u32, seen: &mut Option<Timestamp>) -> Result<(), EngineError> {
    bury_neighbours(store).await?;
    run_once(store).await?;
    let now = store.read().await?.now().await?;
    if seen.is_none_or(|seen| now < seen) {
        let count = transact(store, async |tx| tx.leases().shorten_waits().await).await?;
        if count > 0 {
            tracing::warn!(waits = count, "the database's clock has gone back; {count} waits were shortened");
        }
    }
    *seen = Some(now);
    if number.is_multiple_of(ROUNDS_BETWEEN_PRUNING) {
        transact(store, async |tx| tx.processes().prune(KEEP_ENDED, ROWS_PER_ROUND).await).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::partition;
    use crate::{alert, render};
    use tidemill_domain::step_back::LEASE_MAX;
    use tidemill_store::DatabaseUrl;

    /// `docs/guarantees.md` promises that the leases of a dead process move on within this time of their end.
    const PROMISED: Duration = Duration::from_secs(5);

    /// What is left of that for the work itself, when every round comes as late as it may.
    const FOR_THE_WORK: Duration = Duration::from_secs(1);

    /// `docs/guarantees.md` promises that an execution of a dead process fails within this time.
    const RECOVERED: Duration = Duration::from_secs(10);

    #[test]
    fn with_the_default_lease_a_dead_process_is_noticed_within_ten_seconds() {
        let url: DatabaseUrl = "postgres://host/database".parse().unwrap();
        let lease = url.default_lease();

        assert!(lease + longest_pause(lease) + FOR_THE_WORK <= RECOVERED, "{lease:?}");
    }

    #[test]
    fn with_the_default_lease_a_render_is_adopted_within_ten_seconds() {
        let policy = tidemill_domain::render::Policy::standard().unwrap();
        let longest = policy.lease_for + render::options::reap_pause(policy.lease_for);

        assert!(longest + FOR_THE_WORK <= RECOVERED, "{longest:?}");
    }

    fn check(what: &str, looks: &[Duration]) {
        let longest: Duration = looks.iter().sum();
        assert!(longest + FOR_THE_WORK <= PROMISED, "{what}: {looks:?} are {longest:?} after the lease");
    }

    /// Does not count on wake-ups: each round comes at the end of the longest pause before it.
    #[test]
    fn the_longest_pauses_between_looks_add_up_to_less_than_five_seconds() {
        // The lease of the process that checks, from the shortest to the longest that can be set.
        for lease in (1..=LEASE_MAX.as_secs()).map(Duration::from_secs) {
            let round = longest_pause(lease);
            check("an execution fails", &[round]);
            check("an execution is restarted", &[round, recovery::PACE.max]);
            check("a partition goes on", &[round, partition::WORKER_PACE.max]);
        }
        // Users of these check for expired leases themselves.
        check("the watch over alerts is taken over", &[alert::WATCH_PAUSE]);
        check("a render is adopted", &[render::options::REAP_PAUSE]);
    }
}
