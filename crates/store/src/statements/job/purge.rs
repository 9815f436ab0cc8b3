//! Statements of retention. Lists are bound as arrays.

use crate::codec::DbStamp;
use crate::job::purge::RunsRow;
use crate::statement::{column, list, statements};

statements! {
    /// The next job by name.
    pub fn Jobs::next(after: Option<&str>) -> Option<String> {
        bind(after.unwrap_or_default())
        "select job_name from batch_job_instance where job_name > $1 order by job_name limit 1"
    }

    /// The newest instance of a job that is not among the newest `keep`.
    fn job_purge_newest_beyond(job: &str, keep: u32) -> Option<i64> {
        "select job_instance_id from batch_job_instance where job_name = $1 order by job_instance_id desc
         limit 1 offset $2"
    }

    /// Instances of a job in the range, the oldest first. Needs the index on the instances of a job.
    fn job_purge_walk(job: &str, after: i64, up_to: i64, limit: u32) -> Vec<i64> {
        "select job_instance_id from batch_job_instance
         where job_name = $1 and job_instance_id > $2 and job_instance_id <= $3
         order by job_instance_id limit $4"
    }

    /// Locks instances, so that their launches wait; skips locked ones. A launch locks its instance without changing
    /// it, so read dependent rows after this.
    fn job_purge_lock(instances: &[i64]) -> Vec<i64> {
        bind(list(instances))
        "select job_instance_id from batch_job_instance where job_instance_id {in $1}
         order by job_instance_id {for update skip locked}"
    }

    /// The executions of instances by status. Needs the index on the executions of an instance.
    fn job_purge_runs(instances: &[i64]) -> Vec<RunsRow> {
        bind(list(instances))
        "select job_instance_id as job_instance_id, status as status, min(job_execution_id) as earliest,
                max(job_execution_id) as latest, count(*) as executions
         from batch_job_execution where job_instance_id {in $1}
         group by job_instance_id, status
         order by job_instance_id, latest"
    }

    /// When executions were created, and when they ended or last changed.
    fn job_purge_times(executions: &[i64]) -> Vec<(i64, DbStamp, DbStamp)> {
        bind(list(executions))
        "select job_execution_id, create_time, coalesce(end_time, last_updated, create_time)
         from batch_job_execution where job_execution_id {in $1}"
    }

    /// The instances with a due restart, and those with an execution held by a process.
    fn job_purge_bound(instances: &[i64]) -> Vec<(i64, bool, bool)> {
        bind(list(instances))
        "select e.job_instance_id, count(*) filter (where n.restart_due {= 1}) > 0, count(l.name) > 0
         from batch_job_execution e
         left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         left join tidemill_lease l on l.kind = 'job'
             and l.name = cast(e.job_execution_id as text)
             and l.owner is not null
         where e.job_instance_id {in $1} and (n.restart_due {= 1} or l.name is not null)
         group by e.job_instance_id"
    }

    /// For instances that ran as a step of another job: the status of the last execution of that job's instance.
    fn job_purge_outers(instances: &[i64]) -> Vec<(i64, Option<String>)> {
        bind(list(instances))
        "select distinct e.job_instance_id, last.status from batch_job_execution e
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
             and n.outer_execution_id is not null
         join batch_job_execution o on o.job_execution_id = n.outer_execution_id
         join batch_job_execution last on last.job_execution_id = (
             select max(l.job_execution_id)
             from batch_job_execution l
             where l.job_instance_id = o.job_instance_id
         )
         where e.job_instance_id {in $1}"
    }

    fn job_purge_executions(instances: &[i64]) -> Vec<i64> {
        bind(list(instances))
        "select job_execution_id from batch_job_execution where job_instance_id {in $1}"
    }

    fn job_purge_steps(executions: &[i64]) -> Vec<i64> {
        bind(list(executions))
        "select step_execution_id from batch_step_execution where job_execution_id {in $1}"
    }

    fn job_purge_delete_rejects(steps: &[i64]) -> u64 {
        bind(list(steps))
        "delete from tidemill_reject where step_execution_id {in $1}"
    }

    fn job_purge_delete_step_contexts(steps: &[i64]) -> u64 {
        bind(list(steps))
        "delete from batch_step_execution_context where step_execution_id {in $1}"
    }

    fn job_purge_delete_step_notes(steps: &[i64]) -> u64 {
        bind(list(steps))
        "delete from tidemill_step_execution where step_execution_id {in $1}"
    }

    /// After all rows that refer to them.
    fn job_purge_delete_steps(steps: &[i64]) -> u64 {
        bind(list(steps))
        "delete from batch_step_execution where step_execution_id {in $1}"
    }

    fn job_purge_delete_parameters(executions: &[i64]) -> u64 {
        bind(list(executions))
        "delete from batch_job_execution_params where job_execution_id {in $1}"
    }

    fn job_purge_delete_contexts(executions: &[i64]) -> u64 {
        bind(list(executions))
        "delete from batch_job_execution_context where job_execution_id {in $1}"
    }

    fn job_purge_delete_notes(executions: &[i64]) -> u64 {
        bind(list(executions))
        "delete from tidemill_job_execution where job_execution_id {in $1}"
    }

    /// Only free ones.
    fn job_purge_delete_leases(executions: &[i64]) -> u64 {
        bind(list(&column(executions, i64::to_string)))
        "delete from tidemill_lease where kind = 'job' and name {in $1} and owner is null"
    }

    /// After all rows that refer to them.
    fn job_purge_delete_executions(executions: &[i64]) -> u64 {
        bind(list(executions))
        "delete from batch_job_execution where job_execution_id {in $1}"
    }

    fn job_purge_delete_instances(instances: &[i64]) -> u64 {
        bind(list(instances))
        "delete from batch_job_instance where job_instance_id {in $1}"
    }
}
