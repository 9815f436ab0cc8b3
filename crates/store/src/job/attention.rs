//! Executions that somebody may have to look at. All is counted only so far, and nothing depends on how long the history
//! is.

use super::list::COUNTED_MAX;
use super::record::EXECUTION;
use crate::error::StoreError;
use crate::statement::stored;
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

stored! {
    /// An execution that failed, and nobody has gone on with.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Failure in EXECUTION |row| {
        pub id: ExecutionId = "job_execution_id",
        pub job: String = "job_name",
        pub ended_at: Option<Timestamp> => row.stamp_if("end_time")?,
        pub message: String,
    }
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
        Ok(self.job_attention_failures(among.into()).await?)
    }
}
