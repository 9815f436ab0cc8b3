//! Recent results of jobs, and executions that need attention. Counts are bounded, however long the history is.

use super::list::COUNTED_MAX;
use super::record::{EXECUTION, JobRecord, RunRecord, status_of};
use crate::codec::DbStamp;
use crate::error::Result;
use crate::statement::{Total, statements, stored};
use crate::tx::Jobs;
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::job::track::Outcomes;
use tidemill_domain::time::Timestamp;

/// Runs counted per job at most.
pub const OUTCOMES_MAX: u32 = 200;

impl Jobs<'_> {
    /// Jobs that were launched at least once, by name, each with its last execution. Counts at most one instance.
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
        Ok(ExecutionTally {
            running: self.job_attention_running(COUNTED_MAX).await?,
            failed: self.job_attention_failed_since(since.into(), COUNTED_MAX).await?,
        })
    }
}

statements! {
    /// Newest first.
    fn job_track_recent(jobs: &[&str], limit: u32) -> Vec<RunRecord> {
        postgres {
            "select j.job_name, e.job_execution_id, e.status, e.create_time, e.start_time, e.end_time,
                    case
                        when e.status in ('FAILED', 'ABANDONED', 'UNKNOWN')
                        then substr(coalesce(e.exit_message, ''), 1, 300)
                        else ''
                    end as message
             from unnest($1::text[]) as j (job_name)
             cross join lateral (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.job_name
                 order by h.job_execution_id desc
                 limit $2
             ) l
             cross join lateral (
                 select x.job_execution_id, x.status, x.create_time, x.start_time, x.end_time, x.exit_message
                 from batch_job_execution x
                 where x.job_execution_id = l.job_execution_id
                 limit 1
             ) e
             order by e.job_execution_id desc"
        }
        sqlite {
            "select j.value as job_name, e.job_execution_id as job_execution_id, e.status as status,
                    e.create_time as create_time, e.start_time as start_time, e.end_time as end_time,
                    case
                        when e.status in ('FAILED', 'ABANDONED', 'UNKNOWN')
                        then substr(coalesce(e.exit_message, ''), 1, 300)
                        else ''
                    end as message
             from json_each($1) j
             cross join batch_job_execution e
             where e.job_execution_id in (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.value
                 order by h.job_execution_id desc
                 limit $2
             )
             order by e.job_execution_id desc"
        }
    }

    /// The last executions of each of these jobs since an instant: how many are in which status, and the latest.
    fn job_track_outcomes(jobs: &[&str], since: DbStamp, limit: u32) -> Vec<(String, Option<String>, i64, i64)> {
        postgres {
            "select j.job_name, e.status, count(*) as runs, max(e.job_execution_id) as latest
             from unnest($1::text[]) as j (job_name)
             cross join lateral (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.job_name
                 order by h.job_execution_id desc
                 limit $3
             ) l
             cross join lateral (
                 select x.job_execution_id, x.status, x.create_time
                 from batch_job_execution x
                 where x.job_execution_id = l.job_execution_id
                 limit 1
             ) e
             where e.create_time >= $2
             group by j.job_name, e.status"
        }
        sqlite {
            "select j.value as job_name, e.status as status, count(*) as runs, max(e.job_execution_id) as latest
             from json_each($1) j
             cross join batch_job_execution e
             where e.job_execution_id in (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.value
                 order by h.job_execution_id desc
                 limit $3
             )
               and e.create_time >= $2
             group by j.value, e.status"
        }
    }

    /// Counted up to `limit`.
    fn job_attention_running(limit: i64) -> Total {
        "select count(*)
         from (
             select 1
             from batch_job_execution
             where status in ('STARTING', 'STARTED', 'STOPPING')
             limit $1
         ) as counted"
    }

    /// How many of the last `limit` failed executions ended since an instant.
    fn job_attention_failed_since(since: DbStamp, limit: i64) -> Total {
        "select count(*)
         from (
             select end_time
             from batch_job_execution
             where status = 'FAILED'
             order by job_execution_id desc
             limit $2
         ) as latest
         where end_time >= $1"
    }

    /// Of the last `limit` failed executions, those neither restarted nor resolved, the newest first.
    pub fn Jobs::open_failures(limit: u32) -> Vec<Failure> {
        "select e.job_execution_id as job_execution_id, i.job_name as job_name, e.end_time as end_time,
                substr(coalesce(e.exit_message, ''), 1, 300) as message
         from (
             select job_execution_id, job_instance_id, end_time, exit_message
             from batch_job_execution
             where status = 'FAILED'
             order by job_execution_id desc
             limit $1
         ) as e
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where not exists (
             select 1
             from batch_job_execution later
             where later.job_instance_id = e.job_instance_id
               and later.job_execution_id > e.job_execution_id
         )
         order by e.job_execution_id desc"
    }
}
