//! Recent results of jobs, and executions that need attention. All counts are bounded, so the cost does not depend on
//! the length of the history.

use super::list::COUNTED_MAX;
use super::record::{EXECUTION, JobRecord, RunRecord, status_of};
use crate::error::Result;
use crate::statement::stored;
use crate::tx::Jobs;
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::job::track::Outcomes;
use tidemill_domain::time::Timestamp;

/// Runs counted per job at most.
pub const OUTCOMES_MAX: u32 = 200;

impl Jobs<'_> {
    /// Jobs that were launched at least once, by name, each with its last execution. Instances are not counted beyond
    /// the first.
    pub async fn latest_executions(&mut self, limit: u32) -> Result<Vec<JobRecord>> {
        Ok(self.job_list_jobs(limit, 1).await?)
    }

    /// The last runs of each of these jobs, at most `limit` of each, the newest first.
    pub async fn recent_runs(
        &mut self,
        jobs: &[&str],
        limit: u32,
    ) -> Result<HashMap<String, Vec<RunRecord>>> {
        let mut by_job: HashMap<String, Vec<RunRecord>> = HashMap::new();
        for run in self.job_track_recent(jobs, limit).await? {
            by_job.entry(run.job.clone()).or_default().push(run);
        }
        Ok(by_job)
    }

    /// The results of these jobs' runs since `since`, of the last [`OUTCOMES_MAX`] each.
    #[crate::boxed]
    pub async fn outcomes(&mut self, jobs: &[&str], since: Timestamp) -> Result<HashMap<String, Outcomes>> {
        let mut by_job: HashMap<String, Outcomes> = HashMap::new();
        let rows = self.job_track_outcomes(jobs, since.into(), OUTCOMES_MAX).await?;
        for (job, status, runs, latest) in rows {
            let status = status_of(status.as_deref(), "batch_job_execution", latest)?;
            by_job.entry(job).or_default().add(status, runs.unsigned_abs());
        }
        Ok(by_job)
    }
}

/// Counted up to [`COUNTED_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExecutionTally {
    pub running: u64,
    pub failed: u64,
}

stored! {
    /// A failed execution that was neither restarted nor resolved.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Failure in EXECUTION |row| {
        pub id: ExecutionId = "job_execution_id",
        pub job: String = "job_name",
        pub ended_at: Option<Timestamp> => row.stamp_if("end_time")?,
        pub message: String,
    }
}

impl Jobs<'_> {
    /// Executions that run now, and those that failed within this time.
    #[crate::boxed]
    pub async fn execution_tally(&mut self, within: Duration) -> Result<ExecutionTally> {
        let since = self.now().await?.minus(within);
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(ExecutionTally {
            running: count(self.job_attention_running(COUNTED_MAX).await?),
            failed: count(self.job_attention_failed_since(since.into(), COUNTED_MAX).await?),
        })
    }
}
