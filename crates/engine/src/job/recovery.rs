//! What becomes of executions whose process died: they fail with the reason, their units go back to their pools, and they
//! are restarted where their job says so. Any process may find them; only one that has the job restarts it.

use crate::error::EngineError;
use crate::job::launcher::{Launcher, Running};
use crate::metrics;
use crate::service::{Next, Service};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::poll::Pace;
use tidemill_domain::pool::command::{Command, Release, ReleaseBy};
use tidemill_domain::pool::{End, TicketId};
use tidemill_store::job::{RESTART_DUE, Recovered};
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};
use tidemill_store::{Store, StoreError};

/// Executions dealt with in one round; more wait for the next.
const EXECUTIONS_PER_ROUND: u32 = 100;

/// Tickets of executions that have ended, dealt with in one round.
const TICKETS_PER_ROUND: u32 = 1000;

/// Why such a ticket ends, for people.
const EXECUTION_ENDED: &str = "the execution that asked for it has ended";

/// How often to look for restarts that are due, when nobody calls.
pub(crate) const PACE: Pace = Pace { min: Duration::from_millis(200), max: Duration::from_secs(2) };

/// Fails executions that nobody runs any more, and gives back the units that they held.
#[crate::boxed]
pub async fn recover_once(store: &Store) -> Result<Vec<Recovered>, EngineError> {
    let mut tx = store.begin().await?;
    let recovered = tx.jobs().recover_orphans(EXECUTIONS_PER_ROUND).await?;
    tx.commit().await?;
    for orphan in &recovered {
        let id = orphan.execution;
        tracing::warn!(execution.id = %id, job = orphan.job, "execution {id} of job {} failed: its process was lost", orphan.job);
        metrics::execution_recovered(&orphan.job);
    }
    if let Err(error) = give_back_units(store).await {
        // Executions must not wait for pools; the next round tries again.
        tracing::warn!(%error, "units of executions that have ended could not be given back; will try again");
    }
    Ok(recovered)
}

/// Gives back the units of executions that have ended. A process that died could not.
async fn give_back_units(store: &Store) -> Result<(), StoreError> {
    let left = store.read().await?.jobs().units_of_ended_executions(TICKETS_PER_ROUND).await?;
    for (pool, tickets) in left {
        let given_back = |ticket: &TicketId| {
            let end = End::ByOperator { by: "system".to_owned(), reason: EXECUTION_ENDED.to_owned() };
            let by = ReleaseBy::Ticket(*ticket);
            Command::Release(Box::new(Release { pool: pool.clone(), by, epoch: None, end, call: None }))
        };
        let commands: Vec<Command> = tickets.iter().map(given_back).collect();
        let pools = BTreeSet::from([pool.clone()]);
        let pace = tidemill_domain::pool::estimate::Pace::default();
        let request = PassRequest { pools: &pools, commands: &commands, pace, lapses: Lapses::Left };
        // A pass for each pool: one that is damaged does not keep the others waiting.
        match store.pool_pass(&mut PoolCache::default(), &request).await {
            Ok(_) => {
                tracing::info!(pool = %pool, "{} requests of executions that have ended are out of pool {pool}", tickets.len())
            }
            Err(error) => {
                tracing::warn!(pool = %pool, %error, "units of executions that have ended could not be given back to pool {pool}")
            }
        }
    }
    Ok(())
}

/// Restarts what is due, until the launcher's process ends.
#[crate::boxed]
pub async fn run(launcher: Launcher) {
    let mut service = Service::polling("looking for executions to restart", PACE)
        .wake_by(launcher.store().wakeup(RESTART_DUE))
        .until_end_of(launcher.process());
    while service.is_due().await {
        service.ended(launcher.restart_due().await.map(|restarted| match restarted {
            Some(Running { execution: id, .. }) => {
                tracing::info!(execution.id = %id, "execution {id} goes on with work whose process died");
                Next::Soon
            }
            None => Next::Rest,
        }));
    }
}
