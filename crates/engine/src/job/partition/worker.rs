//! Runs partitions of jobs that other processes run.

use super::run::{self, Common};
use crate::job::definition::Job;
use crate::job::launcher::Launcher;
use crate::job::step::Step;
use crate::job::stop::Urgency;
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::job::{ExecutionContext, ExecutionId, InstanceId, JobParameters};
use tidemill_domain::poll::{Found, Pace};
use tidemill_store::job::partition::PARTITION_LEASE_KIND;
use tidemill_store::job::{Claim, Claimed, KnownWorker, StoredContext};
use tidemill_store::lease::freed_topic;
use tidemill_store::{Store, StoreError};
use tokio::task::JoinSet;

/// How often to look for partitions, when nobody calls.
const PACE: Pace = Pace { min: Duration::from_millis(100), max: Duration::from_secs(1) };

/// Runs partitions of the launcher's jobs, at most `slots` at once, until its process ends or it is told to stop.
/// Those that it has to let go of are handed back at the end of their chunk.
pub async fn run(launcher: Launcher, slots: usize) {
    let divided = |job: &&Job| job.steps().iter().any(|step| step.worker().is_some());
    let jobs: Vec<Job> = launcher.jobs().iter().filter(divided).cloned().collect();
    if jobs.is_empty() || slots == 0 {
        return;
    }
    let process = launcher.process().clone();
    let stop = launcher.partition_stop();
    let mut freed = launcher.store().wakeup(&freed_topic(PARTITION_LEASE_KIND));
    let mut running = JoinSet::new();
    let mut pause = PACE.min;
    while !stop.is_asked() {
        let room = slots - running.len();
        let found = match take(&launcher, &jobs, room, &mut running).await {
            Ok(0) => Found::Nothing,
            Ok(_) => Found::Work,
            Err(error) => {
                tracing::warn!(%error, "looking for partitions to run failed; will try again");
                Found::Nothing
            }
        };
        pause = PACE.next(pause, found, crate::clock::jitter_unit());
        tokio::select! {
            _ended = process.ended() => return,
            () = stop.asked(Urgency::AtChunkEnd) => {}
            Some(_recorded) = running.join_next() => {}
            _woken = freed.wait(pause), if running.len() < slots => {}
        }
    }
    while running.join_next().await.is_some() {}
}

/// Takes as many partitions as there is room for, and begins to run them.
async fn take(
    launcher: &Launcher,
    jobs: &[Job],
    room: usize,
    running: &mut JoinSet<()>,
) -> Result<usize, StoreError> {
    if room == 0 {
        return Ok(0);
    }
    let known: Vec<KnownWorker<'_>> = jobs.iter().flat_map(workers).collect();
    let claim = Claim {
        by: launcher.process().id(),
        known: &known,
        manager: None,
        limit: u32::try_from(room).unwrap_or(u32::MAX),
    };
    let claimed = run::claim(launcher.store(), launcher.process(), &claim).await?;
    let count = claimed.len();
    let mut runs: HashMap<ExecutionId, Run> = HashMap::new();
    for (claimed, lease) in claimed {
        let worker =
            jobs.iter().find(|job| job.name() == claimed.job).and_then(|job| job.worker(&claimed.worker));
        let run = match runs.get(&claimed.execution) {
            Some(run) => Some(run.clone()),
            None => look(launcher.store(), &claimed).await?,
        };
        // Of one whose execution has just gone, the lease is given back by being dropped.
        let (Some(worker), Some(run)) = (worker, run) else { continue };
        runs.insert(claimed.execution, run.clone());
        let common = Common {
            store: launcher.store().clone(),
            clock: launcher.clock().clone(),
            stop: launcher.partition_stop(),
            instance: run.instance,
            parameters: run.parameters,
            job_context: run.job_context,
            fingerprint: run.fingerprint,
        };
        let counted = launcher.partition_begins();
        let worker = worker.clone();
        running.spawn(async move {
            common.run(worker, claimed, lease).await;
            drop(counted);
        });
    }
    Ok(count)
}

/// The workers of a job.
fn workers(job: &Job) -> Vec<KnownWorker<'_>> {
    let (name, fingerprint) = (job.name(), job.definition());
    let workers = job.steps().into_iter().filter_map(Step::worker);
    workers.map(|worker| KnownWorker { job: name, fingerprint, step: worker.name() }).collect()
}

/// What the partitions of one execution have in common.
#[derive(Clone)]
struct Run {
    instance: InstanceId,
    parameters: JobParameters,
    job_context: ExecutionContext,
    fingerprint: Option<String>,
}

async fn look(store: &Store, claimed: &Claimed) -> Result<Option<Run>, StoreError> {
    let mut tx = store.read().await?;
    let detail = tx.execution(claimed.execution).await?;
    let context = tx.job_context(claimed.execution).await?;
    tx.rollback().await?;
    let Some(detail) = detail else { return Ok(None) };
    let job_context = match context {
        Some(StoredContext::Ours(context)) => context,
        _ => ExecutionContext::new(),
    };
    Ok(Some(Run {
        instance: detail.execution.instance,
        parameters: detail.job_parameters()?,
        job_context,
        fingerprint: detail.fingerprint,
    }))
}
