//! One execution, from its first step to its end.

use crate::error::EngineError;
use crate::job::definition::Job;
use crate::job::execution::{Answer, Entry, Lost, Recorder};
use crate::job::launcher::ExecutionEnd;
use crate::job::listener::JobRun;
use crate::job::run_step::{Ending, StepRunner};
use crate::job::scope::{StepScope, StepScopeParts};
use crate::job::step::Step;
use crate::job::stop::StopSignal;
use crate::lease::HeldLease;
use crate::metrics;
use crate::pool::PoolsOnDemand;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::step::{EXECUTED_KEY, RESTART_KEY, STEP_TYPE_KEY, StepRules, VERSION_KEY};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, StepExecutionId};
use tidemill_domain::time::Clock;
use tidemill_store::job::{self, Launched, StepRequest, StepStart};
use tidemill_store::{Store, StoreError};
use tracing::Instrument;

/// An execution that this process runs.
pub(super) struct Runner {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) job: Job,
    pub(super) launched: Launched,
    pub(super) lease: Arc<HeldLease>,
    pub(super) recorder: Recorder,
    pub(super) stop: StopSignal,
    pub(super) pools: PoolsOnDemand,
    /// What the job remembers. Behind a lock, because flows of a split run at the same time.
    pub(super) context: Mutex<ExecutionContext>,
}

/// How a step went, as far as its job is concerned.
pub(super) struct StepOutcome {
    pub(super) status: BatchStatus,
    pub(super) exit: ExitStatus,
    pub(super) code: Option<Code>,
    /// Whether anything ran, or all of it was passed over.
    pub(super) has_run: bool,
    /// This run of it, and what it counted, if it has a row.
    pub(super) row: Option<(StepExecutionId, Counters)>,
    /// What it counted, now or when it ran before; none of flows, whose steps count for themselves.
    pub(super) counters: Option<Counters>,
}

impl StepOutcome {
    /// What is refused before it could run.
    pub(super) fn refused(code: Code, text: String) -> Self {
        let (status, exit) = (BatchStatus::Failed, ExitStatus::failed(text));
        Self { status, exit, code: Some(code), has_run: false, row: None, counters: None }
    }
}

/// How a job ended.
pub(super) struct Ended {
    pub(super) status: BatchStatus,
    pub(super) exit: ExitStatus,
    pub(super) code: Option<Code>,
    /// Whether any step ran.
    pub(super) has_run: bool,
}

impl Ended {
    pub(super) fn completed() -> Self {
        Self { status: BatchStatus::Completed, exit: ExitStatus::completed(), code: None, has_run: false }
    }

    pub(super) fn stopped(self) -> Self {
        Self { status: BatchStatus::Stopped, exit: ExitStatus::new(ExitStatus::STOPPED), ..self }
    }

    pub(super) fn failed(self, text: String) -> Self {
        let code = self.code.or(Some(Code::ExecutionFailed));
        Self { status: BatchStatus::Failed, exit: ExitStatus::failed(text), code, ..self }
    }
}

