//! One step: decides whether it starts, runs its body in a task, and records its end.

use crate::job::commit::after_abort;
use crate::job::{
    CommittedState, Execution, ExecutionLost, Outcome, Step, StepFailure, StepResources, StepRun, StepScope,
    StepScopeParts, StepTask, Urgency, pool_units,
};
use crate::{locked, metrics};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::job::step::{RESTART_KEY, StepRules};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, StepExecutionId};
use tidemill_store::job::StepStart;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::Instrument;
use tracing::field::Empty;

/// How long an aborted step may take to end.
const LETTING_GO: Duration = Duration::from_secs(2);

/// The result of a step, an inner flow or a whole flow.
pub(super) struct PartResult {
    pub(super) outcome: Outcome,
    /// An earlier execution has done it.
    pub(super) is_passed_over: bool,
    /// The flow ends here with this failure, whatever transitions there are.
    pub(super) is_broken: bool,
    /// Its row, if it got one in this execution.
    pub(super) id: Option<StepExecutionId>,
    /// Counters of a step, now or in an earlier run; none for flows.
    pub(super) counters: Option<Counters>,
}

impl PartResult {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self { outcome, is_passed_over: false, is_broken: false, id: None, counters: None }
    }

    pub(super) fn broken(code: Code, text: String) -> Self {
        Self { is_broken: true, ..Self::of(Outcome::failed(code, text)) }
    }
}

pub(super) enum Start {
    Run(StepExecutionId, ExecutionContext, bool),
    /// It ran before, or may not run.
    Not(PartResult),
}

impl Execution {
    pub(super) async fn run_step(&self, step: &Step) -> Result<PartResult, ExecutionLost> {
        let (id, mut context, is_resumed) =
            match self.start_step(step.name(), step.type_word(), step.rules).await? {
                Start::Run(id, context, is_resumed) => (id, context, is_resumed),
                Start::Not(result) => return Ok(result),
            };
        if is_resumed {
            context.put(RESTART_KEY, true);
        }
        let scope = StepScope::new(StepScopeParts {
            store: self.store.clone(),
            job: self.job.name().to_owned(),
            step: step.name().to_owned(),
            instance: self.launched.instance,
            execution: self.launched.execution,
            step_execution: id,
            parameters: self.launched.parameters.clone(),
            job_context: self.context().clone(),
            context,
            fingerprint: self.job.definition().map(str::to_owned),
            is_resumed,
            granted: OnceLock::new(),
        });
        let began = self.resources.clock.monotonic();
        let ended = run_body(&self.resources, step, &scope, Counters::default()).await?;
        let ended = self.end_step(step, &scope, ended).await?;
        let took = self.resources.clock.monotonic().since(began);
        metrics::step_duration(scope.job(), step.name(), ended.outcome.status.as_str()).record(took);
        Ok(ended)
    }

    /// Decides whether a step, or a flow recorded as one, runs.
    pub(super) async fn start_step(
        &self,
        name: &str,
        type_word: &str,
        rules: StepRules,
    ) -> Result<Start, ExecutionLost> {
        let not = match self.record_step_start(name, type_word, rules).await {
            Ok(StepStart::Run { id, context, is_resumed }) => {
                self.has_begun_step.store(true, Relaxed);
                return Ok(Start::Run(id, context, is_resumed));
            }
            Ok(StepStart::Skip(record)) => {
                self.note_skipped(&record);
                tracing::info!(step = name, "step {name} was {} before and is passed over", record.status);
                let outcome = Outcome { status: record.status, exit: record.exit, code: None };
                let counters = Some(record.counters);
                PartResult { counters, is_passed_over: true, ..PartResult::of(outcome) }
            }
            Ok(StepStart::Refused(refusal)) => {
                PartResult::broken(refusal.code(), format!("step {name:?}: {refusal}"))
            }
            Ok(StepStart::Fenced) => return Err(self.refused()),
            Err(StepFailure::Failed { code, text }) => {
                PartResult::broken(code, format!("step {name:?}: {text}"))
            }
            Err(StepFailure::LeaseLost) => return Err(ExecutionLost),
        };
        Ok(Start::Not(not))
    }

    async fn end_step(
        &self,
        step: &Step,
        scope: &StepScope,
        mut ended: EndedStep,
    ) -> Result<PartResult, ExecutionLost> {
        let _one_at_a_time = self.ending.lock().await;
        let job_context = {
            let mut remembered = self.context();
            let before = remembered.clone();
            ended.call_listeners(step, scope, &mut remembered);
            match remembered.to_text() {
                Ok(text) if *remembered != before => Some(text),
                Ok(_) => None,
                Err(error) => {
                    *remembered = before;
                    let Outcome { status, exit, code } = &mut ended.outcome;
                    (*status, *code) = (BatchStatus::Failed, Some(Code::ContextTooLarge));
                    *exit = exit.clone().and(ExitStatus::failed(error.to_string()));
                    None
                }
            }
        };
        let EndedStep { outcome, counters, .. } = &ended;
        let id = scope.step_execution();
        self.record_step_end(id, outcome, counters, job_context.as_deref()).await?;
        ended.log(scope);
        let EndedStep { outcome, counters, .. } = ended;
        Ok(PartResult { id: Some(id), counters: Some(counters), ..PartResult::of(outcome) })
    }
}

