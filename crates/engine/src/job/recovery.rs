//! Recovery of executions whose process died: they fail, their units are released, and they are restarted if their job
//! says so. Any process can fail them; only one that has the job restarts it.

use crate::job::{Launcher, Running};
use crate::{EngineError, Next, Service, metrics, transact};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::poll::Pace;
use tidemill_domain::pool::command::{Command, Release, ReleaseBy};
use tidemill_domain::pool::{End, TicketId};
use tidemill_domain::words::plural;
use tidemill_store::job::{RESTART_DUE, Recovered};
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};
use tidemill_store::{Store, StoreError};

const EXECUTIONS_PER_ROUND: u32 = 100;

const TICKETS_PER_ROUND: u32 = 1000;

/// When nobody has restarted an execution for so long, its end is notified.
const RESTARTED_WITHIN: Duration = Duration::from_secs(60);

/// How often to look for restarts if no wake-up arrives.
pub(crate) const PACE: Pace = Pace { min: Duration::from_millis(200), max: Duration::from_secs(2) };

/// Fails executions whose process died, and releases their units.
#[crate::boxed]
pub async fn recover_once(store: &Store) -> Result<Vec<Recovered>, EngineError> {
    let recovered = transact(store, async |tx| {
        tx.jobs().notify_overdue_restarts(RESTARTED_WITHIN).await?;
        tx.jobs().recover_orphans(EXECUTIONS_PER_ROUND).await
    })
    .await?;
    for orphan in &recovered {
        let id = orphan.execution;
        tracing::warn!(execution.id = %id, job = orphan.job, "execution {id} of job {} failed: its process was lost", orphan.job);
        metrics::job_recoveries(&orphan.job).increment(1);
    }
    if let Err(error) = give_back_units(store).await {
        // Executions must not wait for pools; the next round tries again.
        tracing::warn!(%error, "units of executions that have ended could not be given back; will try again");
    }
    Ok(recovered)
}

async fn give_back_units(store: &Store) -> Result<(), StoreError> {
    let left = store.read().await?.jobs().units_of_ended_executions(TICKETS_PER_ROUND).await?;
    for (pool, tickets) in left {
        let given_back = |ticket: &TicketId| {
            let reason = "the execution that asked for it has ended".to_owned();
            let end = End::ByOperator { by: "system".to_owned(), reason };
            let by = ReleaseBy::Ticket(*ticket);
            Command::Release(Box::new(Release { pool: pool.clone(), by, epoch: None, end, call: None }))
        };
        let commands: Vec<Command> = tickets.iter().map(given_back).collect();
        let pools = BTreeSet::from([pool.clone()]);
        let pace = tidemill_domain::pool::estimate::Pace::default();
        let request = PassRequest { pools: &pools, commands: &commands, pace, lapses: Lapses::Left };
        // One pass per pool, so that a damaged pool does not block the others.
        match store.pool_pass(&mut PoolCache::default(), &request).await {
            Ok(_) => {
                tracing::info!(pool = %pool, "removed {} of executions that have ended from pool {pool}", plural(tickets.len(), "request", "requests"))
            }
            Err(error) => {
                tracing::warn!(pool = %pool, %error, "units of executions that have ended could not be given back to pool {pool}")
            }
        }
    }
    Ok(())
}

/// Restarts due executions until the launcher's process ends.
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
