//! From step to step: in order, or as the exit codes say; flows within flows, and flows at the same time.

use super::execution::{Answer, Entry, Lost};
use super::run_job::{Ended, Runner, StepOutcome, panic_text};
use crate::job::graph::{Decision, Node, StepFlow};
use crate::job::step::BoxFuture;
use std::sync::Arc;
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{BatchStatus, Counters, ExitStatus, StepExecutionId};
use tidemill_store::job::{StepEnd, StepStart};
use tokio::task::JoinSet;

impl Runner {
    /// One after the other, until one does not complete.
    pub(super) async fn in_order(self: &Arc<Self>, flow: &StepFlow) -> Result<Ended, Lost> {
        let mut ended = Ended::completed();
        for node in flow.nodes() {
            if self.stop.is_asked() {
                return Ok(ended.stopped());
            }
            let outcome = self.node(node).await?;
            ended.has_run |= outcome.has_run;
            ended.status = outcome.status;
            ended.exit = outcome.exit;
            ended.code = outcome.code;
            if ended.status != BatchStatus::Completed {
                break;
            }
        }
        Ok(ended)
    }

    /// From one to the next as the exit codes say.
    pub(super) async fn along(self: &Arc<Self>, flow: &StepFlow) -> Result<Ended, Lost> {
        let rules = flow.rules();
        let mut ended = Ended::completed();
        let mut last: Option<StepOutcome> = None;
        let mut state = rules.start().map(str::to_owned);
        while let Some(name) = state.take() {
            if self.stop.is_asked() {
                return Ok(ended.stopped());
            }
            let said = match flow.node(&name) {
                Some(Node::Decision(_, decide)) => {
                    let remembered = self.context().clone();
                    let decision = Decision {
                        parameters: &self.launched.parameters,
                        job_context: &remembered,
                        last: last.as_ref().map(|last| (last.status, &last.exit)),
                        counters: last.as_ref().and_then(|last| last.counters.as_ref()),
                    };
                    match decide(&decision) {
                        Ok(said) => said,
                        Err(error) => return Ok(ended.failed(format!("decision {name:?}: {error}"))),
                    }
                }
                Some(node) => {
                    // A step that failed and whose failure led on is done with: a restart does not repeat it.
                    if let Some(failed) = last.take() {
                        self.abandon(&failed).await?;
                    }
                    let outcome = self.node(node).await?;
                    ended.has_run |= outcome.has_run;
                    if outcome.status == BatchStatus::Stopped {
                        return Ok(ended.stopped());
                    }
                    let said = outcome.exit.code.clone();
                    last = Some(outcome);
                    said
                }
                None => return Ok(ended.failed(format!("there is no step {name:?}"))),
            };
            match rules.after(&name, &said) {
                Some(Target::To(next)) => state = Some(next),
                // Right after a restart the stop is behind us.
                Some(Target::Stop(next)) if !ended.has_run => state = next,
                Some(Target::Stop(_)) => return Ok(ended.stopped()),
                Some(Target::End(code)) => {
                    ended.exit = ExitStatus::new(code.unwrap_or_else(|| ExitStatus::COMPLETED.to_owned()));
                    return Ok(ended);
                }
                Some(Target::Fail) => {
                    let (text, code) =
                        last.map(|last| (last.exit.description, last.code)).unwrap_or_default();
                    ended.code = code;
                    return Ok(ended.failed(text));
                }
                Some(Target::Next) | None => {
                    let text = format!("no transition of step {name:?} matches the exit code {said:?}");
                    return Ok(ended.failed(text));
                }
            }
        }
        Ok(ended)
    }

    fn node<'a>(self: &'a Arc<Self>, node: &'a Node) -> BoxFuture<'a, Result<StepOutcome, Lost>> {
        Box::pin(async move {
            match node {
                Node::Step(step) => self.step(step).await,
                Node::Flow(name, flow) => self.flow_step(name, flow).await,
                Node::Split(name, flows) => self.split(name, flows).await,
                // Decisions are made where it is known what came before.
                Node::Decision(name, _) => {
                    let text = format!("the decision {name:?} has nothing to decide about");
                    Ok(StepOutcome::refused(tidemill_domain::code::Code::ExecutionFailed, text))
                }
            }
        })
    }

    /// A flow with a row of its own.
    async fn flow_step(self: &Arc<Self>, name: &str, flow: &StepFlow) -> Result<StepOutcome, Lost> {
        let id = match self.start(name, "flow", StepRules::default()).await? {
            Answer::Step(StepStart::Run { id, .. }) => id,
            other => return Ok(StepOutcome { counters: None, ..self.not_run(name, other)? }),
        };
        let ended = self.along(flow).await?;
        let counters = Counters::default();
        self.record_end(id, ended.status, &ended.exit, &counters).await?;
        let Ended { status, exit, code, .. } = ended;
        let row = Some((id, counters));
        Ok(StepOutcome { status, exit, code, has_run: true, row, counters: None })
    }

    /// Flows at the same time; as the worst of them ends, so does the whole.
    async fn split(self: &Arc<Self>, name: &str, flows: &[StepFlow]) -> Result<StepOutcome, Lost> {
        let mut running = JoinSet::new();
        for flow in flows {
            let (runner, flow) = (self.clone(), flow.clone());
            running.spawn(async move { runner.along(&flow).await });
        }
        let mut all = Ended::completed();
        let mut is_lost = false;
        while let Some(ended) = running.join_next().await {
            match ended {
                Ok(Ok(ended)) => {
                    all.has_run |= ended.has_run;
                    all.status = all.status.upgrade_to(ended.status);
                    all.exit = all.exit.and(ended.exit);
                    all.code = all.code.or(ended.code);
                }
                Ok(Err(Lost)) => is_lost = true,
                Err(panic) => all = all.failed(format!("in split {name:?}: {}", panic_text(panic))),
            }
        }
        if is_lost {
            return Err(Lost);
        }
        // What follows a split asks how it ended as a whole, not for the exit code of one of its flows.
        all.exit.code = all.status.as_str().to_owned();
        Ok(StepOutcome {
            status: all.status,
            exit: all.exit,
            code: all.code,
            has_run: all.has_run,
            row: None,
            counters: None,
        })
    }

    /// Records that a step which did not succeed is not to be repeated.
    async fn abandon(&self, failed: &StepOutcome) -> Result<(), Lost> {
        match &failed.row {
            Some((id, counters)) if failed.status == BatchStatus::Failed => {
                self.record_end(*id, BatchStatus::Abandoned, &failed.exit, counters).await
            }
            _ => Ok(()),
        }
    }

    async fn record_end(
        &self,
        id: StepExecutionId,
        status: BatchStatus,
        exit: &ExitStatus,
        counters: &Counters,
    ) -> Result<(), Lost> {
        let end = StepEnd {
            id,
            execution: self.launched.execution,
            lease: &self.launched.lease,
            fence: self.launched.granted.fence,
            status,
            exit,
            counters,
        };
        self.recorder.record(&Entry::EndStep { end: &end, job_context: None }).await
    }
}
