//! Rows of partitions.

use super::job::status_of;
use crate::error::StoreError;
use tidemill_domain::job::BatchStatus;

/// The last run of a partition in its instance.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ChainRow {
    pub(crate) step_execution_id: i64,
    pub(crate) job_execution_id: i64,
    pub(crate) step_name: String,
    pub(crate) status: Option<String>,
    /// The first run that this one goes on from.
    pub(crate) chain_id: i64,
    pub(crate) starts: i64,
}

impl ChainRow {
    pub(crate) fn status(&self) -> Result<BatchStatus, StoreError> {
        status_of(self.status.as_deref(), "batch_step_execution", self.step_execution_id)
    }
}

/// A partition that nobody may be running.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ClaimRow {
    pub(crate) step_execution_id: i64,
    pub(crate) job_execution_id: i64,
    pub(crate) job_name: String,
    pub(crate) worker: String,
}

/// How many partitions ended in the same way, and one of them.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct OutcomeRow {
    pub(crate) status: Option<String>,
    pub(crate) exit_code: String,
    pub(crate) partitions: i64,
    pub(crate) step_execution_id: i64,
    pub(crate) step_name: String,
    pub(crate) exit_message: String,
}

impl OutcomeRow {
    pub(crate) fn status(&self) -> Result<BatchStatus, StoreError> {
        status_of(self.status.as_deref(), "batch_step_execution", self.step_execution_id)
    }
}
