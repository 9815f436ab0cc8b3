//! One execution, from its first step to its end: in sequence, or by transitions.

use crate::job::graph::{Decision, Node, StepFlow};
use crate::job::run_step::{PartResult, Start, panic_text};
use crate::job::{Execution, ExecutionLost, JobRun, Outcome, StepFailure};
use crate::{BoxFuture, EngineError, metrics};
use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionId, ExitStatus};
use tokio::task::JoinSet;
use tracing::Instrument;

/// How an execution ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionEnd {
    /// Its id.
    pub execution: ExecutionId,
    /// The status.
    pub status: BatchStatus,
    /// The exit status.
    pub exit: ExitStatus,
    /// The error code, if it failed.
    pub code: Option<Code>,
}

impl PartResult {
    /// The result of a flow before its first step.
    fn new() -> Self {
        Self::of(Outcome::completed(ExitStatus::completed()))
    }

    fn stopped(self) -> Self {
        Self { outcome: Outcome::stopped(), ..self }
    }

    fn failed(self, text: String) -> Self {
        let code = self.outcome.code.unwrap_or(Code::ExecutionFailed);
        Self { outcome: Outcome::failed(code, text), ..self }
    }
}

impl Execution {
    /// The error means that this process lost the execution: nothing was written then.
    pub(super) async fn run(self) -> Result<ExecutionEnd, EngineError> {
        let execution = Arc::new(self);
        // In a task, so that a panic of a listener or a decision is recorded too.
        let ended = match tokio::spawn(execution.clone().run_logged()).await {
            Ok(ended) => ended,
            Err(panic) => {
                let text = format!("the job ended in a panic: {}", panic_text(panic));
                execution.end(Outcome::failed(Code::ExecutionFailed, text)).await
            }
        };
        ended.map_err(|ExecutionLost| execution.resources.lease.lost_error())
    }

    async fn run_logged(self: Arc<Self>) -> Result<ExecutionEnd, ExecutionLost> {
        let (job, id) = (self.job.name(), self.launched.execution);
        let span = tracing::info_span!("job", job, execution.id = %id);
        let began = self.resources.clock.monotonic();
        let ended = self.run_flow().instrument(span).await;
        match &ended {
            Ok(end) => {
                metrics::job_executions(job, end.status.as_str()).increment(1);
                let took = self.resources.clock.monotonic().since(began);
                metrics::job_duration(job, end.status.as_str()).record(took);
                tracing::info!(job, execution.id = %id, "execution {id} of job {job} ended {}", end.status);
            }
            Err(ExecutionLost) => {
                metrics::job_executions(job, "lost").increment(1);
                let error = self.resources.lease.lost_error();
                tracing::error!(job, execution.id = %id, %error, "execution {id} of job {job} was lost");
            }
        }
        ended
    }

    async fn run_flow(self: &Arc<Self>) -> Result<ExecutionEnd, ExecutionLost> {
        match self.record_begin().await {
            Ok(true) => {}
            Ok(false) => return Err(self.refused()),
            Err(StepFailure::LeaseLost) => return Err(ExecutionLost),
            Err(StepFailure::Failed { code, text }) => return self.end(Outcome::failed(code, text)).await,
        }
        let mut run = JobRun {
            job: self.job.name().to_owned(),
            execution: self.launched.execution,
            parameters: self.launched.parameters.clone(),
            status: BatchStatus::Started,
            exit: ExitStatus::new(ExitStatus::UNKNOWN),
        };
        self.job.listeners.iter().for_each(|listener| listener.before_job(&run));
        let flow = &self.job.flow;
        let walk = if flow.is_plain() { self.in_order(flow).await? } else { self.along(flow).await? };
        let mut outcome = walk.outcome;
        if !walk.has_run && outcome.is_completed() {
            let noop = ExitStatus::new(ExitStatus::NOOP).describe(self.nothing_to_do());
            outcome.exit = outcome.exit.and(noop);
        }
        run.status = outcome.status;
        run.exit = outcome.exit.clone();
        self.job.listeners.iter().for_each(|listener| listener.after_job(&run));
        self.end(outcome).await
    }

    async fn end(&self, outcome: Outcome) -> Result<ExecutionEnd, ExecutionLost> {
        self.record_end(&outcome).await?;
        let Outcome { status, exit, code } = outcome;
        Ok(ExecutionEnd { execution: self.launched.execution, status, exit, code })
    }

    /// In sequence, until a step does not complete.
    async fn in_order(self: &Arc<Self>, flow: &StepFlow) -> Result<PartResult, ExecutionLost> {
        let mut walk = PartResult::new();
        for node in &flow.nodes {
            if self.resources.stop.is_asked() {
                return Ok(walk.stopped());
            }
            let part = self.run_node(node).await?;
            walk.has_run |= part.has_run;
            walk.outcome = part.outcome;
            if !walk.outcome.is_completed() {
                break;
            }
        }
        Ok(walk)
    }

