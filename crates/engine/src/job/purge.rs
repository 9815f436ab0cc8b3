//! Retention: forgets the history of jobs, when somebody asks or every hour.
//!
//! Any number of servers may be told to; the one that has the lease `purge/history` does the work. Nothing depends on
//! that lease: what may go is decided share by share under locks, so that somebody's order may come in between.

use crate::error::EngineError;
use crate::lease::{HeldLease, Leader, begin_under, until_lost};
use crate::metrics;
use crate::process::Process;
use crate::service::Service;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::retention::{Kept, Retention};
use tidemill_domain::lease::LeaseKey;
use tidemill_store::Store;
use tidemill_store::job::{PurgeShare, PurgeWalk, Removed};

/// Instances that are looked at in one transaction, unless somebody wants another number.
pub const BATCH: u32 = 500;

const KIND: &str = "purge";

/// Pause between two purges of a server.
const PAUSE: Duration = Duration::from_secs(3600);

/// Pause between two attempts to get the lease.
const LEASE_PAUSE: Duration = Duration::from_secs(60);

/// What a server lets others do between two transactions.
const BREATH: Duration = Duration::from_millis(50);

/// What is to be forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgeOrder {
    /// Only of this job.
    pub job: Option<String>,
    /// What is kept.
    pub retention: Retention,
    /// Instances per transaction.
    pub batch: u32,
}

/// What a purge has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PurgeReport {
    /// What went, or would go.
    pub removed: Removed,
    /// How many of the instances that were looked at stayed, and why.
    pub kept: BTreeMap<Kept, u64>,
}

enum Mode<'a> {
    Count,
    Remove { actor: &'a Actor, lease: Option<&'a HeldLease> },
}

/// Tells what would go, and changes nothing.
pub async fn count(
    store: &Store,
    order: &PurgeOrder,
    tell: impl FnMut(&PurgeReport),
) -> Result<PurgeReport, EngineError> {
    walk_all(store, order, &Mode::Count, tell).await
}

/// Forgets what may go. `tell` hears after each transaction how far it is.
pub async fn purge(
    store: &Store,
    order: &PurgeOrder,
    actor: &Actor,
    tell: impl FnMut(&PurgeReport),
) -> Result<PurgeReport, EngineError> {
    walk_all(store, order, &Mode::Remove { actor, lease: None }, tell).await
}

/// Purges every hour, on whichever server has the lease, until `process` ends.
pub async fn run(process: Process, retention: Retention) {
    let key = LeaseKey::new(KIND, "history").expect("kind and name are short and plain");
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
                tracing::info!("{instances} instances of jobs with {executions} executions were forgotten");
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
    while let Some(mut walk) = next_walk(store, order, last.as_deref()).await? {
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
        last = Some(walk.job().to_owned());
    }
    if let Mode::Remove { actor, .. } = mode
        && report.removed.instances > 0
    {
        let Removed { instances, executions, steps } = report.removed;
        let counts = format!("{instances} instances, {executions} executions, {steps} steps");
        let entry = AuditEntry::new((*actor).clone(), "job.purged", &object(order)).because(&counts);
        let mut tx = store.begin().await?;
        tx.audit().record(&entry).await?;
        tx.commit().await?;
    }
    Ok(report)
}

async fn next_walk(
    store: &Store,
    order: &PurgeOrder,
    last: Option<&str>,
) -> Result<Option<PurgeWalk>, EngineError> {
    let mut tx = store.read().await?;
    let job = match &order.job {
        Some(job) => Some(job.clone()),
        None => tx.jobs().next(last).await?,
    };
    let walk = match job {
        Some(job) => Some(tx.jobs().begin_purge(&job, &order.retention).await?),
        None => None,
    };
    Ok(walk)
}

/// One transaction. The first that removes something also notes who wants it and what is kept, so that nothing goes
/// without a word even if the purge does not come to its end.
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
        let entry = AuditEntry::new((*actor).clone(), "job.purge", &object(order));
        tx.audit().record(&entry.because(&order.retention.to_string())).await?;
    }
    tx.commit().await?;
    metrics::instances_purged(walk.job(), share.removed.instances);
    Ok(share)
}

fn object(order: &PurgeOrder) -> String {
    format!("job/{}", order.job.as_deref().unwrap_or("*"))
}
