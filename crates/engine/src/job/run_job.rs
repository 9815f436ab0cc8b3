//! One execution, from its first step to its end: in sequence, or by transitions.

use crate::job::graph::{Decide, Decision, Node, StepFlow};
use crate::job::run_step::{PartResult, Start, panic_text};
use crate::job::{Execution, ExecutionLost, JobRun, Outcome, StepFailure};
use crate::{BoxFuture, EngineError, metrics};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
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
    fn completed() -> Self {
        Self::of(Outcome::completed(ExitStatus::completed()))
    }

    fn stopped() -> Self {
        Self::of(Outcome::stopped())
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
        let began = self.resources.clock.monotonic();
        let ended = self.run_flow().instrument(self.span.clone()).await;
        match &ended {
            Ok(end) => {
                if end.status == BatchStatus::Failed {
                    self.span.record("otel.status_code", "ERROR");
                }
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
        if outcome.is_completed() && !self.has_begun_step.load(Relaxed) {
            let noop = ExitStatus::new(ExitStatus::NOOP).describe(self.nothing_to_do());
            outcome.exit = outcome.exit.and(noop);
        }
        run.status = outcome.status;
        run.exit = outcome.exit.clone();
        self.job.listeners.iter().for_each(|listener| listener.after_job(&run));
        self.end(outcome).await
    }

    async fn end(&self, outcome: Outcome) -> Result<ExecutionEnd, ExecutionLost> {
        let status = self.record_end(&outcome).await?;
        let Outcome { exit, code, .. } = outcome;
        Ok(ExecutionEnd { execution: self.launched.execution, status, exit, code })
    }

    /// In sequence, until a step does not complete.
    async fn in_order(self: &Arc<Self>, flow: &StepFlow) -> Result<PartResult, ExecutionLost> {
        let mut walk = PartResult::completed();
        for node in &flow.nodes {
            if self.resources.stop.is_asked() {
                return Ok(PartResult::stopped());
            }
            walk = self.run_node(node).await?;
            if !walk.outcome.is_completed() {
                break;
            }
        }
        Ok(walk)
    }

    /// By transitions. The exit code is that of the end, and of the ends of the flows within a split.
    async fn along(self: &Arc<Self>, flow: &StepFlow) -> Result<PartResult, ExecutionLost> {
        let rules = flow.rules();
        let mut ends = ExitStatus::new(ExitStatus::EXECUTING);
        let mut last: Option<PartResult> = None;
        let mut state = rules.start().map(str::to_owned);
        while let Some(name) = state.take() {
            if self.resources.stop.is_asked() {
                return Ok(PartResult::stopped());
            }
            let code = match flow.node(&name) {
                Some(Node::Decision(_, decide)) => match self.decided(decide.as_ref(), last.as_ref()) {
                    Ok(code) => code,
                    Err(error) => return Ok(broken(format!("decision {name:?}: {error}"))),
                },
                Some(node) => {
                    let is_split = matches!(node, Node::Split(..));
                    // A failure that leads to a split stays one: a restart repeats it.
                    if let Some(before) = last.take().filter(|_| !is_split) {
                        self.abandon(&before).await?;
                    }
                    let mut part = self.run_node(node).await?;
                    if part.is_broken {
                        return Ok(part);
                    }
                    if part.outcome.status == BatchStatus::Stopped {
                        return Ok(PartResult::stopped());
                    }
                    if is_split {
                        // What follows asks how it ended as a whole.
                        let whole = part.outcome.status.as_str().to_owned();
                        ends = ends.and(ExitStatus::new(mem::replace(&mut part.outcome.exit.code, whole)));
                    }
                    last.insert(part).outcome.exit.code.clone()
                }
                None => return Ok(broken(format!("there is no step {name:?}"))),
            };
            match rules.after(&name, &code) {
                Some(Target::To(next)) => state = Some(next),
                Some(Target::Stop(next)) if self.has_stopped_before(last.as_ref()) => state = next,
                // It has stopped behind this step before, although another one has run again since.
                Some(Target::Stop(next)) if last.as_ref().is_some_and(|last| last.is_passed_over) => {
                    if next.is_some() {
                        ends = ends.and(ExitStatus::new(ExitStatus::STOPPED));
                    }
                    state = next;
                }
                Some(Target::Stop(next)) => {
                    if let (Some(_), Some(last)) = (next, last) {
                        self.abandon(&last).await?;
                    }
                    return Ok(PartResult::of(Outcome::stopped().and(ends)));
                }
                Some(Target::End(code)) => {
                    ends =
                        ends.and(ExitStatus::new(code.unwrap_or_else(|| ExitStatus::COMPLETED.to_owned())));
                }
                Some(Target::Fail) => return Ok(failed(last, ends)),
                Some(Target::Next) | None => {
                    let part =
                        broken(format!("no transition of step {name:?} matches the exit code {code:?}"));
                    // As in Spring Batch, this is an end with FAILED where no transition matches FAILED either.
                    let is_end = rules.after(&name, ExitStatus::FAILED).is_none();
                    return Ok(if is_end { PartResult::of(part.outcome.and(ends)) } else { part });
                }
            }
        }
        Ok(PartResult::of(Outcome::completed(ExitStatus::completed().and(ends))))
    }

    fn decided(&self, decide: &Decide, last: Option<&PartResult>) -> Result<String, ItemError> {
        let job_context = self.context().clone();
        decide(&Decision {
            parameters: &self.launched.parameters,
            job_context: &job_context,
            last: last.map(|last| (last.outcome.status, &last.outcome.exit)),
            counters: last.and_then(|last| last.counters.as_ref()),
        })
    }

    /// Whether a stop was already done by an earlier execution: this one has done nothing yet, or comes from what was
    /// abandoned then.
    fn has_stopped_before(&self, last: Option<&PartResult>) -> bool {
        let is_abandoned = last.is_some_and(|last| last.outcome.status == BatchStatus::Abandoned);
        is_abandoned || !self.has_begun_step.load(Relaxed)
    }

    /// Boxed, because flows contain flows.
    fn run_node<'a>(self: &'a Arc<Self>, node: &'a Node) -> BoxFuture<'a, Result<PartResult, ExecutionLost>> {
        Box::pin(async move {
            match node {
                Node::Step(step) => self.run_step(step).await,
                Node::Flow(name, flow) => self.inner_flow(name, flow).await,
                Node::Split(name, flows) => self.split(name, flows).await,
                // Decisions are made in `along`, which knows the previous step.
                Node::Decision(name, _) => Ok(broken(format!("the decision {name:?} has no previous step"))),
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
        Ok(PartResult { id: Some(id), ..PartResult::of(outcome) })
    }

    /// Concurrent flows; the worst result counts.
    async fn split(self: &Arc<Self>, name: &str, flows: &[StepFlow]) -> Result<PartResult, ExecutionLost> {
        let mut running = JoinSet::new();
        for flow in flows {
            let (execution, flow) = (self.clone(), flow.clone());
            running.spawn(async move { execution.along(&flow).await }.in_current_span());
        }
        let mut all = PartResult::completed();
        let mut is_lost = false;
        while let Some(ended) = running.join_next().await {
            match ended {
                // One flow that cannot go on ends the flow around the split too.
                Ok(Ok(part)) if part.is_broken => all = part,
                Ok(Ok(_)) if all.is_broken => {}
                Ok(Ok(PartResult { outcome, .. })) => {
                    all.outcome = Outcome {
                        status: all.outcome.status.upgrade_to(outcome.status),
                        exit: all.outcome.exit.and(outcome.exit),
                        code: all.outcome.code.or(outcome.code),
                    };
                }
                Ok(Err(ExecutionLost)) => is_lost = true,
                Err(panic) => {
                    all = broken(format!("in split {name:?}: {}", panic_text(panic)));
                }
            }
        }
        if is_lost { Err(ExecutionLost) } else { Ok(all) }
    }

    /// Abandons a failed step whose failure had a transition: a restart does not repeat it.
    async fn abandon(&self, part: &PartResult) -> Result<(), ExecutionLost> {
        match part.id {
            Some(id) if part.outcome.status == BatchStatus::Failed => {
                let outcome = Outcome { status: BatchStatus::Abandoned, ..part.outcome.clone() };
                self.record_step_end(id, &outcome, &part.counters.unwrap_or_default(), None).await
            }
            _ => Ok(()),
        }
    }
}

/// A flow that cannot go on.
fn broken(text: String) -> PartResult {
    PartResult::broken(Code::ExecutionFailed, text)
}

/// A flow that a transition has failed, for the reason of its last step.
fn failed(last: Option<PartResult>, ends: ExitStatus) -> PartResult {
    let (code, text) =
        last.map(|last| (last.outcome.code, last.outcome.exit.description)).unwrap_or_default();
    PartResult::of(Outcome::failed(code.unwrap_or(Code::ExecutionFailed), text).and(ends))
}
