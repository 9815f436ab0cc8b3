//! Statements about executions that somebody may have to look at. All are bounded, and find their rows by the index on
//! the status.

use crate::codec::DbStamp;
use crate::job::Failure;
use crate::statement::{One, statements};

statements! {
    /// How many have not ended, counted up to `limit`.
    fn job_attention_running(limit: i64) -> One<i64> {
        "select count(*)
         from (
             select 1
             from batch_job_execution
             where status in ('STARTING', 'STARTED', 'STOPPING')
             limit $1
         ) as counted"
    }

    /// How many of the last `limit` that failed ended since an instant.
    fn job_attention_failed_since(since: DbStamp, limit: i64) -> One<i64> {
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

    /// Of the last `limit` that failed, those that nobody has gone on with, the newest first.
    fn job_attention_failures(limit: i64) -> Vec<Failure> {
        "select e.job_execution_id, i.job_name, e.end_time, substr(coalesce(e.exit_message, ''), 1, 300) as message
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
