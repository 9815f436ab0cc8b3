//! Jobs as people see them. What Spring Batch has written is shown as it is.

use crate::error::{StoreError, damaged};
use crate::process::ProcessRecord;
use crate::statement::{Columns, Stored};
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
    pub last: Option<LastExecution>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastExecution {
    pub id: ExecutionId,
    pub status: BatchStatus,
    pub created_at: Timestamp,
}

/// One of the last runs of a job, briefly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRecord {
    pub id: ExecutionId,
    pub job: String,
    pub status: BatchStatus,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
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
    pub last: Option<LastExecution>,
    pub parameters: Vec<ParameterRecord>,
}

/// A parameter as it is stored. Its type may be one that only Java knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterRecord {
    pub name: String,
    pub class: String,
    pub value: String,
    /// Whether it is part of the instance's identity.
    pub is_identifying: bool,
}

/// A parameter of one execution, as it is read.
pub(crate) struct ParameterRow {
    pub(super) execution: i64,
    pub(super) parameter: ParameterRecord,
}

impl Stored for ParameterRow {
    const PLACE: (&'static str, &'static str) = ("batch_job_execution_params", "job_execution_id");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let identifying: String = row.get("identifying")?;
        let parameter = ParameterRecord {
            name: row.get("parameter_name")?,
            class: row.get("parameter_type")?,
            value: row.get("parameter_value")?,
            is_identifying: identifying.trim() == "Y",
        };
        Ok(Self { execution: row.get("job_execution_id")?, parameter })
    }
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
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    /// Who launched it; nobody knows for one of Spring Batch's.
    pub launched_by: Option<String>,
    pub is_foreign: bool,
    /// How many restarts without a person's doing led to it.
    pub crash_restarts: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionDetail {
    pub execution: ExecutionRecord,
    pub parameters: Vec<ParameterRecord>,
    /// The process that runs or ran it; nobody knows for one of Spring Batch's.
    pub owner: Option<Owner>,
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
    pub at: Timestamp,
    pub by: String,
    pub reason: Option<String>,
}

/// One run of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepRecord {
    pub id: StepExecutionId,
    pub execution: ExecutionId,
    pub name: String,
    /// How often it was changed.
    pub version: i64,
    pub status: BatchStatus,
    /// How it ended, in words; the whole text.
    pub exit: ExitStatus,
    pub counters: Counters,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
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

/// The tables of Spring Batch, and what names their rows.
pub(super) const EXECUTION: (&str, &str) = ("batch_job_execution", "job_execution_id");
pub(super) const STEP: (&str, &str) = ("batch_step_execution", "step_execution_id");
/// What we know of an execution beyond Spring's columns.
pub(super) const NOTE: (&str, &str) = ("tidemill_job_execution", "job_execution_id");

/// The status in a column. What Spring Batch has written may have none.
pub(super) fn status(row: &Columns<'_>, column: &'static str) -> Result<BatchStatus, sqlx::Error> {
    let word: Option<String> = row.get(column)?;
    row.checked("status", word.and_then(|word| word.parse().ok()))
}

pub(super) fn status_of(
    word: Option<&str>,
    table: &'static str,
    row: i64,
) -> Result<BatchStatus, StoreError> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| damaged(table, "status", row))
}

impl Stored for Counters {
    const PLACE: (&'static str, &'static str) = STEP;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            read: row.number("read_count")?,
            write: row.number("write_count")?,
            filter: row.number("filter_count")?,
            read_skip: row.number("read_skip_count")?,
            process_skip: row.number("process_skip_count")?,
            write_skip: row.number("write_skip_count")?,
            commit: row.number("commit_count")?,
            rollback: row.number("rollback_count")?,
        })
    }
}

fn exit(row: &Columns<'_>) -> Result<ExitStatus, sqlx::Error> {
    Ok(ExitStatus::new(row.get::<String>("exit_code")?).describe(row.get::<String>("exit_message")?))
}

impl Stored for StepRecord {
    const PLACE: (&'static str, &'static str) = STEP;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: StepExecutionId::new(row.get("step_execution_id")?),
            execution: ExecutionId::new(row.get("job_execution_id")?),
            name: row.get("step_name")?,
            version: row.get("version")?,
            status: status(row, "status")?,
            exit: exit(row)?,
            counters: Counters::from_columns(row)?,
            created_at: row.stamp("create_time")?,
            started_at: row.stamp_if("start_time")?,
            ended_at: row.stamp_if("end_time")?,
            updated_at: row.stamp_if("last_updated")?,
            total_items: row.get::<Option<i64>>("total_items")?.and_then(|total| u64::try_from(total).ok()),
            delivery: row.get("delivery")?,
            process: row.get("process")?,
        })
    }
}

impl Stored for ExecutionRecord {
    const PLACE: (&'static str, &'static str) = EXECUTION;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let launched_by: Option<String> = row.get("launched_by")?;
        Ok(Self {
            id: ExecutionId::new(row.get("job_execution_id")?),
            instance: InstanceId::new(row.get("job_instance_id")?),
            job: row.get("job_name")?,
            version: row.get("version")?,
            status: status(row, "status")?,
            exit: exit(row)?,
            created_at: row.stamp("create_time")?,
            started_at: row.stamp_if("start_time")?,
            ended_at: row.stamp_if("end_time")?,
            updated_at: row.stamp_if("last_updated")?,
            is_foreign: launched_by.is_none(),
            launched_by,
            crash_restarts: row.of(NOTE).number("crash_restarts")?,
        })
    }
}

impl Stored for RunRecord {
    const PLACE: (&'static str, &'static str) = EXECUTION;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: ExecutionId::new(row.get("job_execution_id")?),
            job: row.get("job_name")?,
            status: status(row, "status")?,
            created_at: row.stamp("create_time")?,
            started_at: row.stamp_if("start_time")?,
            ended_at: row.stamp_if("end_time")?,
            message: row.get("message")?,
        })
    }
}

impl Stored for JobRecord {
    const PLACE: (&'static str, &'static str) = EXECUTION;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let instances: i64 = row.get("instances")?;
        Ok(Self { name: row.get("job_name")?, instances: instances.unsigned_abs(), last: last(row)? })
    }
}

impl Stored for InstanceRecord {
    const PLACE: (&'static str, &'static str) = EXECUTION;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let executions: i64 = row.get("executions")?;
        Ok(Self {
            id: InstanceId::new(row.get("job_instance_id")?),
            last: last(row)?,
            job: row.get("job_name")?,
            key: row.get("job_key")?,
            executions: executions.unsigned_abs(),
            parameters: Vec::new(),
        })
    }
}

/// The last execution of a job or instance, if it has one.
fn last(row: &Columns<'_>) -> Result<Option<LastExecution>, sqlx::Error> {
    let id: Option<i64> = row.get("job_execution_id")?;
    let (Some(id), Some(created_at)) = (id, row.stamp_if("create_time")?) else { return Ok(None) };
    Ok(Some(LastExecution { id: ExecutionId::new(id), status: status(row, "status")?, created_at }))
}