    /// By transitions.
    async fn along(self: &Arc<Self>, flow: &StepFlow) -> Result<PartResult, ExecutionLost> {
        let rules = flow.rules();
        let mut walk = PartResult::new();
        let mut last: Option<PartResult> = None;
        let mut state = rules.start().map(str::to_owned);
        while let Some(name) = state.take() {
            if self.resources.stop.is_asked() {
                return Ok(walk.stopped());
            }
            let code = match flow.node(&name) {
                Some(Node::Decision(_, decide)) => {
                    let job_context = self.context().clone();
                    let decision = Decision {
                        parameters: &self.launched.parameters,
                        job_context: &job_context,
                        last: last.as_ref().map(|last| (last.outcome.status, &last.outcome.exit)),
                        counters: last.as_ref().and_then(|last| last.counters.as_ref()),
                    };
                    match decide(&decision) {
                        Ok(code) => code,
                        Err(error) => return Ok(walk.failed(format!("decision {name:?}: {error}"))),
                    }
                }
                Some(node) => {
                    if let Some(before) = last.take() {
                        self.abandon(before).await?;
                    }
                    let part = self.run_node(node).await?;
                    walk.has_run |= part.has_run;
                    if part.outcome.status == BatchStatus::Stopped {
                        return Ok(walk.stopped());
                    }
                    last.insert(part).outcome.exit.code.clone()
                }
                None => return Ok(walk.failed(format!("there is no step {name:?}"))),
            };
            match rules.after(&name, &code) {
                Some(Target::To(next)) => state = Some(next),
                // Right after a restart, the stop was already done.
                Some(Target::Stop(next)) if !walk.has_run => state = next,
                Some(Target::Stop(_)) => return Ok(walk.stopped()),
                Some(Target::End(code)) => {
                    let code = code.unwrap_or_else(|| ExitStatus::COMPLETED.to_owned());
                    walk.outcome.exit = ExitStatus::new(code);
                    return Ok(walk);
                }
                Some(Target::Fail) => {
                    let outcome = last.map(|last| last.outcome);
                    walk.outcome.code = outcome.as_ref().and_then(|outcome| outcome.code);
                    return Ok(
                        walk.failed(outcome.map(|outcome| outcome.exit.description).unwrap_or_default())
                    );
                }
                Some(Target::Next) | None => {
                    let text = format!("no transition of step {name:?} matches the exit code {code:?}");
                    return Ok(walk.failed(text));
                }
            }
        }
        Ok(walk)
    }

    /// Boxed, because flows contain flows.
    fn run_node<'a>(self: &'a Arc<Self>, node: &'a Node) -> BoxFuture<'a, Result<PartResult, ExecutionLost>> {
        Box::pin(async move {
            match node {
                Node::Step(step) => self.run_step(step).await,
                Node::Flow(name, flow) => self.inner_flow(name, flow).await,
                Node::Split(name, flows) => self.split(name, flows).await,
                // Decisions are made in `along`, which knows the previous step.
                Node::Decision(name, _) => {
                    let text = format!("the decision {name:?} has no previous step");
                    Ok(PartResult::of(Outcome::failed(Code::ExecutionFailed, text)))
                }
            }
        })
    }

    /// A flow with its own row.
    async fn inner_flow(self: &Arc<Self>, name: &str, flow: &StepFlow) -> Result<PartResult, ExecutionLost> {
        let id = match self.start_step(name, "flow", StepRules::default()).await? {
            Start::Run(id, ..) => id,
            Start::Not(result) => return Ok(PartResult { counters: None, ..result }),
        };
        let outcome = self.along(flow).await?.outcome;
        self.record_step_end(id, &outcome, &Counters::default(), None).await?;
        Ok(PartResult { has_run: true, id: Some(id), ..PartResult::of(outcome) })
    }

    /// Concurrent flows; the worst result counts.
    async fn split(self: &Arc<Self>, name: &str, flows: &[StepFlow]) -> Result<PartResult, ExecutionLost> {
        let mut running = JoinSet::new();
        for flow in flows {
            let (execution, flow) = (self.clone(), flow.clone());
            running.spawn(async move { execution.along(&flow).await });
        }
        let mut all = PartResult::new();
        let mut is_lost = false;
        while let Some(ended) = running.join_next().await {
            match ended {
                Ok(Ok(PartResult { outcome, has_run, .. })) => {
                    all.has_run |= has_run;
                    all.outcome = Outcome {
                        status: all.outcome.status.upgrade_to(outcome.status),
                        exit: all.outcome.exit.and(outcome.exit),
                        code: all.outcome.code.or(outcome.code),
                    };
                }
                Ok(Err(ExecutionLost)) => is_lost = true,
                Err(panic) => all = all.failed(format!("in split {name:?}: {}", panic_text(panic))),
            }
        }
        if is_lost {
            return Err(ExecutionLost);
        }
        // Transitions after a split match its status, not the exit code of one of its flows.
        all.outcome.exit.code = all.outcome.status.as_str().to_owned();
        Ok(all)
    }

    /// Abandons a failed step whose failure had a transition: a restart does not repeat it.
    async fn abandon(&self, part: PartResult) -> Result<(), ExecutionLost> {
        match part.id {
            Some(id) if part.outcome.status == BatchStatus::Failed => {
                let outcome = Outcome { status: BatchStatus::Abandoned, ..part.outcome };
                self.record_step_end(id, &outcome, &part.counters.unwrap_or_default(), None).await
            }
            _ => Ok(()),
        }
    }
}
