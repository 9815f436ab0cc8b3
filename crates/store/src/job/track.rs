//! How jobs have been doing lately. Nothing here depends on how long their history is.

use super::record::{JobRecord, RunRecord, status_of};
use crate::error::StoreError;
use crate::tx::Jobs;
use std::collections::HashMap;
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
