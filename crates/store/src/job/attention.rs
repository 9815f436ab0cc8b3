//! Executions that somebody may have to look at. All is counted only so far, and nothing depends on how long the history
//! is.

use super::list::COUNTED_MAX;
use crate::error::StoreError;
use crate::tx::Jobs;
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::time::Timestamp;

/// How many executions are under way or have failed; what is [`COUNTED_MAX`] may be more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExecutionTally {
    /// Those that have not ended.
    pub running: u64,
    pub failed: u64,
}

/// An execution that failed, and nobody has gone on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub id: ExecutionId,
    pub job: String,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    pub message: String,
}

impl Jobs<'_> {
    /// How many executions are under way, and how many failed within this time.
    pub async fn execution_tally(&mut self, within: Duration) -> Result<ExecutionTally, StoreError> {
        let since = self.now().await?.minus(within);
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(ExecutionTally {
            running: count(self.job_attention_running(COUNTED_MAX).await?),
            failed: count(self.job_attention_failed_since(since.into(), COUNTED_MAX).await?),
        })
    }

    /// Of the last `among` executions that failed, those that nobody has gone on with, the newest first.
    pub async fn open_failures(&mut self, among: u32) -> Result<Vec<Failure>, StoreError> {
        let rows = self.job_attention_failures(among.into()).await?;
        let failure = |row: crate::row::job::FailureRow| Failure {
            id: ExecutionId::new(row.job_execution_id),
            job: row.job_name,
            ended_at: row.end_time.map(|end| end.0),
            message: row.message,
        };
        Ok(rows.into_iter().map(failure).collect())
    }
}
