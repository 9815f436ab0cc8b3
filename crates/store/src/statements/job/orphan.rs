//! Statements on executions whose process is gone.

use crate::codec::DbId;
use crate::job::DueRestart;
use crate::job::orphan::Orphan;
use crate::statement::{rows, statements};
use serde_json::json;

statements! {
    /// Our executions that count as running while their lease is free. A job's lease is granted once, in the
    /// transaction that creates the execution, so a free one stays free. Skips locked rows. Needs the partial index on
    /// executions without an end.
    fn job_orphan_lock(limit: u32) -> Vec<Orphan> {
        "select e.job_execution_id as job_execution_id, i.job_name as job_name, e.status as status,
                n.on_crash as on_crash, n.crash_restart_limit as crash_restart_limit,
                n.crash_restarts as crash_restarts,
                p.name as process_name, p.host as process_host, p.pid as process_pid, p.state as process_state,
                p.heartbeat_at as process_heartbeat_at
         from batch_job_execution e
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join tidemill_process p on p.id = n.owner
         where e.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
           and e.status <> 'UNKNOWN'
           and not exists (
               select 1 from tidemill_lease l
               where l.kind = 'job'
                 and l.name = cast(e.job_execution_id as text)
                 and l.owner is not null
           )
         order by e.job_execution_id limit $1 {for no key update of e skip locked}"
    }

    /// Of one of these jobs, by name and fingerprint; a process with another definition would be refused. Also locks
    /// the instance, because the launch that follows does, and the lock order is instance first.
    fn job_orphan_lock_due_restart(jobs: &[(&str, Option<&str>)]) -> Option<DueRestart> {
        bind(rows(jobs, |(job, fingerprint)| json!({ "job": job, "fingerprint": fingerprint })))
        "select n.job_execution_id as job_execution_id, i.job_name as job_name, n.crash_restarts as crash_restarts
         from tidemill_job_execution n
         join batch_job_execution e on e.job_execution_id = n.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         join {rows known $1: job text, fingerprint text} on known.job = i.job_name
         where n.restart_due {= 1} and (known.fingerprint = n.fingerprint) is not false
         order by n.job_execution_id limit 1 {for no key update of i, n skip locked}"
    }

    fn job_orphan_restart_taken(execution: i64) -> () {
        "update tidemill_job_execution set restart_due = false where job_execution_id = $1"
    }

    /// Live tickets of executions that have ended. Runs of other programs may have any name, so only numbers are read
    /// as ids. Needs the partial index on tickets without an end.
    fn job_units_of_ended(run_prefix: &str, limit: u32) -> Vec<(String, DbId)> {
        postgres {
            "select t.pool, t.id from tidemill_pool_ticket t
             join batch_job_execution e
               on e.job_execution_id = case
                   when substr(t.run_id, length($1) + 1) ~ '^[0-9]{1,18}$'
                   then cast(substr(t.run_id, length($1) + 1) as bigint)
               end
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             where t.ended_at is null
               and t.run_id = $1 || cast(e.job_execution_id as text)
               and t.dag_id = i.job_name
               and e.status in ('COMPLETED', 'FAILED', 'STOPPED', 'ABANDONED')
             order by t.pool, t.id limit $2"
        }
        sqlite {
            // Other texts read as 0, which no execution has.
            "select t.pool, t.id from tidemill_pool_ticket t
             join batch_job_execution e
               on e.job_execution_id = cast(substr(t.run_id, length($1) + 1) as integer)
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             where t.ended_at is null
               and t.run_id = $1 || cast(e.job_execution_id as text)
               and t.dag_id = i.job_name
               and e.status in ('COMPLETED', 'FAILED', 'STOPPED', 'ABANDONED')
             order by t.pool, t.id limit $2"
        }
    }
}
