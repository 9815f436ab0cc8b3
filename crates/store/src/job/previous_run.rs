//! Where a step of another instance ended, for those that go on behind it.

use super::columns;
use super::record::{EXECUTION, STEP};
use crate::error::StoreError;
use crate::statement::stored;
use crate::tx::Jobs;
use tidemill_domain::job::previous_run::{Continuation, PreviousRun, continuation};
use tidemill_domain::job::{BatchStatus, ExecutionContext, ExecutionId, InstanceId, StepExecutionId};

#[derive(Clone, Copy, Debug)]
pub struct PreviousRunRequest<'a> {
    pub job: &'a str,
    pub step: &'a str,
    /// Its own instance, which does not count.
    pub instance: InstanceId,
    /// Its own run; later ones do not count. Whoever runs at the same time has to wait for it.
    pub run: StepExecutionId,
    /// What a context has that holds a position.
    pub key: &'a str,
}

/// Where the step of an earlier instance ended.
#[derive(Clone, PartialEq, Debug)]
pub enum PreviousPosition {
    /// None has read anything.
    None,
    Behind(ExecutionContext),
    /// This execution has not come to its end.
    Open(ExecutionId),
}

stored! {
    /// A run of a step in another instance, and what it remembers.
    pub(crate) struct PreviousStep in STEP |row| {
        id: i64 = "step_execution_id",
        execution: ExecutionId = "job_execution_id",
        status: BatchStatus,
        job_status: BatchStatus => row.of(EXECUTION).get("job_status")?,
        context: Option<String>,
    }
}

impl Jobs<'_> {
    /// Where the step of the last earlier instance ended that has read anything.
    #[crate::boxed]
    pub async fn earlier_step(
        &mut self,
        request: &PreviousRunRequest<'_>,
    ) -> Result<PreviousPosition, StoreError> {
        let (instance, mut before) = (request.instance.get(), request.run.get());
        // Each run that had failed before it read anything costs one more look.
        while let Some(row) = self.job_step_earlier(request.job, request.step, instance, before).await? {
            let context = match &row.context {
                Some(text) => columns::read_context(text, &format!("step execution {}", row.id))?,
                None => ExecutionContext::new(),
            };
            let has_position = context.get(request.key).is_some();
            let run = PreviousRun { step: row.status, job: row.job_status, has_position };
            match continuation(run) {
                Continuation::Behind => return Ok(PreviousPosition::Behind(context)),
                Continuation::Wait => return Ok(PreviousPosition::Open(row.execution)),
                Continuation::Ask => before = row.id,
            }
        }
        Ok(PreviousPosition::None)
    }
}
