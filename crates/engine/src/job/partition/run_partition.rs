//! One partition, from the claim to its end.

use crate::job::run_step::{EndedStep, panic_text, run_body};
use crate::job::{
    ExecutionLost, LostAnswer, Outcome, Step, StepFailure, StepResources, StepScope, StepScopeParts,
    while_away,
};
use crate::{HeldLease, Process, metrics, transact};
use tidemill_domain::code::Code;
use tidemill_domain::job::step::RESTART_KEY;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext};
use tidemill_store::job::{Claim, Claimed, StepEnd, StoredContext};
use tidemill_store::{Store, StoreError, crash_point};
use tokio::task::JoinSet;
use tracing::Instrument;

/// Maximum number of starts, so that a partition that crashes every process does not run forever.
const BEGUN_MAX: i64 = 25;

const WORN_OUT: &str = "the partition was started many times, and its process died or stopped each time";
const NOT_UNDERSTOOD: &str = "the context of the partition cannot be read";

/// Claims partitions that are not running.
pub(super) async fn claim(
    store: &Store,
    process: &Process,
    claim: &Claim<'_>,
) -> Result<Vec<(Claimed, HeldLease)>, StoreError> {
    // Between the commit and `attach`, the heartbeat would release our leases as unknown ones.
    let _one_at_a_time = process.acquiring().lock().await;
    let sent = process.clock().monotonic();
    let claimed = transact(store, async |tx| tx.jobs().claim_partitions(claim).await).await?;
    crash_point!("partition_claimed");
    let held = |claimed: Claimed| {
        let lease = process.attach(&claimed.lease, sent, &claimed.granted);
        (claimed, lease)
    };
    Ok(claimed.into_iter().map(held).collect())
}

/// Runs a partition and records its end. One that this process has to let go of is handed back. `parts` are those of
/// the divided step, or of another partition.
pub(super) async fn run(parts: StepScopeParts, worker: Step, claimed: Claimed, resources: StepResources) {
    let (context, hindrance) = match claimed.context {
        StoredContext::Readable(context) => (context, None),
        StoredContext::Foreign(_) => (ExecutionContext::new(), Some(NOT_UNDERSTOOD)),
    };
    let begun = claimed.granted.fence.epoch.get();
    let hindrance = hindrance.or((begun > BEGUN_MAX).then_some(WORN_OUT));
    let scope = StepScope::new(StepScopeParts {
        step: claimed.name,
        step_execution: claimed.id,
        is_resumed: context.get(RESTART_KEY).is_some() || claimed.counters.commit > 0,
        context,
        ..parts
    });
    let ended = run_step(worker, &scope, &resources, claimed.counters, hindrance).await;
    let recorded = match &ended {
        Ok(ended) => {
            crash_point!("partition_ending");
            record(&scope, &resources.lease, ended).await
        }
        Err(ExecutionLost) => Err(ExecutionLost),
    };
    let step = scope.step();
    match (ended, recorded) {
        (Ok(ended), Ok(PartitionEnd::Ended)) => {
            resources.lease.forget();
            let status = ended.outcome.status.as_str();
            metrics::job_partitions(scope.job(), scope.defined_step(), status).increment(1);
            ended.log(&scope);
        }
        (Ok(_), Ok(PartitionEnd::HandedBack)) => tracing::info!(step, "partition {step} was handed back"),
        _ => tracing::warn!(step, "partition {step} was lost to another process"),
    }
}

async fn run_step(
    worker: Step,
    scope: &StepScope,
    resources: &StepResources,
    counters: Counters,
    hindrance: Option<&'static str>,
) -> Result<EndedStep, ExecutionLost> {
    let failed = move |why: String| EndedStep {
        outcome: Outcome::failed(Code::ExecutionFailed, why),
        counters,
        context: ExecutionContext::new(),
    };
    let (scope, resources) = (scope.clone(), resources.clone());
    // In a task, so that a panic of a listener is recorded; otherwise the partition would start again and again.
    let mut running = JoinSet::new();
    let work = async move {
        let mut ended = match hindrance {
            None => run_body(&resources, &worker, &scope, counters).await?,
            Some(why) => failed(why.to_owned()),
        };
        // Changes of listeners to the job context are dropped: other processes run other partitions.
        ended.call_listeners(&worker, &scope, &mut scope.job_context().clone());
        Ok::<_, ExecutionLost>(ended)
    };
    running.spawn(work.in_current_span());
    match running.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(panic)) => Ok(failed(format!("the partition ended in a panic: {}", panic_text(panic)))),
        None => Err(ExecutionLost),
    }
}

enum PartitionEnd {
    Ended,
    /// Dropping the lease releases it, and another process continues.
    HandedBack,
    Fenced,
}

async fn record(
    scope: &StepScope,
    lease: &HeldLease,
    ended: &EndedStep,
) -> Result<PartitionEnd, ExecutionLost> {
    let attempt = || async {
        let mut tx = scope.store().begin().await?;
        let Outcome { status, exit, .. } = &ended.outcome;
        if *status == BatchStatus::Stopped && !tx.jobs().must_stop(scope.execution()).await? {
            tx.rollback().await?;
            return Ok(PartitionEnd::HandedBack);
        }
        let end = StepEnd {
            id: scope.step_execution(),
            execution: scope.execution(),
            lease: lease.key(),
            fence: lease.fence(),
            status: *status,
            exit,
            counters: &ended.counters,
        };
        if !tx.jobs().end_partition(&end).await? {
            return Ok(PartitionEnd::Fenced);
        }
        tx.commit().await?;
        Ok(PartitionEnd::Ended)
    };
    let trouble = "the end of a partition could not be recorded";
    match while_away(lease, trouble, LostAnswer::Repeat, attempt).await.map_err(StepFailure::lost)? {
        PartitionEnd::Fenced => {
            metrics::fencing_rejections(lease.key().kind()).increment(1);
            Err(ExecutionLost)
        }
        recorded => Ok(recorded),
    }
}
