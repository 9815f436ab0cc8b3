//! Where a step of another instance ended, for steps that continue after it.

use super::columns;
use super::record::{EXECUTION, STEP};
use crate::error::Result;
use crate::statement::{statements, stored};
use crate::tx::Jobs;
use tidemill_domain::job::previous_run::{Continuation, PreviousRun, continuation};
use tidemill_domain::job::{BatchStatus, ExecutionContext, ExecutionId, InstanceId, StepExecutionId};

#[derive(Clone, Copy, Debug)]
pub struct PreviousRunRequest<'a> {
    pub job: &'a str,
    pub step: &'a str,
    /// Its own instance, which does not count.
    pub instance: InstanceId,
    /// Its own run; later runs do not count, and a concurrent one has to end first.
    pub run: StepExecutionId,
    /// The context key of the position.
    pub key: &'a str,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PreviousPosition {
    /// No earlier instance has read anything.
    None,
    Behind(ExecutionContext),
    /// This execution has not ended.
    Open(ExecutionId),
}

stored! {
    pub(crate) struct PreviousStep in STEP |row| {
        id: i64 = "step_execution_id",
        execution: ExecutionId = "job_execution_id",
        status: BatchStatus,
        job_status: BatchStatus => row.of(EXECUTION).get("job_status")?,
        context: Option<String>,
    }
}

impl Jobs<'_> {
    /// Finds the last earlier instance in which the step has read anything.
    #[crate::boxed]
    pub async fn earlier_step(&mut self, request: &PreviousRunRequest<'_>) -> Result<PreviousPosition> {
        let (instance, mut before) = (request.instance.get(), request.run.get());
        // Each run that failed before it read anything costs one more query.
        while let Some(row) = self.job_step_earlier(request.job, request.step, instance, before).await? {
            let place = format!("step execution {}", row.id);
            let context = columns::read_context(row.context.as_deref(), &place)?;
            let has_position = context.get(request.key).is_some();
            let run = PreviousRun { step: row.status, job: row.job_status, has_position };
            match continuation(run) {
                Continuation::Behind => return Ok(PreviousPosition::Behind(context)),
                Continuation::Wait => return Ok(PreviousPosition::Open(row.execution)),
                Continuation::Earlier => before = row.id,
            }
        }
        Ok(PreviousPosition::None)
    }
}

statements! {
    /// The previous run of a step in any other instance of the job. By the primary key, backwards.
    fn job_step_earlier(job: &str, step: &str, other_than: i64, before: i64) -> Option<PreviousStep> {
        "select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id, s.status as status,
                e.status as job_status, coalesce(c.serialized_context, c.short_context) as context
         from batch_step_execution s
         join batch_job_execution e on e.job_execution_id = s.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join batch_step_execution_context c on c.step_execution_id = s.step_execution_id
         where i.job_name = $1 and s.step_name = $2 and i.job_instance_id <> $3 and s.step_execution_id < $4
         order by s.step_execution_id desc limit 1"
    }
}
