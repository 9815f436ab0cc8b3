//! An execution that this process runs, and how its progress is recorded.

use crate::job::{ExecutionLost, Job, LostAnswer, Outcome, StepFailure, StepResources, while_away};
use crate::{locked, metrics, transact};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};
use tidemill_domain::job::launch::InstanceEnd;
use tidemill_domain::job::step::{EXECUTED_KEY, STEP_TYPE_KEY, StepRules, VERSION_KEY};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, StepExecutionId};
use tidemill_store::Store;
use tidemill_store::job::{EndRecorded, Launched, StepEnd, StepRecord, StepRequest, StepStart};
use tracing::Span;

const TROUBLE: &str = "the execution could not be recorded";

pub(super) struct Execution {
    pub(super) store: Store,
    pub(super) job: Job,
    pub(super) launched: Launched,
    pub(super) resources: StepResources,
    /// Locked, because flows of a split run concurrently.
    context: Mutex<ExecutionContext>,
    /// Steps end one after the other, so that the last job context to be stored has the values of all.
    pub(super) ending: tokio::sync::Mutex<()>,
    /// The step that an earlier execution completed last, of those that this one skips.
    skipped: Mutex<Option<InstanceEnd>>,
    /// False as long as every step was passed over.
    pub(super) has_begun_step: AtomicBool,
    /// Since its launch.
    pub(super) span: Span,
}

impl Execution {
    pub(super) fn new(
        store: Store,
        job: Job,
        launched: Launched,
        resources: StepResources,
        span: Span,
    ) -> Self {
        let context = Mutex::new(launched.context.clone());
        let (ending, skipped, has_begun_step) = Default::default();
        Self { store, job, launched, resources, context, ending, skipped, has_begun_step, span }
    }

    pub(super) fn note_skipped(&self, step: &StepRecord) {
        let (execution, status) = (step.execution, BatchStatus::Completed);
        let end = step.ended_at.map(|at| InstanceEnd { execution, status, at });
        let mut last = locked(&self.skipped);
        if end.map(|end| end.at) > last.map(|last| last.at) {
            *last = end;
        }
    }

    /// Why an execution that ran no step had nothing to do.
    pub(super) fn nothing_to_do(&self) -> String {
        let last = *locked(&self.skipped);
        last.map_or_else(|| "nothing to do: no step had to run".to_owned(), |end| end.to_string())
    }

    pub(super) fn context(&self) -> MutexGuard<'_, ExecutionContext> {
        locked(&self.context)
    }

    /// False if another process owns the execution.
    pub(super) async fn record_begin(&self) -> Result<bool, StepFailure> {
        while_away(&self.resources.lease, TROUBLE, LostAnswer::Fail, || {
            let Launched { execution, lease, granted, .. } = &self.launched;
            transact(&self.store, async move |tx| {
                tx.jobs().begin_execution(*execution, lease, granted.fence).await
            })
        })
        .await
    }

    /// Decides whether a step runs, and records its start.
    pub(super) async fn record_step_start(
        &self,
        step: &str,
        type_word: &str,
        rules: StepRules,
    ) -> Result<StepStart, StepFailure> {
        let seed = step_seed(type_word);
        let request = StepRequest {
            execution: self.launched.execution,
            instance: self.launched.instance,
            lease: &self.launched.lease,
            fence: self.launched.granted.fence,
            step,
            rules,
            seed: &seed,
        };
        while_away(&self.resources.lease, TROUBLE, LostAnswer::Fail, || {
            transact(&self.store, async |tx| tx.jobs().start_step(&request).await)
        })
        .await
    }

    /// Records the end of a step, and the job context if it has changed.
    pub(super) async fn record_step_end(
        &self,
        id: StepExecutionId,
        outcome: &Outcome,
        counters: &Counters,
        job_context: Option<&str>,
    ) -> Result<(), ExecutionLost> {
        let Launched { execution, lease, granted, .. } = &self.launched;
        let end = StepEnd {
            id,
            execution: *execution,
            lease,
            fence: granted.fence,
            status: outcome.status,
            exit: &outcome.exit,
            counters,
        };
        let recorded = while_away(&self.resources.lease, TROUBLE, LostAnswer::Repeat, || async {
            let mut tx = self.store.begin().await?;
            let mut is_ours = true;
            if let Some(text) = job_context {
                is_ours = tx.jobs().save_job_context(*execution, lease, granted.fence, text).await?;
            }
            is_ours = is_ours && tx.jobs().end_step(&end).await?;
            tx.commit().await?;
            Ok(is_ours)
        });
        self.settled(recorded.await)
    }

    /// Records the end and releases the lease in one transaction. Returns the status that is recorded.
    pub(super) async fn record_end(&self, outcome: &Outcome) -> Result<BatchStatus, ExecutionLost> {
        let Outcome { status, exit, .. } = outcome;
        let Launched { execution, lease, granted, .. } = &self.launched;
        let recorded = while_away(&self.resources.lease, TROUBLE, LostAnswer::Repeat, || async {
            let mut tx = self.store.begin().await?;
            let mut recorded =
                tx.jobs().end_execution(*execution, lease, granted.fence, *status, exit).await?;
            if recorded == EndRecorded::Refused {
                // The end releases the lease, so repeating an end whose answer was lost is refused.
                let found = tx.jobs().execution(*execution).await?.map(|found| found.execution);
                if found.is_some_and(|found| found.status == *status && found.exit.code == exit.code) {
                    recorded = EndRecorded::Done;
                }
            }
            tx.commit().await?;
            Ok(recorded)
        });
        let status = match recorded.await {
            Ok(EndRecorded::Done) => *status,
            Ok(EndRecorded::ByOther(ended)) => {
                tracing::warn!(execution.id = %execution, "another program has ended execution {execution}: it is {ended}");
                ended
            }
            Ok(EndRecorded::Refused) => return Err(self.refused()),
            Err(failure) => return Err(failure.lost()),
        };
        self.resources.lease.forget();
        Ok(status)
    }

    fn settled(&self, recorded: Result<bool, StepFailure>) -> Result<(), ExecutionLost> {
        match recorded {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.refused()),
            Err(failure) => Err(failure.lost()),
        }
    }

    pub(super) fn refused(&self) -> ExecutionLost {
        metrics::fencing_rejections(self.resources.lease.key().kind()).increment(1);
        ExecutionLost
    }
}

/// The initial context of every step.
pub(super) fn step_seed(type_word: &str) -> ExecutionContext {
    let mut seed = ExecutionContext::new();
    seed.put(VERSION_KEY, env!("CARGO_PKG_VERSION"));
    seed.put(STEP_TYPE_KEY, type_word);
    seed.put(EXECUTED_KEY, true);
    seed
}