pub(super) struct EndedStep {
    pub(super) outcome: Outcome,
    pub(super) counters: Counters,
    pub(super) context: ExecutionContext,
}

impl EndedStep {
    /// Calls the listeners, which may change the exit status and the job context.
    pub(super) fn call_listeners(
        &mut self,
        step: &Step,
        scope: &StepScope,
        job_context: &mut ExecutionContext,
    ) {
        for listener in &step.listeners {
            let mut run = StepRun {
                scope,
                status: self.outcome.status,
                exit: &self.outcome.exit,
                counters: &self.counters,
                context: &self.context,
                job_context,
            };
            if let Some(exit) = listener.after_step(&mut run) {
                self.outcome.exit = self.outcome.exit.clone().and(exit);
            }
        }
    }

    /// Logs only the code: the reason may contain data of items. It is recorded.
    pub(super) fn log(&self, scope: &StepScope) {
        if let Some(code) = self.outcome.code {
            let (step, status) = (scope.step(), self.outcome.status);
            tracing::warn!(step, "step {step} ended {status} ({code})");
        }
    }
}

/// Runs the body of a step with its pool units. The step may be a partition of another process's job.
pub(super) async fn run_body(
    resources: &StepResources,
    step: &Step,
    scope: &StepScope,
    counters: Counters,
) -> Result<EndedStep, ExecutionLost> {
    let Some(pool_use) = &step.pool else { return work(resources, step, scope, counters).await };
    match pool_units::take(resources, pool_use, scope).await? {
        Ok(hold) => {
            let ended = work(resources, step, scope, counters).await;
            pool_units::give_back(hold, scope, ended.as_ref().ok().map(|ended| &ended.outcome)).await;
            ended
        }
        Err(outcome) => Ok(EndedStep { outcome, counters, context: context_at_start(step, scope) }),
    }
}

async fn work(
    resources: &StepResources,
    step: &Step,
    scope: &StepScope,
    counters: Counters,
) -> Result<EndedStep, ExecutionLost> {
    let context = context_at_start(step, scope);
    let mut task = StepTask::new(scope.clone(), counters, context, resources.clone());
    let progress = task.progress.clone();
    let span = tracing::info_span!(
        "step",
        step = scope.step(),
        step.id = %scope.step_execution(),
        otel.status_code = Empty
    );
    let step = step.clone();
    // In a task, so that a panic or an abort does not end the job.
    let mut working = JoinSet::new();
    working.spawn(
        async move {
            let ended = step.body.run(&mut task).await;
            (ended, task.counters, task.context)
        }
        .instrument(span.clone()),
    );
    let ended = tokio::select! {
        ended = working.join_next() => ended,
        // A commit in progress is awaited: it ends the chunk, and the step with it.
        () = resources.stop.asked(Urgency::Now) => {
            let is_committing = locked(&progress).committing.is_some();
            if is_committing { timeout(LETTING_GO, working.join_next()).await.ok().flatten() } else { None }
        }
        () = resources.lease.lost() => {
            abort(working).await;
            return Err(ExecutionLost);
        }
    };
    let (ended, counters, context) = match ended {
        Some(Ok(ended)) => ended,
        Some(Err(panic)) => {
            let text = format!("the step ended in a panic: {}", panic_text(panic));
            let CommittedState { counters, context, .. } = locked(&progress).clone();
            (Ok(Outcome::failed(Code::ExecutionFailed, text)), counters, context)
        }
        None => {
            abort(working).await;
            // An aborted task runs until it waits.
            locked(&progress).is_closed = true;
            let state = locked(&progress).clone();
            let (counters, context) =
                after_abort(scope, &resources.lease, state).await.map_err(StepFailure::lost)?;
            (Ok(Outcome::stopped().because("stopped in the middle of a chunk")), counters, context)
        }
    };
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(StepFailure::Failed { code, text }) => Outcome::failed(code, text),
        Err(StepFailure::LeaseLost) => return Err(ExecutionLost),
    };
    if outcome.status == BatchStatus::Failed {
        span.record("otel.status_code", "ERROR");
    }
    Ok(EndedStep { outcome, counters, context })
}

/// Calls the listeners, and returns the initial context.
fn context_at_start(step: &Step, scope: &StepScope) -> ExecutionContext {
    let mut context = scope.context().clone();
    step.listeners.iter().for_each(|listener| listener.before_step(scope, &mut context));
    context
}

/// Aborts a step, and waits a moment for its transaction to end.
async fn abort<T: 'static>(mut working: JoinSet<T>) {
    if timeout(LETTING_GO, working.shutdown()).await.is_err() {
        tracing::warn!("a step does not let go of what it does; its transaction ends with its connection");
    }
}

pub(super) fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
