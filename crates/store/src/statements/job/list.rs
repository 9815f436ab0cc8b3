//! Lists jobs, instances and executions, newest first. Each is one query, however long the page.

use crate::job::{ExecutionRecord, InstanceRecord, JobRecord};
use crate::statement::statements;
use tidemill_domain::job::{ExecutionId, InstanceId};

/// Executions with our columns. Each filter has its own text, because an optional condition keeps the database from
/// using its index.
macro_rules! executions {
    ($rest:literal) => {
        concat!(
            "select e.job_execution_id as job_execution_id, e.job_instance_id as job_instance_id,
                    i.job_name as job_name, coalesce(e.version, 0) as version, e.status as status,
                    coalesce(e.exit_code, '') as exit_code,
                    coalesce(n.exit_text, e.exit_message, '') as exit_message,
                    e.create_time as create_time, e.start_time as start_time, e.end_time as end_time,
                    e.last_updated as last_updated,
                    n.launched_by as launched_by, coalesce(n.crash_restarts, 0) as crash_restarts
             from batch_job_execution e
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id ",
            $rest
        )
    };
}

statements! {
    /// Jobs by name, each with its last execution. Finds each name from the previous one, and the last execution in
    /// `tidemill_job_history`, so the cost does not depend on the length of the history. Counts at most `counted_max`
    /// instances, in the order of an index, because a planner may prefer to read the table up to a limit.
    fn job_list_jobs(limit: u32, counted_max: i64) -> Vec<JobRecord> {
        "with recursive name (job_name) as (
             select min(job_name)
             from batch_job_instance
             union all
             select (
                 select min(i.job_name)
                 from batch_job_instance i
                 where i.job_name > name.job_name
             )
             from name
             where name.job_name is not null
         )
         select j.job_name as job_name,
                (
                    select count(*)
                    from (
                        select 1
                        from batch_job_instance i
                        where i.job_name = j.job_name
                        order by i.job_instance_id
                        limit $2
                    ) as counted
                ) as instances,
                e.job_execution_id as job_execution_id, e.status as status, e.create_time as create_time
         from (
             select job_name
             from name
             where job_name is not null
             limit $1
         ) j
         left join batch_job_execution e on e.job_execution_id = (
             select max(h.job_execution_id)
             from tidemill_job_history h
             where h.job_name = j.job_name
         )
         order by j.job_name"
    }

    /// Instances of one job, each with its last execution; counts at most `counted_max` executions. Needs the index on
    /// the instances of a job.
    fn job_list_instances(job: &str, before: i64, limit: u32, counted_max: i64) -> Vec<InstanceRecord> {
        "select i.job_instance_id as job_instance_id, i.job_name as job_name, i.job_key as job_key,
                (
                    select count(*)
                    from (
                        select 1
                        from batch_job_execution c
                        where c.job_instance_id = i.job_instance_id
                        order by c.job_execution_id
                        limit $4
                    ) as counted
                ) as executions,
                e.job_execution_id as job_execution_id, e.status as status, e.create_time as create_time
         from (
             select b.job_instance_id as job_instance_id, b.job_name as job_name, b.job_key as job_key,
                    (
                        select max(l.job_execution_id)
                        from batch_job_execution l
                        where l.job_instance_id = b.job_instance_id
                    ) as latest
             from batch_job_instance b
             where b.job_name = $1
               and b.job_instance_id < $2
             order by b.job_instance_id desc
             limit $3
         ) i
         left join batch_job_execution e on e.job_execution_id = i.latest
         order by i.job_instance_id desc"
    }

    fn job_list_execution(id: ExecutionId) -> Option<ExecutionRecord> {
        executions!("where e.job_execution_id = $1")
    }

    fn job_list_executions(before: i64, limit: i64) -> Vec<ExecutionRecord> {
        executions!(
            "where e.job_execution_id < $1 order by e.job_execution_id desc limit $2"
        )
    }

    /// Needs the index on the status.
    fn job_list_executions_in_status(status: &str, before: i64, limit: i64) -> Vec<ExecutionRecord> {
        executions!(
            "where e.status = $1 and e.job_execution_id < $2
             order by e.job_execution_id desc limit $3"
        )
    }

    /// Needs the index on `tidemill_job_history`; takes the page from it before any join: a planner that joins first
    /// may scan everything newer.
    fn job_list_executions_of_job(job: &str, before: i64, limit: i64) -> Vec<ExecutionRecord> {
        executions!(
            "where e.job_execution_id in (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = $1
                   and h.job_execution_id < $2
                 order by h.job_execution_id desc
                 limit $3
             )
             order by e.job_execution_id desc"
        )
    }

    fn job_list_executions_of_job_in_status(
        job: &str, status: &str, before: i64, limit: i64,
    ) -> Vec<ExecutionRecord> {
        executions!(
            "where e.job_execution_id in (
                 select s.job_execution_id
                 from batch_job_execution s
                 join tidemill_job_history h on h.job_execution_id = s.job_execution_id
                 where h.job_name = $1
                   and s.status = $2
                   and h.job_execution_id < $3
                   and s.job_execution_id < $3
                 order by s.job_execution_id desc
                 limit $4
             )
             order by e.job_execution_id desc"
        )
    }

    /// Optionally of one job and in one status. Needs the index on the executions of an instance.
    fn job_list_executions_of_instance(
        instance: InstanceId, job: Option<&str>, status: Option<&str>, before: i64, limit: i64,
    ) -> Vec<ExecutionRecord> {
        bind(instance, before, job, status, limit)
        executions!(
            "where e.job_instance_id = $1
               and e.job_execution_id < $2
               and ($3{::text} is null or i.job_name = $3)
               and ($4{::text} is null or e.status = $4)
             order by e.job_execution_id desc limit $5"
        )
    }
}
