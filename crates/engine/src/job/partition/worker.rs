//! Runs partitions of jobs that other processes run.

use super::run_partition;
use crate::job::launch::recorded_trace;
use crate::job::launcher::{Launcher, watch_for_stop};
use crate::job::{Job, Step, StepScopeParts, StopSwitch, Urgency};
use crate::{Next, Service};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tidemill_domain::job::{ExecutionContext, ExecutionId};
use tidemill_domain::poll::Pace;
use tidemill_domain::trace::TraceParent;
use tidemill_store::job::partition::PARTITION_LEASE_KIND;
use tidemill_store::job::{Claim, Claimed, KnownWorker, StoredContext};
use tidemill_store::lease::freed_topic;
use tidemill_store::{StoreError, trace};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument;

/// How often to look for partitions if no wake-up arrives.
pub(crate) const PACE: Pace = Pace { min: Duration::from_millis(100), max: Duration::from_secs(1) };

/// Runs partitions of the launcher's jobs, at most `slots` at once, until its process ends or it is stopped. Partitions
/// it has to let go of are handed back at the end of their chunk.
#[crate::boxed]
pub async fn run(launcher: Launcher, slots: usize) {
    if slots == 0 {
        return;
    }
    let process = launcher.process().clone();
    let stop = launcher.inner.partition_stop.signal();
    let mut service = Service::polling("looking for partitions to run", PACE)
        .wake_by(launcher.store().wakeup(&freed_topic(PARTITION_LEASE_KIND)));
    let mut running = JoinSet::new();
    let mut executions = Executions::new();
    loop {
        tokio::select! {
            // First, so that no partition is claimed after a stop.
            biased;
            _ended = process.ended() => return,
            () = stop.asked(Urgency::AtChunkEnd) => break,
            Some(_recorded) = running.join_next() => {}
            _is_due = service.is_due(), if running.len() < slots => {}
        }
        let room = slots - running.len();
        service.ended(take(&launcher, room, &mut running, &mut executions).await);
    }
    while running.join_next().await.is_some() {}
}

/// Claims as many partitions as there is room for, and runs them.
async fn take(
    launcher: &Launcher,
    room: usize,
    running: &mut JoinSet<()>,
    executions: &mut Executions,
) -> Result<Next, StoreError> {
    let jobs = launcher.jobs();
    let known: Vec<KnownWorker<'_>> = jobs.iter().flat_map(workers).collect();
    if known.is_empty() {
        return Ok(Next::Rest);
    }
    let claim = Claim {
        by: launcher.process().id(),
        known: &known,
        manager: None,
        limit: u32::try_from(room).unwrap_or(u32::MAX),
    };
    let claimed = run_partition::claim(launcher.store(), launcher.process(), &claim).await?;
    let next = if claimed.is_empty() { Next::Rest } else { Next::Soon };
    executions.retain(|_, run| run.strong_count() > 0);
    for (claimed, lease) in claimed {
        let worker = jobs.get(&claimed.job).ok().and_then(|job| job.worker(&claimed.worker));
        let known = executions.get(&claimed.execution).and_then(Weak::upgrade);
        let run = look(launcher, &claimed, known).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "partition {} cannot be run here", claimed.name);
            None
        });
        // If the execution has just gone, dropping the lease releases it.
        let (Some(worker), Some((run, job_context))) = (worker, run) else { continue };
        executions.insert(claimed.execution, Arc::downgrade(&run));
        let resources = launcher.resources(lease, &run.stop);
        let counted = launcher.inner.partitions.clone();
        let worker = worker.clone();
        let (job, execution) = (claimed.job.as_str(), claimed.execution);
        let span = tracing::info_span!(target: trace::TARGET, "partition", job, execution.id = %execution);
        trace::follow(&span, run.trace);
        let work = async move {
            let parts = StepScopeParts { job_context, ..run.parts.clone() };
            run_partition::run(parts, worker, claimed, resources).await;
            drop((counted, run));
        };
        running.spawn(work.instrument(span));
    }
    Ok(next)
}

fn workers(job: &Job) -> Vec<KnownWorker<'_>> {
    let (name, fingerprint) = (job.name(), job.definition());
    let workers = job.steps().into_iter().filter_map(Step::worker);
    workers.map(|worker| KnownWorker { job: name, fingerprint, step: worker.name() }).collect()
}

type Executions = HashMap<ExecutionId, Weak<WatchedExecution>>;

/// An execution of another process of which partitions run here.
struct WatchedExecution {
    stop: StopSwitch,
    /// Task that listens for a stop of the execution or of this process.
    listening: AbortHandle,
    /// Those of one partition, without the context of the job.
    parts: StepScopeParts,
    trace: Option<TraceParent>,
}

impl Drop for WatchedExecution {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The execution, and its context now: steps may have set values since its last partition was taken here.
async fn look(
    launcher: &Launcher,
    claimed: &Claimed,
    known: Option<Arc<WatchedExecution>>,
) -> Result<Option<(Arc<WatchedExecution>, ExecutionContext)>, StoreError> {
    let mut tx = launcher.store().read().await?;
    let job_context = match tx.jobs().job_context(claimed.execution).await? {
        Some(StoredContext::Readable(context)) => context,
        _ => ExecutionContext::new(),
    };
    if let Some(known) = known {
        return Ok(Some((known, job_context)));
    }
    let Some(detail) = tx.jobs().execution(claimed.execution).await? else { return Ok(None) };
    let parameters = detail.job_parameters()?;
    let trace = recorded_trace(&mut tx, claimed.execution).await?;
    let stop = StopSwitch::default();
    let listening = tokio::spawn(listen(launcher.clone(), claimed.execution, stop.clone())).abort_handle();
    let parts = StepScopeParts {
        store: launcher.store().clone(),
        job: claimed.job.clone(),
        step: claimed.name.clone(),
        instance: detail.execution.instance,
        execution: claimed.execution,
        step_execution: claimed.id,
        parameters,
        job_context: ExecutionContext::new(),
        context: ExecutionContext::new(),
        fingerprint: detail.fingerprint,
        is_resumed: false,
        granted: OnceLock::new(),
    };
    Ok(Some((Arc::new(WatchedExecution { stop, listening, parts, trace }), job_context)))
}

/// Forwards a stop of the execution or of this process.
async fn listen(launcher: Launcher, execution: ExecutionId, switch: StopSwitch) {
    let let_go = launcher.inner.partition_stop.signal();
    let letting_go = async {
        for urgency in [Urgency::AtChunkEnd, Urgency::Now] {
            let_go.asked(urgency).await;
            switch.ask(urgency);
        }
    };
    tokio::join!(letting_go, watch_for_stop(launcher.store().clone(), execution, switch.clone()));
}
