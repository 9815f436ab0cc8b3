//! Rows of jobs. Those that Spring Batch has written may lack what ours always have.

use super::damaged;
use crate::codec::{DbId, DbStamp, DbTime};
use crate::error::StoreError;
use crate::job::RejectRecord;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, Counters, ExitStatus};

/// Reads the column `status` of rows, each of this table and with this column for its id.
macro_rules! with_status {
    ($($row:ident, $table:literal, $id:ident;)+) => {
        $(impl $row {
            pub(crate) fn status(&self) -> Result<BatchStatus, StoreError> {
                status_of(self.status.as_deref(), $table, self.$id)
            }
        })+
    };
}

with_status! {
    ExecutionHeadRow, "batch_job_execution", job_execution_id;
    ExecutionRow, "batch_job_execution", job_execution_id;
    OrphanRow, "batch_job_execution", job_execution_id;
    RunsRow, "batch_job_execution", latest;
    RunRow, "batch_job_execution", job_execution_id;
    StepRow, "batch_step_execution", step_execution_id;
    EarlierStepRow, "batch_step_execution", step_execution_id;
}

/// What a decision about an execution rests on.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ExecutionHeadRow {
    pub(crate) job_execution_id: i64,
    pub(crate) job_instance_id: i64,
    pub(crate) status: Option<String>,
}

/// An execution as lists show it.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ExecutionRow {
    pub(crate) job_execution_id: i64,
    pub(crate) job_instance_id: i64,
    pub(crate) job_name: String,
    pub(crate) version: i64,
    pub(crate) status: Option<String>,
    pub(crate) exit_code: String,
    pub(crate) exit_message: String,
    pub(crate) create_time: DbStamp,
    pub(crate) start_time: Option<DbStamp>,
    pub(crate) end_time: Option<DbStamp>,
    pub(crate) last_updated: Option<DbStamp>,
    pub(crate) launched_by: Option<String>,
    pub(crate) crash_restarts: i64,
}

/// What we know of an execution beyond Spring's columns.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ExecutionNoteRow {
    pub(crate) job_execution_id: i64,
    pub(crate) owner: DbId,
    pub(crate) launched_by: String,
    pub(crate) on_crash: String,
    pub(crate) crash_restart_limit: i64,
    pub(crate) crash_restarts: i64,
    pub(crate) restart_due: bool,
    pub(crate) stop_requested_at: Option<DbTime>,
    pub(crate) stop_requested_by: Option<String>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) fingerprint: Option<String>,
}

impl ExecutionNoteRow {
    pub(crate) fn on_crash(&self) -> Result<OnCrash, StoreError> {
        on_crash_of(&self.on_crash, self.crash_restart_limit, self.job_execution_id)
    }
}

/// An execution whose process is gone, and what is known of that process.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct OrphanRow {
    pub(crate) job_execution_id: i64,
    pub(crate) job_name: String,
    pub(crate) status: Option<String>,
    pub(crate) on_crash: String,
    pub(crate) crash_restart_limit: i64,
    pub(crate) crash_restarts: i64,
    pub(crate) process_name: Option<String>,
    pub(crate) process_host: Option<String>,
    pub(crate) process_pid: Option<i64>,
    pub(crate) process_state: Option<String>,
    pub(crate) process_heartbeat_at: Option<DbTime>,
}

impl OrphanRow {
    pub(crate) fn on_crash(&self) -> Result<OnCrash, StoreError> {
        on_crash_of(&self.on_crash, self.crash_restart_limit, self.job_execution_id)
    }
}

/// An execution that is to be followed by another one.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct DueRestartRow {
    pub(crate) job_execution_id: i64,
    pub(crate) job_name: String,
    pub(crate) crash_restarts: i64,
}

/// One parameter of one execution.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ParameterRow {
    pub(crate) job_execution_id: i64,
    pub(crate) parameter_name: String,
    pub(crate) parameter_type: String,
    pub(crate) parameter_value: String,
    pub(crate) identifying: String,
}

/// A run of a step.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct StepRow {
    pub(crate) step_execution_id: i64,
    pub(crate) job_execution_id: i64,
    pub(crate) step_name: String,
    pub(crate) version: i64,
    pub(crate) status: Option<String>,
    pub(crate) exit_code: String,
    pub(crate) exit_message: String,
    pub(crate) create_time: DbStamp,
    pub(crate) start_time: Option<DbStamp>,
    pub(crate) end_time: Option<DbStamp>,
    pub(crate) last_updated: Option<DbStamp>,
    pub(crate) commit_count: i64,
    pub(crate) read_count: i64,
    pub(crate) filter_count: i64,
    pub(crate) write_count: i64,
    pub(crate) read_skip_count: i64,
    pub(crate) write_skip_count: i64,
    pub(crate) process_skip_count: i64,
    pub(crate) rollback_count: i64,
    pub(crate) total_items: Option<i64>,
    pub(crate) delivery: Option<String>,
    /// The process that ran it last, where it is a partition and that was asked.
    #[sqlx(default)]
    pub(crate) process: Option<String>,
}

