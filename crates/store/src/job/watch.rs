//! What alerts and metrics watch: failures that nobody has resolved, and active executions by job.

use super::list::COUNTED_MAX;
use super::record::EXECUTION;
use crate::codec::DbStamp;
use crate::error::Result;
use crate::statement::{statements, stored};
use crate::tx::Jobs;
use std::time::Duration;
use tidemill_domain::job::ExecutionId;

stored! {
    /// A job with instances that have failed and have neither completed nor been abandoned since.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FailedJob in EXECUTION {
        pub job: String = "job_name",
        /// How many such instances there are.
        pub instances: u64,
        /// How many of them have an execution that runs, or an automatic restart that has just become due.
        pub restarting: u64,
        /// The last execution that failed, of those that are not being restarted if there are any.
        pub execution: ExecutionId = "job_execution_id",
        /// The first step that failed in it, if any.
        pub step: Option<String> = "step_name",
        /// The beginning of its error. May contain data of items.
        pub message: String,
    }
}

impl Jobs<'_> {
    /// At most `limit` jobs with failures that ended within this time, by name. An automatic restart counts while it has
    /// been due for at most `restart_within`: after that, no server has the job.
    #[crate::boxed]
    pub async fn failed_jobs(
        &mut self,
        within: Duration,
        restart_within: Duration,
        limit: u32,
    ) -> Result<Vec<FailedJob>> {
        let now = self.now().await?;
        let (since, due_since) = (now.minus(within), now.minus(restart_within));
        Ok(self.job_watch_failed(since.into(), due_since.into(), limit).await?)
    }

    /// How many executions of each job are active, the first [`COUNTED_MAX`] of all.
    pub async fn active_executions(&mut self) -> Result<Vec<(String, i64)>> {
        Ok(self.job_watch_active(COUNTED_MAX).await?)
    }
}

statements! {
    /// Needs the index on failed executions. With scalar subqueries, which each use an index: a planner might read a
    /// whole table for a join.
    fn job_watch_failed(since: DbStamp, due_since: DbStamp, limit: u32) -> Vec<FailedJob> {
        "with unresolved as materialized (
             select e.job_execution_id as job_execution_id,
                    (
                        select i.job_name
                        from batch_job_instance i
                        where i.job_instance_id = e.job_instance_id
                    ) as job_name,
                    (
                        select count(*)
                        from batch_job_execution r
                        where r.job_instance_id = e.job_instance_id
                          and r.status in ('STARTING', 'STARTED', 'STOPPING')
                    ) + (
                        select count(*)
                        from tidemill_job_execution n
                        where n.job_execution_id = e.job_execution_id
                          and n.restart_due {= 1}
                          and e.end_time >= $2
                    ) > 0 as is_restarting
             from batch_job_execution e {indexed by tidemill_batch_job_execution_failed}
             where e.status = 'FAILED'
               and e.end_time >= $1
               and e.job_execution_id = (
                   select max(l.job_execution_id)
                   from batch_job_execution l
                   where l.job_instance_id = e.job_instance_id
                     and l.status in ('COMPLETED', 'FAILED', 'ABANDONED')
               )
         )
         select j.job_name as job_name, j.instances as instances, j.restarting as restarting,
                j.job_execution_id as job_execution_id,
                (
                    select s.step_name
                    from batch_step_execution s
                    where s.job_execution_id = j.job_execution_id
                      and s.status = 'FAILED'
                    order by s.step_execution_id
                    limit 1
                ) as step_name,
                (
                    select substr(coalesce(m.exit_message, ''), 1, 300)
                    from batch_job_execution m
                    where m.job_execution_id = j.job_execution_id
                ) as message
         from (
             select u.job_name as job_name, count(*) as instances,
                    count(*) filter (where u.is_restarting) as restarting,
                    coalesce(
                        max(u.job_execution_id) filter (where not u.is_restarting), max(u.job_execution_id)
                    ) as job_execution_id
             from unresolved u
             group by u.job_name
             order by u.job_name
             limit $3
         ) as j
         order by j.job_name"
    }

    fn job_watch_active(limit: i64) -> Vec<(String, i64)> {
        "select active.job_name, count(*)
         from (
             select (
                        select i.job_name
                        from batch_job_instance i
                        where i.job_instance_id = e.job_instance_id
                    ) as job_name
             from batch_job_execution e
             where e.status in ('STARTING', 'STARTED', 'STOPPING')
             limit $1
         ) as active
         group by active.job_name
         order by active.job_name"
    }
}
