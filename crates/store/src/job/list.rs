//! Lists for people. Pages go from newest to oldest, each from the last id of the previous one; no query per line.

use super::lease_key;
use super::orphan::on_crash;
use super::record::{
    ExecutionDetail, ExecutionRecord, InstanceRecord, JobRecord, NOTE, Owner, ParameterRecord, StopRequest,
    StoredContext,
};
use crate::error::Result;
use crate::lease::LeaseRecord;
use crate::statement::{Columns, statements, stored};
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
        let is_own = |row: LeaseRecord| matches!(row.lease, Lease::Held { fence, .. } if fence.owner == id);
        Ok(Owner { id, process, holds_lease: lease.is_some_and(is_own) })
    }
}

fn stop_request(row: &Columns<'_>) -> Result<Option<StopRequest>, sqlx::Error> {
    let Some(at) = row.get("stop_requested_at")? else { return Ok(None) };
    let by = row.get::<Option<String>>("stop_requested_by")?.unwrap_or_default();
    Ok(Some(StopRequest { at, by, reason: row.get("stop_reason")? }))
}

/// Executions with our columns. Each filter has its own text: an optional condition would keep its index unused.
macro_rules! executions {
    ($rest:literal) => {
        concat!(
            "select e.job_execution_id as job_execution_id, e.job_instance_id as job_instance_id,
                    i.job_name as job_name, coalesce(e.version, 0) as version, e.status as status,
                    coalesce(e.exit_code, '') as exit_code,
                    coalesce(n.exit_text, e.exit_message, '') as exit_message,
                    e.create_time as create_time, e.start_time as start_time, e.end_time as end_time,
                    e.last_updated as last_updated,
                    n.launched_by as launched_by, coalesce(n.crash_restarts, 0) as crash_restarts
             from batch_job_execution e
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id ",
            $rest
        )
    };
}

statements! {
    /// Jobs by name, each with its last execution. Finds each name from the previous one, and the last execution in
    /// `tidemill_job_history`, so the cost does not depend on the length of the history. Counts at most `counted_max`
    /// instances, in the order of an index, because a planner may prefer to read the table up to a limit.
    fn job_list_jobs(limit: u32, counted_max: i64) -> Vec<JobRecord> {
        "with recursive name (job_name) as (
             select min(job_name)
             from batch_job_instance
             union all
             select (
                 select min(i.job_name)
                 from batch_job_instance i
                 where i.job_name > name.job_name
             )
             from name
             where name.job_name is not null
         )
         select j.job_name as job_name,
                (
                    select count(*)
                    from (
                        select 1
                        from batch_job_instance i
                        where i.job_name = j.job_name
                        order by i.job_instance_id
                        limit $2
                    ) as counted
                ) as instances,
                e.job_execution_id as job_execution_id, e.status as status, e.create_time as create_time
         from (
             select job_name
             from name
             where job_name is not null
             limit $1
         ) j
         left join batch_job_execution e on e.job_execution_id = (
             select max(h.job_execution_id)
             from tidemill_job_history h
             where h.job_name = j.job_name
         )
         order by j.job_name"
    }

    /// Instances of one job, each with its last execution; counts at most `counted_max` executions. Needs the index on
    /// the instances of a job.
    fn job_list_instances(job: &str, before: i64, limit: u32, counted_max: i64) -> Vec<InstanceRecord> {
        "select i.job_instance_id as job_instance_id, i.job_name as job_name, i.job_key as job_key,
                (
                    select count(*)
                    from (
                        select 1
                        from batch_job_execution c
                        where c.job_instance_id = i.job_instance_id
                        order by c.job_execution_id
                        limit $4
                    ) as counted
                ) as executions,
                e.job_execution_id as job_execution_id, e.status as status, e.create_time as create_time
         from (
             select b.job_instance_id as job_instance_id, b.job_name as job_name, b.job_key as job_key,
                    (
                        select max(l.job_execution_id)
                        from batch_job_execution l
                        where l.job_instance_id = b.job_instance_id
                    ) as latest
             from batch_job_instance b
             where b.job_name = $1
               and b.job_instance_id < $2
             order by b.job_instance_id desc
             limit $3
         ) i
         left join batch_job_execution e on e.job_execution_id = i.latest
         order by i.job_instance_id desc"
    }

    fn job_list_execution(id: ExecutionId) -> Option<ExecutionRecord> {
        executions!("where e.job_execution_id = $1")
    }

    fn job_list_executions(before: i64, limit: i64) -> Vec<ExecutionRecord> {
        executions!(
            "where e.job_execution_id < $1 order by e.job_execution_id desc limit $2"
        )
    }

    /// Needs the index on the status.
    fn job_list_executions_in_status(status: &str, before: i64, limit: i64) -> Vec<ExecutionRecord> {
        executions!(
            "where e.status = $1 and e.job_execution_id < $2
             order by e.job_execution_id desc limit $3"
        )
    }

    /// Executions that run, the oldest first. Needs the index on the status.
    pub fn Jobs::oldest_started(limit: u32) -> Vec<ExecutionRecord> {
        executions!(
            "where e.status = 'STARTED' order by e.job_execution_id limit $1"
        )
    }

    /// By the index on `tidemill_job_history`, before any join: a planner that joins first may scan everything newer.
    fn job_list_executions_of_job(job: &str, before: i64, limit: i64) -> Vec<ExecutionRecord> {
        executions!(
            "where e.job_execution_id in (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = $1
                   and h.job_execution_id < $2
                 order by h.job_execution_id desc
                 limit $3
             )
             order by e.job_execution_id desc"
        )
    }

    fn job_list_executions_of_job_in_status(
        job: &str, status: &str, before: i64, limit: i64,
    ) -> Vec<ExecutionRecord> {
        executions!(
            "where e.job_execution_id in (
                 select s.job_execution_id
                 from batch_job_execution s
                 join tidemill_job_history h on h.job_execution_id = s.job_execution_id
                 where h.job_name = $1
                   and s.status = $2
                   and h.job_execution_id < $3
                   and s.job_execution_id < $3
                 order by s.job_execution_id desc
                 limit $4
             )
             order by e.job_execution_id desc"
        )
    }

    pub fn Jobs::first_execution(instance: InstanceId) -> Option<ExecutionRecord> {
        executions!("where e.job_instance_id = $1 order by e.job_execution_id limit 1")
    }

    /// Optionally of one job and in one status. Needs the index on the executions of an instance.
    fn job_list_executions_of_instance(
        instance: InstanceId, job: Option<&str>, status: Option<&str>, before: i64, limit: i64,
    ) -> Vec<ExecutionRecord> {
        bind(instance, before, job, status, limit)
        executions!(
            "where e.job_instance_id = $1
               and e.job_execution_id < $2
               and ($3{::text} is null or i.job_name = $3)
               and ($4{::text} is null or e.status = $4)
             order by e.job_execution_id desc limit $5"
        )
    }
}
