//! Statements on `batch_job_instance`, and on the history of one instance.

use crate::statement::{Exists, One, statements};
use tidemill_domain::job::instance::{RUN_ID, job_key};
use tidemill_domain::job::{InstanceId, JobParameters};

statements! {
    /// Serialises the launches of one instance.
    fn job_instance_lock(job: &str, key: &str) -> Option<i64> {
        "select job_instance_id from batch_job_instance where job_name = $1 and job_key = $2
         {for no key update}"
    }

    fn job_instance_lock_by_id(id: i64) -> () {
        "select job_instance_id from batch_job_instance where job_instance_id = $1 {for no key update}"
    }

    /// Waits for a transaction that inserts or deletes the same one. An existing row is locked by an update that
    /// changes nothing, so that it cannot be deleted before this transaction has read it.
    fn job_instance_insert(job: &str, key: &str) -> One<i64> {
        "insert into batch_job_instance as i (job_instance_id, version, job_name, job_key)
         values ({next batch_job_seq}, 0, $1, $2)
         on conflict (job_name, job_key) do update set version = i.version
         returning job_instance_id"
    }

    /// The executions that a launch has to know, the latest of all last: those without an end, one that is final, and
    /// the latest. An instance without identifying parameters may have a million executions, so this does not read them
    /// all.
    fn job_instance_statuses(id: i64) -> Vec<(Option<String>, i64)> {
        "select status, job_execution_id
         from (
             select status, job_execution_id
             from batch_job_execution
             where job_instance_id = $1
               and status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
             union
             select status, job_execution_id
             from (
                 select status, job_execution_id
                 from batch_job_execution
                 where job_instance_id = $1
                   and status in ('COMPLETED', 'ABANDONED')
                 order by job_execution_id desc
                 limit 1
             ) one_that_is_over
             union
             select status, job_execution_id
             from (
                 select status, job_execution_id
                 from batch_job_execution
                 where job_instance_id = $1
                 order by job_execution_id desc
                 limit 1
             ) latest
         ) known
         order by job_execution_id"
    }

    fn job_instance_step_statuses(execution: i64) -> Vec<(String, Option<String>, i64)> {
        "select step_name, status, step_execution_id from batch_step_execution where job_execution_id = $1
         order by step_execution_id"
    }

    /// `job_instance_lock` without a lock.
    fn job_instance_find(job: &str, key: &str) -> Option<i64> {
        "select job_instance_id from batch_job_instance where job_name = $1 and job_key = $2"
    }

    /// Among all instances of a job.
    pub fn Jobs::greatest_run_id(job: &str) -> One<Option<i64>> {
        bind(job, RUN_ID)
        postgres {
            "select max(case when p.parameter_value ~ '^-?[0-9]{1,18}$' then p.parameter_value::bigint end)
             from batch_job_instance i
             join batch_job_execution e on e.job_instance_id = i.job_instance_id
             join batch_job_execution_params p on p.job_execution_id = e.job_execution_id
             where i.job_name = $1
               and p.parameter_name = $2
               and p.parameter_type = 'java.lang.Long'
               and p.identifying = 'Y'"
        }
        sqlite {
            "select max(cast(p.parameter_value as integer)) from batch_job_instance i
             join batch_job_execution e on e.job_instance_id = i.job_instance_id
             join batch_job_execution_params p on p.job_execution_id = e.job_execution_id
             where i.job_name = $1
               and p.parameter_name = $2
               and p.parameter_type = 'java.lang.Long'
               and p.identifying = 'Y'"
        }
    }

    /// Whether an execution launched by a step of `outer` has completed the instance with these parameters.
    pub fn Jobs::has_completed_within(job: &str, parameters: &JobParameters, outer: InstanceId) -> Exists {
        bind(job, job_key(parameters), outer)
        "select e.job_execution_id from batch_job_instance i
         join batch_job_execution e on e.job_instance_id = i.job_instance_id
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         join batch_job_execution o on o.job_execution_id = n.outer_execution_id
         where i.job_name = $1 and i.job_key = $2 and e.status = 'COMPLETED' and o.job_instance_id = $3
         limit 1"
    }
}
