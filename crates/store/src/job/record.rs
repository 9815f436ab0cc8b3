//! Records for people. What Spring Batch has written is shown as it is.

use crate::error::{Result, damaged};
use crate::process::ProcessRecord;
use crate::statement::{Columns, Stored, stored};
use std::time::Duration;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{
    BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, InstanceId, JobParameter,
    JobParameters, ParameterValue, StepExecutionId,
};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

stored! {
    /// A job that was launched at least once.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct JobRecord in EXECUTION |row| {
        pub name: String = "job_name",
        /// Counted up to [`COUNTED_MAX`](super::list::COUNTED_MAX).
        pub instances: u64,
        pub last: Option<LastExecution> => last(row)?,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastExecution {
    pub id: ExecutionId,
    pub status: BatchStatus,
    pub created_at: Timestamp,
}

stored! {
    /// Summary of a recent run.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RunRecord in EXECUTION |row| {
        pub id: ExecutionId = "job_execution_id",
        pub job: String = "job_name",
        pub status: BatchStatus,
        pub created_at: Timestamp => row.stamp("create_time")?,
        pub started_at: Option<Timestamp> => row.stamp_if("start_time")?,
        pub ended_at: Option<Timestamp> => row.stamp_if("end_time")?,
        /// The beginning of the error, if any.
        pub message: String,
    }
}

impl RunRecord {
    /// `None` until it has ended.
    pub fn length(&self) -> Option<Duration> {
        Some(self.ended_at?.since(self.started_at?))
    }
}

stored! {
    /// A job with one set of identifying parameters.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct InstanceRecord in EXECUTION |row| {
        pub id: InstanceId = "job_instance_id",
        pub job: String = "job_name",
        /// The hash of its identifying parameters.
        pub key: String = "job_key",
        /// Counted up to [`COUNTED_MAX`](super::list::COUNTED_MAX).
        pub executions: u64,
        pub last: Option<LastExecution> => last(row)?,
        pub parameters: Vec<ParameterRecord> => Vec::new(),
    }

    /// As stored. Its type may be one that only Java knows.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ParameterRecord in PARAMETER |row| {
        pub name: String = "parameter_name",
        pub class: String = "parameter_type",
        pub value: String = "parameter_value",
        pub is_identifying: bool => row.get::<String>("identifying")?.trim() == "Y",
    }

    pub(crate) struct ParameterRow in PARAMETER |row| {
        pub(super) execution: i64 = "job_execution_id",
        pub(super) parameter: ParameterRecord => Stored::from_columns(row)?,
    }

    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ExecutionRecord in EXECUTION |row| {
        pub id: ExecutionId = "job_execution_id",
        pub instance: InstanceId = "job_instance_id",
        pub job: String = "job_name",
        /// The number of updates.
        pub version: i64,
        pub status: BatchStatus,
        /// With the whole message.
        pub exit: ExitStatus => exit(row)?,
        pub created_at: Timestamp => row.stamp("create_time")?,
        pub started_at: Option<Timestamp> => row.stamp_if("start_time")?,
        pub ended_at: Option<Timestamp> => row.stamp_if("end_time")?,
        pub updated_at: Option<Timestamp> => row.stamp_if("last_updated")?,
        /// `None` for executions of Spring Batch.
        pub launched_by: Option<String>,
        pub is_foreign: bool => row.get::<Option<String>>("launched_by")?.is_none(),
        /// The number of automatic restarts that led to it.
        pub crash_restarts: u32 => row.of(NOTE).get("crash_restarts")?,
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionDetail {
    pub execution: ExecutionRecord,
    pub parameters: Vec<ParameterRecord>,
    /// The process that runs or ran it; `None` for executions of Spring Batch.
    pub owner: Option<Owner>,
    pub stop: Option<StopRequest>,
    pub on_crash: Option<OnCrash>,
    /// Of the job's definition, if it has one.
    pub fingerprint: Option<String>,
    /// Whether it is due for an automatic restart.
    pub is_restart_due: bool,
}

impl ExecutionDetail {
    /// Fails for types that only Spring Batch knows.
    pub fn job_parameters(&self) -> Result<JobParameters> {
        job_parameters(&self.parameters, self.execution.id)
    }
}

pub(super) fn job_parameters(records: &[ParameterRecord], execution: ExecutionId) -> Result<JobParameters> {
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
    /// `None` long after its end.
    pub process: Option<ProcessRecord>,
    pub holds_lease: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopRequest {
    pub at: Timestamp,
    pub by: String,
    pub reason: Option<String>,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct StepRecord in STEP |row| {
        pub id: StepExecutionId = "step_execution_id",
        pub execution: ExecutionId = "job_execution_id",
        pub name: String = "step_name",
        /// The number of updates.
        pub version: i64,
        pub status: BatchStatus,
        /// With the whole message.
        pub exit: ExitStatus => exit(row)?,
        pub counters: Counters => Stored::from_columns(row)?,
        pub created_at: Timestamp => row.stamp("create_time")?,
        pub started_at: Option<Timestamp> => row.stamp_if("start_time")?,
        pub ended_at: Option<Timestamp> => row.stamp_if("end_time")?,
        pub updated_at: Option<Timestamp> => row.stamp_if("last_updated")?,
        /// If known.
        pub total_items: Option<u64> => row.get::<Option<i64>>("total_items")?.and_then(|total| total.try_into().ok()),
        pub delivery: Option<String>,
        /// For a partition: the process that runs it or ran it last.
        pub process: Option<String>,
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum StoredContext {
    Readable(ExecutionContext),
    /// The stored text, if it has another form or an object that only Java can read: for display only.
    Foreign(String),
}

impl From<String> for StoredContext {
    fn from(text: String) -> Self {
        match ExecutionContext::from_text(&text) {
            Ok(context) => Self::Readable(context),
            Err(_) => Self::Foreign(text),
        }
    }
}

/// Tables of Spring Batch, and the key columns.
pub(super) const EXECUTION: (&str, &str) = ("batch_job_execution", "job_execution_id");
pub(super) const STEP: (&str, &str) = ("batch_step_execution", "step_execution_id");
const PARAMETER: (&str, &str) = ("batch_job_execution_params", "job_execution_id");
/// Our columns beside Spring's.
pub(super) const NOTE: (&str, &str) = ("tidemill_job_execution", "job_execution_id");

pub(super) fn status_of(word: Option<&str>, table: &'static str, row: i64) -> Result<BatchStatus> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| damaged(table, "status", row))
}

stored! {
    impl Counters in STEP {
        read = "read_count", write = "write_count", filter = "filter_count", read_skip = "read_skip_count",
        process_skip = "process_skip_count", write_skip = "write_skip_count", commit = "commit_count",
        rollback = "rollback_count",
    }
}

pub(super) fn exit(row: &Columns<'_>) -> Result<ExitStatus, sqlx::Error> {
    Ok(ExitStatus::new(row.get::<String>("exit_code")?).describe(row.get::<String>("exit_message")?))
}

fn last(row: &Columns<'_>) -> Result<Option<LastExecution>, sqlx::Error> {
    let (id, created_at) = (row.get("job_execution_id")?, row.stamp_if("create_time")?);
    let (Some(id), Some(created_at)) = (id, created_at) else { return Ok(None) };
    Ok(Some(LastExecution { id, status: row.get("status")?, created_at }))
}