impl Runner {
    pub(super) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        job: Job,
        launched: Launched,
        lease: HeldLease,
        stop: StopSignal,
        pools: PoolsOnDemand,
    ) -> Self {
        let lease = Arc::new(lease);
        let recorder = Recorder::new(store.clone(), &launched, lease.clone());
        let context = Mutex::new(launched.context.clone());
        Self { store, clock, job, launched, lease, recorder, stop, pools, context }
    }

    /// Runs to the end. The error says that this process may no longer act: nothing was written then.
    pub(super) async fn run(self) -> Result<ExecutionEnd, EngineError> {
        let (recorder, execution) = (self.recorder.clone(), self.launched.execution);
        let lost = EngineError::LeaseLost { key: self.lease.key().clone(), fence: self.lease.fence() };
        // A task of its own: a panic of a listener or a decision must leave a trace, too.
        let panic = match tokio::spawn(self.run_guarded()).await {
            Ok(ended) => return ended,
            Err(panic) => panic,
        };
        let (status, code) = (BatchStatus::Failed, Some(Code::ExecutionFailed));
        let exit = ExitStatus::failed(format!("the job ended in a panic: {}", panic_text(panic)));
        match recorder.end(status, &exit).await {
            Ok(()) => Ok(ExecutionEnd { execution, status, exit, code }),
            Err(Lost) => Err(lost),
        }
    }

    async fn run_guarded(self) -> Result<ExecutionEnd, EngineError> {
        let id = self.launched.execution;
        let span = tracing::info_span!("job", job = self.job.name(), execution.id = %id);
        let runner = Arc::new(self);
        let ended = runner.clone().run_steps().instrument(span).await;
        let lost = || EngineError::LeaseLost { key: runner.lease.key().clone(), fence: runner.lease.fence() };
        let ended = ended.map_err(|Lost| lost());
        match &ended {
            Ok(end) => {
                metrics::execution_ended(runner.job.name(), end.status.as_str());
                tracing::info!(job = runner.job.name(), execution.id = %id, "execution {id} of job {} ended {}", runner.job.name(), end.status);
            }
            Err(error) => {
                metrics::execution_ended(runner.job.name(), "lost");
                tracing::error!(job = runner.job.name(), execution.id = %id, %error, "execution {id} of job {} was lost", runner.job.name());
            }
        }
        ended
    }

    async fn run_steps(self: Arc<Self>) -> Result<ExecutionEnd, Lost> {
        let launched = &self.launched;
        match self.recorder.ask(&Entry::Begin).await? {
            Answer::Recorded(true) => {}
            Answer::Impossible(error) => return self.failed_to_begin(error).await,
            Answer::Recorded(false) | Answer::Step(_) => return Err(self.recorder.refused()),
        }
        let mut run = JobRun {
            job: self.job.name().to_owned(),
            execution: launched.execution,
            parameters: launched.parameters.clone(),
            status: BatchStatus::Started,
            exit: ExitStatus::new(ExitStatus::UNKNOWN),
        };
        for listener in self.job.listeners() {
            listener.before_job(&run);
        }
        let flow = self.job.step_flow();
        let Ended { status, mut exit, code, has_run } =
            if flow.is_plain() { self.in_order(flow).await? } else { self.along(flow).await? };
        if !has_run && status == BatchStatus::Completed {
            exit = exit.and(ExitStatus::new(ExitStatus::NOOP).describe("all steps were completed before"));
        }
        run.status = status;
        run.exit = exit;
        for listener in self.job.listeners() {
            listener.after_job(&run);
        }
        self.recorder.end(status, &run.exit).await?;
        Ok(ExecutionEnd { execution: run.execution, status, exit: run.exit, code })
    }

    async fn failed_to_begin(&self, error: StoreError) -> Result<ExecutionEnd, Lost> {
        let (execution, status, code) = (self.launched.execution, BatchStatus::Failed, Some(error.code()));
        let exit = ExitStatus::failed(ItemError::from(error).text());
        self.recorder.end(status, &exit).await?;
        Ok(ExecutionEnd { execution, status, exit, code })
    }

    pub(super) fn context(&self) -> MutexGuard<'_, ExecutionContext> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step: whether it runs is decided by its history.
    pub(super) async fn step(&self, step: &Step) -> Result<StepOutcome, Lost> {
        match self.start(step.name(), step.type_word(), step.rules()).await? {
            Answer::Step(StepStart::Run { id, mut context, is_resumed }) => {
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
                self.run_step(step, scope).await
            }
            other => self.not_run(step.name(), other),
        }
    }

    /// Asks whether a step runs.
    pub(super) async fn start(&self, name: &str, type_word: &str, rules: StepRules) -> Result<Answer, Lost> {
        let seed = step_seed(type_word);
        let request = StepRequest {
            execution: self.launched.execution,
            instance: self.launched.instance,
            lease: &self.launched.lease,
            fence: self.launched.granted.fence,
            step: name,
            rules,
            seed: &seed,
        };
        self.recorder.ask(&Entry::StartStep(&request)).await
    }

    /// A step that does not run: it did before, or may not.
    pub(super) fn not_run(&self, name: &str, answer: Answer) -> Result<StepOutcome, Lost> {
        match answer {
            Answer::Step(StepStart::Skip(record)) => {
                tracing::info!(step = name, "step {name} was {} before and is passed over", record.status);
                let (status, exit, counters) = (record.status, record.exit, Some(record.counters));
                Ok(StepOutcome { status, exit, code: None, has_run: false, row: None, counters })
            }
            Answer::Step(StepStart::Refused(refusal)) => {
                Ok(StepOutcome::refused(refusal.code(), format!("step {name:?}: {refusal}")))
            }
            Answer::Impossible(error) => {
                let code = error.code();
                let text = format!("step {name:?}: {}", ItemError::from(error).text());
                Ok(StepOutcome::refused(code, text))
            }
            Answer::Step(StepStart::Fenced | StepStart::Run { .. }) | Answer::Recorded(_) => {
                Err(self.recorder.refused())
            }
        }
    }

    async fn run_step(&self, step: &Step, scope: StepScope) -> Result<StepOutcome, Lost> {
        let (lease, stop, clock) = (self.lease.clone(), self.stop.clone(), self.clock.clone());
        let runner = StepRunner { lease, stop, clock, pools: self.pools.clone() };
        let ending = runner.run(step, &scope, Counters::default()).await?;
        self.end_step(step, &scope, ending).await
    }

    async fn end_step(
        &self,
        step: &Step,
        scope: &StepScope,
        mut ending: Ending,
    ) -> Result<StepOutcome, Lost> {
        let job_context = {
            let mut remembered = self.context();
            let before = remembered.clone();
            ending.tell(step, scope, &mut remembered);
            match remembered.to_text() {
                Ok(text) if *remembered != before => Some(text),
                Ok(_) => None,
                Err(error) => {
                    *remembered = before;
                    (ending.status, ending.code) = (BatchStatus::Failed, Some(Code::ContextTooLarge));
                    ending.exit = ending.exit.and(ExitStatus::failed(error.to_string()));
                    None
                }
            }
        };
        let end = job::StepEnd {
            id: scope.step_execution(),
            execution: scope.execution(),
            lease: &self.launched.lease,
            fence: self.launched.granted.fence,
            status: ending.status,
            exit: &ending.exit,
            counters: &ending.counters,
        };
        self.recorder.record(&Entry::EndStep { end: &end, job_context: job_context.as_deref() }).await?;
        ending.log(scope);
        let Ending { status, exit, code, counters, .. } = ending;
        let row = Some((scope.step_execution(), counters));
        Ok(StepOutcome { status, exit, code, has_run: true, row, counters: Some(counters) })
    }
}

/// What every step remembers from its start on.
pub(super) fn step_seed(type_word: &str) -> ExecutionContext {
    let mut seed = ExecutionContext::new();
    seed.put(VERSION_KEY, env!("CARGO_PKG_VERSION"));
    seed.put(STEP_TYPE_KEY, type_word);
    seed.put(EXECUTED_KEY, true);
    seed
}

/// What a task that panicked has to say.
pub(super) fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
