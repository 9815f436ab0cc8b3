//! Lists for people. Pages go from the newest to the oldest, each from the last id of the previous one; none runs a
//! query per line.

use super::lease_key;
use super::orphan::on_crash;
use super::record::{
    ExecutionDetail, ExecutionRecord, InstanceRecord, JobRecord, NOTE, Owner, ParameterRecord, StopRequest,
    StoredContext,
};
use crate::error::Result;
use crate::lease::LeaseRow;
use crate::statement::{Columns, stored};
use crate::tx::Jobs;
use std::collections::HashMap;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId, StepExecutionId};
use tidemill_domain::lease::Lease;
use tidemill_domain::process::ProcessId;

/// Lists count instances and executions up to this number, because counting a long history takes too long.
pub const COUNTED_MAX: i64 = 1000;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExecutionFilter {
    pub job: Option<String>,
    pub status: Option<BatchStatus>,
    pub instance: Option<InstanceId>,
}

stored! {
    /// Our columns beside Spring's.
    pub(crate) struct ExecutionNote in NOTE |row| {
        owner: ProcessId,
        on_crash: OnCrash => on_crash(row)?,
        restart_due: bool,
        stop: Option<StopRequest> => stop_request(row)?,
        pub(super) fingerprint: Option<String>,
    }
}

impl Jobs<'_> {
    /// Jobs that were launched at least once, by name.
    pub async fn list(&mut self, limit: u32) -> Result<Vec<JobRecord>> {
        Ok(self.job_list_jobs(limit, COUNTED_MAX).await?)
    }

    /// At most `limit` instances of a job, older than `before`.
    #[crate::boxed]
    pub async fn instances(
        &mut self,
        job: &str,
        before: Option<InstanceId>,
        limit: u32,
    ) -> Result<Vec<InstanceRecord>> {
        let before = before.map_or(i64::MAX, InstanceId::get);
        let mut records = self.job_list_instances(job, before, limit, COUNTED_MAX).await?;
        let last = |record: &InstanceRecord| record.last.map(|last| last.id.get());
        let executions: Vec<i64> = records.iter().filter_map(last).collect();
        let mut parameters = self.parameters_by_execution(&executions).await?;
        for record in &mut records {
            record.parameters = last(record).and_then(|id| parameters.remove(&id)).unwrap_or_default();
        }
        Ok(records)
    }

    /// At most `limit` executions, older than `before`.
    #[crate::boxed]
    pub async fn executions(
        &mut self,
        filter: &ExecutionFilter,
        before: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<ExecutionRecord>> {
        let (job, status) = (filter.job.as_deref(), filter.status.map(BatchStatus::as_str));
        let before = before.map_or(i64::MAX, ExecutionId::get);
        let limit = limit.into();
        // Each statement uses another index.
        Ok(match (filter.instance, job, status) {
            (Some(instance), ..) => {
                self.job_list_executions_of_instance(instance, job, status, before, limit).await?
            }
            (None, Some(job), Some(status)) => {
                self.job_list_executions_of_job_in_status(job, status, before, limit).await?
            }
            (None, Some(job), None) => self.job_list_executions_of_job(job, before, limit).await?,
            (None, None, Some(status)) => self.job_list_executions_in_status(status, before, limit).await?,
            (None, None, None) => self.job_list_executions(before, limit).await?,
        })
    }

    #[crate::boxed]
    pub async fn execution(&mut self, id: ExecutionId) -> Result<Option<ExecutionDetail>> {
        let Some(execution) = self.job_list_execution(id).await? else { return Ok(None) };
        let parameters = self.parameters_by_execution(&[id.get()]).await?.remove(&id.get());
        let note = self.job_note_find(id.get()).await?;
        let owner = match &note {
            Some(note) => Some(self.owner_of(id, note.owner).await?),
            None => None,
        };
        Ok(Some(ExecutionDetail {
            execution,
            parameters: parameters.unwrap_or_default(),
            owner,
            on_crash: note.as_ref().map(|note| note.on_crash),
            fingerprint: note.as_ref().and_then(|note| note.fingerprint.clone()),
            is_restart_due: note.as_ref().is_some_and(|note| note.restart_due),
            stop: note.and_then(|note| note.stop),
        }))
    }

    /// `None` if there is no such execution.
    pub async fn job_context(&mut self, id: ExecutionId) -> Result<Option<StoredContext>> {
        Ok(self.job_context_of_job(id.get()).await?.map(Into::into))
    }

    /// `None` if there is no such step execution.
    pub async fn step_context(&mut self, id: StepExecutionId) -> Result<Option<StoredContext>> {
        Ok(self.job_context_of_step(id.get()).await?.map(Into::into))
    }

    async fn parameters_by_execution(
        &mut self,
        executions: &[i64],
    ) -> Result<HashMap<i64, Vec<ParameterRecord>>> {
        let mut by_execution: HashMap<i64, Vec<ParameterRecord>> = HashMap::new();
        for row in self.job_parameter_of_executions(executions).await? {
            by_execution.entry(row.execution).or_default().push(row.parameter);
        }
        Ok(by_execution)
    }

    async fn owner_of(&mut self, execution: ExecutionId, id: ProcessId) -> Result<Owner> {
        let process = self.process_by_id(id).await?;
        let lease = self.lease_find(&lease_key(execution)).await?;
        let is_own = |row: LeaseRow| matches!(row.lease, Lease::Held { fence, .. } if fence.owner == id);
        Ok(Owner { id, process, holds_lease: lease.is_some_and(is_own) })
    }
}

fn stop_request(row: &Columns<'_>) -> Result<Option<StopRequest>, sqlx::Error> {
    let Some(at) = row.get("stop_requested_at")? else { return Ok(None) };
    let by = row.get::<Option<String>>("stop_requested_by")?.unwrap_or_default();
    Ok(Some(StopRequest { at, by, reason: row.get("stop_reason")? }))
}
