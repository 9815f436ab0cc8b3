//! One run of a step, whether its own process runs the whole job or only this partition of it.

use super::execution::Lost;
use super::pool_units::{self, Units};
use super::run_job::panic_text;
use crate::job::listener::StepRun;
use crate::job::scope::StepScope;
use crate::job::step::{Step, StepEnd, StepFailure, StepTask};
use crate::job::stop::{StopSignal, Urgency};
use crate::lease::HeldLease;
use crate::pool::PoolsOnDemand;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus};
use tidemill_domain::time::Clock;
use tokio::task::{AbortHandle, JoinHandle};
use tracing::Instrument;

/// How long a step that has to end now may take to let go of what it holds.
const LETTING_GO: Duration = Duration::from_secs(2);

/// What every step runs under.
#[derive(Clone)]
pub(super) struct StepRunner {
    pub(super) lease: Arc<HeldLease>,
    pub(super) stop: StopSignal,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pools: PoolsOnDemand,
}

/// How a step ended, before it is recorded.
pub(super) struct Ending {
    pub(super) status: BatchStatus,
    pub(super) exit: ExitStatus,
    pub(super) code: Option<Code>,
    pub(super) counters: Counters,
    pub(super) context: ExecutionContext,
}

impl StepRunner {
    /// Runs a step to its end, from what it had counted and remembered. The error says that this process may no longer
    /// act for it.
    pub(super) async fn run(
        &self,
        step: &Step,
        scope: &StepScope,
        counters: Counters,
    ) -> Result<Ending, Lost> {
        let Some(wanted) = step.pool_use() else { return self.work(step, scope, counters).await };
        match self.units(wanted, scope).await? {
            Units::Held(hold) => {
                let ended = self.work(step, scope, counters).await;
                let is_completed = ended.as_ref().is_ok_and(|ending| ending.status == BatchStatus::Completed);
                pool_units::give_back(hold, scope, !is_completed).await;
                ended
            }
            Units::Not { status, exit, code } => {
                let context = begun(step, scope);
                Ok(Ending { status, exit, code, counters, context })
            }
        }
    }

    /// [`run`](Self::run) with the units that it needs.
    async fn work(&self, step: &Step, scope: &StepScope, counters: Counters) -> Result<Ending, Lost> {
        let context = begun(step, scope);
        let mut task = StepTask::new(scope.clone(), (counters, context), self.clone());
        let progress = task.progress();
        let span = tracing::info_span!("step", step = scope.step(), step.id = %scope.step_execution());
        let worker = step.clone();
        // A task of its own: a panic or a step that has to end now must not take the job with it.
        let mut working = tokio::spawn(
            async move {
                let ended = worker.body().run(&mut task).await;
                (ended, task.counters, task.context)
            }
            .instrument(span),
        );
        let _ends_with_us = AbortOnDrop::new(&working);
        let ended = tokio::select! {
            ended = &mut working => Some(ended),
            // A commit that is on its way is waited for: it ends the chunk, and the step with it.
            () = self.stop.asked(Urgency::Now) => match progress.is_committing() {
                true => tokio::time::timeout(LETTING_GO, &mut working).await.ok(),
                false => None,
            },
            () = self.lease.lost() => return Err(abort(working).await),
        };
        match ended {
            Some(Ok((ended, counters, context))) => {
                let (status, exit, code) = outcome(ended)?;
                Ok(Ending { status, exit, code, counters, context })
            }
            Some(Err(panic)) => {
                let (counters, context) = progress.committed();
                let exit = ExitStatus::failed(format!("the step ended in a panic: {}", panic_text(panic)));
                let (status, code) = (BatchStatus::Failed, Some(Code::ExecutionFailed));
                Ok(Ending { status, exit, code, counters, context })
            }
            None => {
                let _gone = abort(working).await;
                let (mut counters, context) = progress.committed();
                counters.rollback += 1;
                let exit = ExitStatus::new(ExitStatus::STOPPED).describe("stopped in the middle of a chunk");
                Ok(Ending { status: BatchStatus::Stopped, exit, code: None, counters, context })
            }
        }
    }
}

/// Tells the listeners that a step begins, and answers what it remembers then.
fn begun(step: &Step, scope: &StepScope) -> ExecutionContext {
    let mut context = scope.context().clone();
    for listener in step.listeners() {
        listener.before_step(scope, &mut context);
    }
    context
}

impl Ending {
    /// Tells the listeners, who may have a word on how it ended and on what the job remembers.
    pub(super) fn tell(&mut self, step: &Step, scope: &StepScope, job_context: &mut ExecutionContext) {
        for listener in step.listeners() {
            let mut run = StepRun {
                scope,
                status: self.status,
                exit: &self.exit,
                counters: &self.counters,
                context: &self.context,
                job_context,
            };
            if let Some(said) = listener.after_step(&mut run) {
                self.exit = self.exit.clone().and(said);
            }
        }
    }

    /// Logs a failure. The reason is recorded; it may hold data of items, which do not belong into a log.
    pub(super) fn log(&self, scope: &StepScope) {
        if let Some(code) = self.code {
            let (step, status) = (scope.step(), self.status);
            tracing::warn!(step, "step {step} ended {status} ({code})");
        }
    }
}

/// Ends a task together with whoever waits for it.
pub(super) struct AbortOnDrop(AbortHandle);

impl AbortOnDrop {
    pub(super) fn new<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn outcome(ended: Result<StepEnd, StepFailure>) -> Result<(BatchStatus, ExitStatus, Option<Code>), Lost> {
    match ended {
        Ok(StepEnd::Completed(exit)) => Ok((BatchStatus::Completed, exit, None)),
        Ok(StepEnd::Stopped) => Ok((BatchStatus::Stopped, ExitStatus::new(ExitStatus::STOPPED), None)),
        Ok(StepEnd::Failed { code, exit }) => Ok((BatchStatus::Failed, exit, Some(code))),
        Err(StepFailure::Failed { code, text }) => {
            Ok((BatchStatus::Failed, ExitStatus::failed(text), Some(code)))
        }
        Err(StepFailure::LeaseLost) => Err(Lost),
    }
}

/// Ends a step now, and waits a moment for it to let go of its transaction.
async fn abort<T>(working: JoinHandle<T>) -> Lost {
    working.abort();
    if tokio::time::timeout(LETTING_GO, working).await.is_err() {
        tracing::warn!("a step does not let go of what it does; its transaction ends with its connection");
    }
    Lost
}