impl StepRow {
    pub(crate) fn exit(&self) -> ExitStatus {
        ExitStatus::new(self.exit_code.clone()).describe(self.exit_message.clone())
    }

    pub(crate) fn counters(&self) -> Result<Counters, StoreError> {
        let count = |column, value: i64| {
            u64::try_from(value).map_err(|_| damaged("batch_step_execution", column, self.step_execution_id))
        };
        Ok(Counters {
            read: count("read_count", self.read_count)?,
            write: count("write_count", self.write_count)?,
            filter: count("filter_count", self.filter_count)?,
            read_skip: count("read_skip_count", self.read_skip_count)?,
            process_skip: count("process_skip_count", self.process_skip_count)?,
            write_skip: count("write_skip_count", self.write_skip_count)?,
            commit: count("commit_count", self.commit_count)?,
            rollback: count("rollback_count", self.rollback_count)?,
        })
    }
}

/// A run of a step in another instance, and what it remembers.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct EarlierStepRow {
    pub(crate) step_execution_id: i64,
    pub(crate) job_execution_id: i64,
    pub(crate) status: Option<String>,
    pub(crate) job_status: Option<String>,
    pub(crate) context: Option<String>,
}

impl EarlierStepRow {
    pub(crate) fn job_status(&self) -> Result<BatchStatus, StoreError> {
        status_of(self.job_status.as_deref(), "batch_job_execution", self.job_execution_id)
    }
}

/// The executions of an instance that have the same status.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct RunsRow {
    pub(crate) job_instance_id: i64,
    pub(crate) status: Option<String>,
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
    pub(crate) executions: i64,
}

/// One of the last executions of a job, briefly.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct RunRow {
    pub(crate) job_name: String,
    pub(crate) job_execution_id: i64,
    pub(crate) status: Option<String>,
    pub(crate) create_time: DbStamp,
    pub(crate) start_time: Option<DbStamp>,
    pub(crate) end_time: Option<DbStamp>,
    pub(crate) message: String,
}

/// How many executions of a job are in a status.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct OutcomeRow {
    pub(crate) job_name: String,
    pub(crate) status: Option<String>,
    pub(crate) runs: i64,
    pub(crate) latest: i64,
}

/// A job with its last execution.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct JobRow {
    pub(crate) job_name: String,
    pub(crate) instances: i64,
    pub(crate) job_execution_id: Option<i64>,
    pub(crate) status: Option<String>,
    pub(crate) create_time: Option<DbStamp>,
}

/// An instance with its last execution.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct InstanceRow {
    pub(crate) job_instance_id: i64,
    pub(crate) job_name: String,
    pub(crate) job_key: String,
    pub(crate) executions: i64,
    pub(crate) job_execution_id: Option<i64>,
    pub(crate) status: Option<String>,
    pub(crate) create_time: Option<DbStamp>,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct FailureRow {
    pub(crate) job_execution_id: i64,
    pub(crate) job_name: String,
    pub(crate) end_time: Option<DbStamp>,
    pub(crate) message: String,
}

pub(crate) fn status_of(
    word: Option<&str>,
    table: &'static str,
    row: i64,
) -> Result<BatchStatus, StoreError> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| damaged(table, "status", row))
}

fn on_crash_of(word: &str, limit: i64, row: i64) -> Result<OnCrash, StoreError> {
    let table = "tidemill_job_execution";
    let limit = u32::try_from(limit).map_err(|_| damaged(table, "crash_restart_limit", row))?;
    OnCrash::parse(word, limit).map_err(|_| damaged(table, "on_crash", row))
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct StoredRejectRow {
    pub(crate) id: i64,
    pub(crate) at: DbTime,
    pub(crate) phase: String,
    pub(crate) kind: String,
    pub(crate) error: String,
    pub(crate) place: Option<String>,
    pub(crate) item: Option<String>,
}

impl From<StoredRejectRow> for RejectRecord {
    fn from(row: StoredRejectRow) -> Self {
        Self {
            id: row.id,
            at: row.at.into(),
            phase: row.phase,
            kind: row.kind,
            error: row.error,
            place: row.place,
            item: row.item,
        }
    }
}
