//! What alerts and metrics watch: failures that nobody has resolved, and active executions by job.

use super::list::COUNTED_MAX;
use super::record::EXECUTION;
use crate::codec::DbStamp;
use crate::error::Result;
use crate::statement::{statements, stored};
use crate::tx::Jobs;
use std::time::Duration;
use tidemill_domain::job::{ExecutionId, InstanceId};

stored! {
    /// An instance that has failed and has neither completed nor been abandoned since.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct UnresolvedFailure in EXECUTION {
        pub job: String = "job_name",
        pub instance: InstanceId = "job_instance_id",
        /// The last execution that failed.
        pub execution: ExecutionId = "job_execution_id",
        /// The first step that failed in it, if any.
        pub step: Option<String> = "step_name",
        /// The beginning of its error.
        pub message: String,
        /// How many executions of the instance have failed.
        pub failures: u64,
        /// Whether a later execution runs, or an automatic restart is due.
        pub is_restarting: bool,
    }
}

impl Jobs<'_> {
    /// Failures that ended within this time, of the last `limit` failed executions, the newest first.
    #[crate::boxed]
    pub async fn unresolved_failures(
        &mut self,
        within: Duration,
        limit: u32,
    ) -> Result<Vec<UnresolvedFailure>> {
        let since = self.now().await?.minus(within);
        Ok(self.job_watch_unresolved(since.into(), limit).await?)
    }

    /// How many executions of each job are active, the first [`COUNTED_MAX`] of all.
    pub async fn active_executions(&mut self) -> Result<Vec<(String, i64)>> {
        Ok(self.job_watch_active(COUNTED_MAX).await?)
    }
}

statements! {
    /// With scalar subqueries, which each use an index: a planner might read a whole table for a join.
    fn job_watch_unresolved(since: DbStamp, limit: u32) -> Vec<UnresolvedFailure> {
        "select e.job_execution_id as job_execution_id, e.job_instance_id as job_instance_id,
                (
                    select i.job_name
                    from batch_job_instance i
                    where i.job_instance_id = e.job_instance_id
                ) as job_name,
                (
                    select s.step_name
                    from batch_step_execution s
                    where s.job_execution_id = e.job_execution_id
                      and s.status = 'FAILED'
                    order by s.step_execution_id
                    limit 1
                ) as step_name,
                substr(coalesce(e.exit_message, ''), 1, 300) as message,
                (
                    select count(*)
                    from batch_job_execution f
                    where f.job_instance_id = e.job_instance_id
                      and f.status = 'FAILED'
                ) as failures,
                (
                    select count(*)
                    from batch_job_execution r
                    where r.job_instance_id = e.job_instance_id
                      and r.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
                ) + (
                    select count(*)
                    from tidemill_job_execution n
                    where n.job_execution_id = e.job_execution_id
                      and n.restart_due {= 1}
                ) > 0 as is_restarting
         from (
             select job_execution_id, job_instance_id, end_time, exit_message
             from batch_job_execution
             where status = 'FAILED'
             order by job_execution_id desc
             limit $2
         ) e
         where e.end_time >= $1
           and e.job_execution_id = (
               select max(l.job_execution_id)
               from batch_job_execution l
               where l.job_instance_id = e.job_instance_id
                 and l.status in ('COMPLETED', 'FAILED', 'ABANDONED')
           )
         order by e.job_execution_id desc"
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
