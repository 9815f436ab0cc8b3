//! From step to step: in order, or as the exit codes say.

use super::record::{Entry, Lost};
use super::{Ended, Runner, StepOutcome};
use crate::job::definition::{Decision, Node};
use crate::job::step::Step;
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::{BatchStatus, ExitStatus};
use tidemill_store::job;

impl Runner {
    /// One step after the other, until one does not complete.
    pub(super) async fn in_order(&mut self) -> Result<Ended, Lost> {
        let mut ended = Ended::completed();
        let steps: Vec<Step> = self.job.steps().into_iter().cloned().collect();
        for step in steps {
            if self.stop.is_asked() {
                return Ok(ended.stopped());
            }
            let outcome = self.step(&step).await?;
            ended.has_run |= outcome.has_run();
            ended.status = outcome.status;
            ended.exit = outcome.exit;
            ended.code = outcome.code;
            if ended.status != BatchStatus::Completed {
                break;
            }
        }
        Ok(ended)
    }

    /// From step to step as the exit codes say.
    pub(super) async fn along_flow(&mut self) -> Result<Ended, Lost> {
        let flow = self.job.flow();
        let mut ended = Ended::completed();
        let mut last: Option<StepOutcome> = None;
        let mut state = flow.start().map(str::to_owned);
        while let Some(name) = state.take() {
            if self.stop.is_asked() {
                return Ok(ended.stopped());
            }
            let said = match self.job.node(&name).cloned() {
                Some(Node::Step(step)) => {
                    // A step that failed and whose failure led on is done with: a restart does not repeat it.
                    if let Some(failed) = last.take() {
                        self.abandon(&failed).await?;
                    }
                    let outcome = self.step(&step).await?;
                    ended.has_run |= outcome.has_run();
                    if outcome.status == BatchStatus::Stopped {
                        return Ok(ended.stopped());
                    }
                    let said = outcome.exit.code.clone();
                    last = Some(outcome);
                    said
                }
                Some(Node::Decision(_, decide)) => {
                    let decision = Decision {
                        parameters: &self.launched.parameters,
                        job_context: &self.context,
                        last: last.as_ref().map(|last| (last.status, &last.exit)),
                    };
                    match decide(&decision) {
                        Ok(said) => said,
                        Err(error) => return Ok(ended.failed(format!("decision {name:?}: {error}"))),
                    }
                }
                None => return Ok(ended.failed(format!("there is no step {name:?}"))),
            };
            match flow.after(&name, &said) {
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
                    return Ok(ended
                        .failed(format!("no transition of step {name:?} matches the exit code {said:?}")));
                }
            }
        }
        Ok(ended)
    }

    /// Records that a step which did not succeed is not to be repeated.
    async fn abandon(&mut self, failed: &StepOutcome) -> Result<(), Lost> {
        let Some((id, counters)) = &failed.ran else { return Ok(()) };
        if failed.status != BatchStatus::Failed {
            return Ok(());
        }
        let end = job::StepEnd {
            id: *id,
            execution: self.launched.execution,
            lease: &self.launched.lease,
            fence: self.launched.granted.fence,
            status: BatchStatus::Abandoned,
            exit: &failed.exit,
            counters,
        };
        self.recorder.record(&Entry::EndStep { end: &end, job_context: None }).await
    }
}
