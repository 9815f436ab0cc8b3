//! How jobs have been doing lately, and executions that somebody may have to look at. All is counted only so far, and
//! nothing here depends on how long the history is.

use super::list::COUNTED_MAX;
use super::record::{EXECUTION, JobRecord, RunRecord, status_of};
use crate::error::StoreError;
use crate::statement::stored;
use crate::tx::Jobs;
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::job::track::Outcomes;
use tidemill_domain::time::Timestamp;

/// How many of the last runs of a job are counted at most, however many there were since.
pub const OUTCOMES_MAX: u32 = 200;

impl Jobs<'_> {
    /// At most `limit` jobs that have been launched at some time, by name, each with its last execution. Their instances
    /// are not counted beyond the first.
    pub async fn standings(&mut self, limit: u32) -> Result<Vec<JobRecord>, StoreError> {
        Ok(self.job_list_jobs(limit.into(), 1).await?)
    }

    /// The last runs of each of these jobs, at most `limit` of each, the newest first.
    pub async fn recent_runs(
        &mut self,
        jobs: &[&str],
        limit: u32,
    ) -> Result<HashMap<String, Vec<RunRecord>>, StoreError> {
        let mut by_job: HashMap<String, Vec<RunRecord>> = HashMap::new();
        for run in self.job_track_recent(jobs, limit.into()).await? {
            by_job.entry(run.job.clone()).or_default().push(run);
        }
        Ok(by_job)
    }

    /// How the runs of each of these jobs ended that were made since `since`, of the last [`OUTCOMES_MAX`] each.
    #[crate::boxed]
    pub async fn outcomes(
        &mut self,
        jobs: &[&str],
        since: Timestamp,
    ) -> Result<HashMap<String, Outcomes>, StoreError> {
        let mut by_job: HashMap<String, Outcomes> = HashMap::new();
        let rows = self.job_track_outcomes(jobs, since.into(), OUTCOMES_MAX.into()).await?;
        for (job, status, runs, latest) in rows {
            let status = status_of(status.as_deref(), "batch_job_execution", latest)?;
            by_job.entry(job).or_default().add(status, runs.unsigned_abs());
        }
        Ok(by_job)
    }
}

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
    #[crate::boxed]
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
