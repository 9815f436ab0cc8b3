//! Jobs as people see them. What Spring Batch has written is shown as it is.

use crate::error::StoreError;
use crate::process::ProcessRecord;
use crate::row::damaged;
use crate::row::job::{ExecutionRow, InstanceRow, JobRow, ParameterRow, RunRow, StepRow, status_of};
use std::time::Duration;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{
    BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, InstanceId, JobParameter,
    JobParameters, ParameterValue, StepExecutionId,
};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

/// A job that has been launched at some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRecord {
    pub name: String,
    /// With how many sets of identifying parameters; counted up to [`COUNTED_MAX`](super::list::COUNTED_MAX).
    pub instances: u64,
    /// Its last execution.
    pub last: Option<LastExecution>,
}

/// The last execution of a job or instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastExecution {
    pub id: ExecutionId,
    pub status: BatchStatus,
    /// When it was made.
    pub created_at: Timestamp,
}

/// One of the last runs of a job, briefly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRecord {
    pub id: ExecutionId,
    pub status: BatchStatus,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The beginning of what went wrong, if something did.
    pub message: String,
}

impl RunRecord {
    /// How long it took, if it has ended.
    pub fn length(&self) -> Option<Duration> {
        Some(self.ended_at?.since(self.started_at?))
    }
}

/// A job with one set of identifying parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstanceRecord {
    pub id: InstanceId,
    pub job: String,
    /// The hash of its identifying parameters.
    pub key: String,
    /// How many executions it has; counted up to [`COUNTED_MAX`](super::list::COUNTED_MAX).
    pub executions: u64,
    /// The last of them.
    pub last: Option<LastExecution>,
    /// The parameters of that one.
    pub parameters: Vec<ParameterRecord>,
}

/// A parameter as it is stored. Its type may be one that only Java knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterRecord {
    pub name: String,
    /// The name of its type.
    pub class: String,
    pub value: String,
    /// Whether it is part of the instance's identity.
    pub is_identifying: bool,
}

/// One run of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionRecord {
    pub id: ExecutionId,
    pub instance: InstanceId,
    pub job: String,
    /// How often it was changed.
    pub version: i64,
    pub status: BatchStatus,
    /// How it ended, in words; the whole text.
    pub exit: ExitStatus,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it was last changed.
    pub updated_at: Option<Timestamp>,
    /// Who launched it; nobody knows for one of Spring Batch's.
    pub launched_by: Option<String>,
    /// Whether Spring Batch has written it.
    pub is_foreign: bool,
    /// How many restarts without a person's doing led to it.
    pub crash_restarts: u32,
}

/// All about one run of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionDetail {
    pub execution: ExecutionRecord,
    pub parameters: Vec<ParameterRecord>,
    /// The process that runs or ran it; nobody knows for one of Spring Batch's.
    pub owner: Option<Owner>,
    /// Who wanted it to stop.
    pub stop: Option<StopRequest>,
    /// What is done when its process is gone.
    pub on_crash: Option<OnCrash>,
    /// Of the definition of the job that it ran with, where there is one.
    pub fingerprint: Option<String>,
    /// Whether it is to be restarted by itself.
    pub is_restart_due: bool,
}

impl ExecutionDetail {
    /// Its parameters as they were given. Those of Spring Batch may have types that we do not know.
    pub fn job_parameters(&self) -> Result<JobParameters, StoreError> {
        job_parameters(&self.parameters, self.execution.id)
    }
}

/// Parameters as they were given.
pub(super) fn job_parameters(
    records: &[ParameterRecord],
    execution: ExecutionId,
) -> Result<JobParameters, StoreError> {
    let mut parameters = JobParameters::new();
    for record in records {
        let bad = |column| damaged("batch_job_execution_params", column, execution);
        let value =
            ParameterValue::from_stored(&record.class, &record.value).map_err(|_| bad("parameter_value"))?;
        let parameter = JobParameter { value, is_identifying: record.is_identifying };
        parameters.insert(record.name.as_str(), parameter).map_err(|_| bad("parameter_name"))?;
    }
    Ok(parameters)
}

/// The process that runs or ran an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    pub id: ProcessId,
    /// What is known of it; nothing long after its end.
    pub process: Option<ProcessRecord>,
    /// Whether the execution is its own now.
    pub holds_lease: bool,
}

/// Somebody's wish that an execution should stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopRequest {
    /// When it was made.
    pub at: Timestamp,
    pub by: String,
    pub reason: Option<String>,
}

