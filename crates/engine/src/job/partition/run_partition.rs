//! One partition, from the claim to its end.

use crate::job::execution::Lost;
use crate::job::run_job::panic_text;
use crate::job::run_step::{AbortOnDrop, Ending, StepRunner};
use crate::job::scope::{StepScope, StepScopeParts};
use crate::job::step::Step;
use crate::job::stop::StopSignal;
use crate::lease::HeldLease;
use crate::metrics;
use crate::pool::PoolsOnDemand;
use crate::process::Process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::job::partition::worker_of;
use tidemill_domain::job::spark::Granted;
use tidemill_domain::job::step::RESTART_KEY;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, InstanceId, JobParameters};
use tidemill_domain::time::Clock;
use tidemill_store::job::{Claim, Claimed, StepEnd, StoredContext};
use tidemill_store::{Store, StoreError, crash_point};

/// Pause before something is recorded again, after the database could not be reached.
const PAUSE: Duration = Duration::from_millis(250);

/// How often a partition may be begun. One that kills every process that runs it must not go on for ever.
const BEGUN_MAX: i64 = 25;

const WORN_OUT: &str =
    "the partition was begun many times, and whoever ran it died or was stopped each time before its end";
const NOT_UNDERSTOOD: &str = "what the partition remembers is not understood, so it cannot go on";

/// Takes partitions that nobody runs.
pub(super) async fn claim(
    store: &Store,
    process: &Process,
    claim: &Claim<'_>,
) -> Result<Vec<(Claimed, HeldLease)>, StoreError> {
    // Between the commit and our note of it, the heartbeat would take our own leases for forgotten ones.
    let _one_at_a_time = process.acquiring().lock().await;
    let sent = process.clock().monotonic();
    let mut tx = store.begin().await?;
    let claimed = tx.jobs().claim_partitions(claim).await?;
    tx.commit().await?;
    crash_point!("partition_claimed");
    let held = |claimed: Claimed| {
        let lease = process.adopt(&claimed.lease, sent, &claimed.granted);
        (claimed, lease)
    };
    Ok(claimed.into_iter().map(held).collect())
}

/// What the partitions of one execution have in common.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: StopSignal,
    pub(super) instance: InstanceId,
    pub(super) parameters: JobParameters,
    pub(super) job_context: ExecutionContext,
    pub(super) fingerprint: Option<String>,
    /// What the divided step was granted.
    pub(super) granted: Option<Granted>,
    pub(super) pools: PoolsOnDemand,
}

impl Common {
    /// Runs a partition to its end, and records that. One that only this process has to let go of is handed back.
    pub(super) async fn run(self, worker: Step, claimed: Claimed, lease: HeldLease) {
        let (context, hindrance) = match claimed.context {
            StoredContext::Ours(context) => (context, None),
            StoredContext::Foreign(_) => (ExecutionContext::new(), Some(NOT_UNDERSTOOD)),
        };
        let begun = claimed.granted.fence.epoch.get();
        let hindrance = hindrance.or((begun > BEGUN_MAX).then_some(WORN_OUT));
        let scope = StepScope::new(StepScopeParts {
            store: self.store.clone(),
            job: claimed.job,
            step: claimed.name,
            instance: self.instance,
            execution: claimed.execution,
            step_execution: claimed.id,
            parameters: self.parameters,
            job_context: self.job_context,
            is_resumed: context.get(RESTART_KEY).is_some() || claimed.counters.commit > 0,
            context,
            fingerprint: self.fingerprint,
            granted: self.granted.map_or_else(OnceLock::new, OnceLock::from),
        });
        let lease = Arc::new(lease);
        let runner =
            StepRunner { lease: lease.clone(), stop: self.stop, clock: self.clock, pools: self.pools };
        let counters = claimed.counters;
        let told = scope.clone();
        // A task of its own: a listener that panics must leave a trace, or the partition would be begun for ever.
        let running = tokio::spawn(async move {
            let mut ending = match hindrance {
                None => runner.run(&worker, &told, counters).await?,
                Some(why) => failed(why.to_owned(), counters),
            };
            // What a listener puts into what the job remembers stays here: other processes run other partitions.
            ending.tell(&worker, &told, &mut told.job_context().clone());
            Ok(ending)
        });
        let _ends_with_us = AbortOnDrop::new(&running);
        let ending = match running.await {
            Ok(Ok(ending)) => ending,
            Ok(Err(Lost)) => {
                tracing::warn!(step = scope.step(), "partition {} was lost to another process", scope.step());
                return;
            }
            Err(panic) => failed(format!("the partition ended in a panic: {}", panic_text(panic)), counters),
        };
        crash_point!("partition_ending");
        match record(&scope, &lease, &ending).await {
            Ok(Recorded::Ended) => {
                lease.forget();
                let (job, step) = (scope.job(), worker_of(scope.step()));
                metrics::partition_ended(job, step, ending.status.as_str());
                ending.log(&scope);
            }
            Ok(Recorded::HandedBack) => {
                tracing::info!(step = scope.step(), "partition {} was handed back", scope.step());
            }
            Err(Lost) => {
                tracing::warn!(step = scope.step(), "partition {} was lost to another process", scope.step());
            }
        }
    }
}

/// The end of a partition that cannot go on.
fn failed(why: String, counters: Counters) -> Ending {
    let (status, code) = (BatchStatus::Failed, Some(Code::ExecutionFailed));
    Ending { status, exit: ExitStatus::failed(why), code, counters, context: ExecutionContext::new() }
}

enum Recorded {
    Ended,
    /// The lease is given back when it is dropped, and somebody else goes on.
    HandedBack,
}

/// Records how a partition ended, however long the database is away, as long as this process may act.
async fn record(scope: &StepScope, lease: &HeldLease, ending: &Ending) -> Result<Recorded, Lost> {
    loop {
        if lease.check().is_err() {
            return Err(Lost);
        }
        match try_once(scope, lease, ending).await {
            Ok(Some(recorded)) => return Ok(recorded),
            Ok(None) => {
                metrics::fencing_rejected(lease.key().kind());
                return Err(Lost);
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "the end of a partition could not be recorded; will try again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                tracing::error!(%error, "the end of a partition could not be recorded; it is given up");
                return Err(Lost);
            }
        }
    }
}

async fn try_once(
    scope: &StepScope,
    lease: &HeldLease,
    ending: &Ending,
) -> Result<Option<Recorded>, StoreError> {
    let mut tx = scope.store().begin().await?;
    if ending.status == BatchStatus::Stopped && !tx.jobs().is_stopping(scope.execution()).await? {
        tx.rollback().await?;
        return Ok(Some(Recorded::HandedBack));
    }
    let end = StepEnd {
        id: scope.step_execution(),
        execution: scope.execution(),
        lease: lease.key(),
        fence: lease.fence(),
        status: ending.status,
        exit: &ending.exit,
        counters: &ending.counters,
    };
    if !tx.jobs().end_partition(&end).await? {
        return Ok(None);
    }
    tx.commit().await?;
    Ok(Some(Recorded::Ended))
}
