//! Retention: deletes the history of jobs, on request or every hour.
//!
//! Of several servers, the one that holds the lease `purge/history` does the work. The lease is only there to save
//! work: each share is decided under locks, so a manual purge may run at the same time.

use crate::{EngineError, HeldLease, Leader, Process, Service, begin_under, metrics, transact, until_lost};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::retention::{Kept, Retention};
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::words::plural;
use tidemill_store::Store;
use tidemill_store::job::{PurgeShare, PurgeWalk, Removed};

/// Default number of instances per transaction.
pub const BATCH: u32 = 500;

const PAUSE: Duration = Duration::from_secs(3600);

const LEASE_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two transactions, for others.
const BREATH: Duration = Duration::from_millis(50);

/// What to delete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgeOrder {
    /// Only of this job.
    pub job: Option<String>,
    /// What to keep.
    pub retention: Retention,
    /// Instances per transaction.
    pub batch: u32,
}

/// The result of a purge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PurgeReport {
    /// What was deleted, or would be.
    pub removed: Removed,
    /// Checked instances that were kept, by reason.
    pub kept: BTreeMap<Kept, u64>,
}

enum Mode<'a> {
    Count,
    Remove { actor: &'a Actor, lease: Option<&'a HeldLease> },
}

/// Counts what would be deleted, and changes nothing.
pub async fn count(
    store: &Store,
    order: &PurgeOrder,
    tell: impl FnMut(&PurgeReport),
) -> Result<PurgeReport, EngineError> {
    walk_all(store, order, &Mode::Count, tell).await
}

/// Deletes what retention allows. `tell` is called after each transaction.
pub async fn purge(
    store: &Store,
    order: &PurgeOrder,
    actor: &Actor,
    tell: impl FnMut(&PurgeReport),
) -> Result<PurgeReport, EngineError> {
    walk_all(store, order, &Mode::Remove { actor, lease: None }, tell).await
}

/// Purges every hour, on the server that holds the lease, until `process` ends.
pub async fn run(process: Process, retention: Retention) {
    let key = LeaseKey::new("purge", "history").expect("kind and name are short and plain");
    let mut leader = Leader::new(&process, key, LEASE_PAUSE);
    while let Some(lease) = leader.lease().await {
        lease.while_held(keep(process.store(), &lease, retention)).await;
    }
}

async fn keep(store: &Store, lease: &HeldLease, retention: Retention) {
    let order = PurgeOrder { job: None, retention, batch: BATCH };
    let actor = Actor::system();
    let mode = Mode::Remove { actor: &actor, lease: Some(lease) };
    let mut service = Service::new("forgetting old executions", PAUSE);
    while service.is_due().await {
        let done = walk_all(store, &order, &mode, |_| {}).await.map(|report| {
            let Removed { instances, executions, .. } = report.removed;
            if instances > 0 {
                let instances = plural(instances, "instance", "instances");
                tracing::info!(
                    "deleted {instances} of jobs with {}",
                    plural(executions, "execution", "executions")
                );
            }
        });
        service.ended(until_lost(done));
    }
}

async fn walk_all(
    store: &Store,
    order: &PurgeOrder,
    mode: &Mode<'_>,
    mut tell: impl FnMut(&PurgeReport),
) -> Result<PurgeReport, EngineError> {
    let mut report = PurgeReport::default();
    let mut last: Option<String> = None;
    loop {
        let mut tx = store.read().await?;
        let job = match &order.job {
            Some(job) => Some(job.clone()),
            None => tx.jobs().next(last.as_deref()).await?,
        };
        let Some(job) = job else { break };
        let mut walk = tx.jobs().begin_purge(&job, &order.retention).await?;
        drop(tx);
        loop {
            let share = take_share(store, order, mode, &walk, &report).await?;
            report.removed.add(share.removed);
            for (why, count) in &share.kept {
                *report.kept.entry(*why).or_default() += count;
            }
            tell(&report);
            if !walk.go_on(&share) {
                break;
            }
            if matches!(mode, Mode::Remove { .. }) {
                tokio::time::sleep(BREATH).await;
            }
        }
        if order.job.is_some() {
            break;
        }
        last = Some(job);
    }
    if let Mode::Remove { actor, .. } = mode
        && report.removed.instances > 0
    {
        let Removed { instances, executions, steps } = report.removed;
        let counts = [
            plural(instances, "instance", "instances"),
            plural(executions, "execution", "executions"),
            plural(steps, "step", "steps"),
        ]
        .join(", ");
        let entry = AuditEntry::new((*actor).clone(), "job.deleted", &object(order)).because(&counts);
        transact(store, async |tx| tx.audit().record(&entry).await).await?;
    }
    Ok(report)
}

/// One transaction. The first that deletes something also writes the audit entry, so there is one even if the purge
/// does not finish.
async fn take_share(
    store: &Store,
    order: &PurgeOrder,
    mode: &Mode<'_>,
    walk: &PurgeWalk,
    before: &PurgeReport,
) -> Result<PurgeShare, EngineError> {
    let Mode::Remove { actor, lease } = mode else {
        return Ok(store.read().await?.jobs().count_share(walk, order.batch).await?);
    };
    let mut tx = begin_under(*lease, store).await?;
    let share = tx.jobs().purge_share(walk, order.batch).await?;
    if before.removed.instances == 0 && share.removed.instances > 0 {
        let entry = AuditEntry::new((*actor).clone(), "job.delete", &object(order));
        tx.audit().record(&entry.because(&order.retention.to_string())).await?;
    }
    tx.commit().await?;
    if share.removed.instances > 0 {
        metrics::job_instances_purged(walk.job()).increment(share.removed.instances);
    }
    Ok(share)
}

fn object(order: &PurgeOrder) -> String {
    format!("job/{}", order.job.as_deref().unwrap_or("*"))
}