/// One run of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepRecord {
    pub id: StepExecutionId,
    /// In which run of the job.
    pub execution: ExecutionId,
    pub name: String,
    /// How often it was changed.
    pub version: i64,
    pub status: BatchStatus,
    /// How it ended, in words; the whole text.
    pub exit: ExitStatus,
    pub counters: Counters,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it was last changed.
    pub updated_at: Option<Timestamp>,
    /// How many items there are in all, where that is known.
    pub total_items: Option<u64>,
    pub delivery: Option<String>,
    /// The process that runs or ran it last, if it is a partition.
    pub process: Option<String>,
}

/// What an execution remembers, as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub enum StoredContext {
    /// In our form.
    Ours(ExecutionContext),
    /// In some other form, most likely Java's: to be shown, not to be understood.
    Foreign(String),
}

impl From<String> for StoredContext {
    fn from(text: String) -> Self {
        match ExecutionContext::from_text(&text) {
            Ok(context) => Self::Ours(context),
            Err(_) => Self::Foreign(text),
        }
    }
}

impl TryFrom<StepRow> for StepRecord {
    type Error = StoreError;

    fn try_from(row: StepRow) -> Result<Self, StoreError> {
        let (status, exit, counters) = (row.status()?, row.exit(), row.counters()?);
        Ok(Self {
            id: StepExecutionId::new(row.step_execution_id),
            execution: ExecutionId::new(row.job_execution_id),
            name: row.step_name,
            version: row.version,
            status,
            exit,
            counters,
            created_at: row.create_time.into(),
            started_at: row.start_time.map(Into::into),
            ended_at: row.end_time.map(Into::into),
            updated_at: row.last_updated.map(Into::into),
            total_items: row.total_items.and_then(|total| u64::try_from(total).ok()),
            delivery: row.delivery,
            process: row.process,
        })
    }
}

impl TryFrom<ExecutionRow> for ExecutionRecord {
    type Error = StoreError;

    fn try_from(row: ExecutionRow) -> Result<Self, StoreError> {
        let status = row.status()?;
        let crash_restarts = u32::try_from(row.crash_restarts)
            .map_err(|_| damaged("tidemill_job_execution", "crash_restarts", row.job_execution_id))?;
        Ok(Self {
            id: ExecutionId::new(row.job_execution_id),
            instance: InstanceId::new(row.job_instance_id),
            job: row.job_name,
            version: row.version,
            status,
            exit: ExitStatus::new(row.exit_code).describe(row.exit_message),
            created_at: row.create_time.into(),
            started_at: row.start_time.map(Into::into),
            ended_at: row.end_time.map(Into::into),
            updated_at: row.last_updated.map(Into::into),
            is_foreign: row.launched_by.is_none(),
            launched_by: row.launched_by,
            crash_restarts,
        })
    }
}

impl TryFrom<RunRow> for RunRecord {
    type Error = StoreError;

    fn try_from(row: RunRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: ExecutionId::new(row.job_execution_id),
            status: row.status()?,
            created_at: row.create_time.into(),
            started_at: row.start_time.map(Into::into),
            ended_at: row.end_time.map(Into::into),
            message: row.message,
        })
    }
}

impl TryFrom<JobRow> for JobRecord {
    type Error = StoreError;

    fn try_from(row: JobRow) -> Result<Self, StoreError> {
        Ok(Self {
            last: last(row.job_execution_id, row.status.as_deref(), row.create_time.map(Into::into))?,
            name: row.job_name,
            instances: row.instances.unsigned_abs(),
        })
    }
}

impl TryFrom<InstanceRow> for InstanceRecord {
    type Error = StoreError;

    fn try_from(row: InstanceRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: InstanceId::new(row.job_instance_id),
            last: last(row.job_execution_id, row.status.as_deref(), row.create_time.map(Into::into))?,
            job: row.job_name,
            key: row.job_key,
            executions: row.executions.unsigned_abs(),
            parameters: Vec::new(),
        })
    }
}

impl From<ParameterRow> for ParameterRecord {
    fn from(row: ParameterRow) -> Self {
        Self {
            name: row.parameter_name,
            class: row.parameter_type,
            value: row.parameter_value,
            is_identifying: row.identifying.trim() == "Y",
        }
    }
}

fn last(
    id: Option<i64>,
    status: Option<&str>,
    created_at: Option<Timestamp>,
) -> Result<Option<LastExecution>, StoreError> {
    let (Some(id), Some(created_at)) = (id, created_at) else { return Ok(None) };
    let status = status_of(status, "batch_job_execution", id)?;
    Ok(Some(LastExecution { id: ExecutionId::new(id), status, created_at }))
}
