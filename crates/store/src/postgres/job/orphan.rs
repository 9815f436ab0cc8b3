//! Statements on executions whose process is gone.

use crate::row::job::{DueRestartRow, OrphanRow};
use sqlx::PgConnection;

/// Executions of ours that count as running while nobody holds their lease. A lease of a job is given once, in the
/// transaction that makes the execution, so what is free here stays free. Rows in somebody's hands are left for the
/// next time. Needs the partial index on executions without an end.
pub(crate) async fn lock(connection: &mut PgConnection, limit: i64) -> Result<Vec<OrphanRow>, sqlx::Error> {
    sqlx::query_as(
        "select e.job_execution_id, i.job_name, e.status, n.on_crash, n.crash_restart_limit, n.crash_restarts,
                p.name as process_name, p.host as process_host, p.pid as process_pid, p.state as process_state,
                p.heartbeat_at as process_heartbeat_at
         from batch_job_execution e
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join tidemill_process p on p.id = n.owner
         where e.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
           and e.status <> 'UNKNOWN'
           and not exists (
               select from tidemill_lease l
               where l.kind = 'job'
                 and l.name = e.job_execution_id::text
                 and l.owner is not null
           )
         order by e.job_execution_id
         limit $1
         for no key update of e skip locked",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Of one of these jobs, by name and fingerprint; a process with another definition would only be refused. The instance is locked as well, because the launch that follows locks it, and whoever else wants both takes
/// the instance first.
pub(crate) async fn lock_due_restart(
    connection: &mut PgConnection,
    jobs: &[(&str, Option<&str>)],
) -> Result<Option<DueRestartRow>, sqlx::Error> {
    sqlx::query_as(
        "select n.job_execution_id, i.job_name, n.crash_restarts
         from tidemill_job_execution n
         join batch_job_execution e on e.job_execution_id = n.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         join unnest($1::text[], $2::text[]) as known (job, fingerprint) on known.job = i.job_name
         where n.restart_due
           and coalesce(known.fingerprint = n.fingerprint, true)
         order by n.job_execution_id
         limit 1
         for no key update of i, n skip locked",
    )
    .bind(jobs.iter().map(|(job, _)| *job).collect::<Vec<_>>())
    .bind(jobs.iter().map(|(_, fingerprint)| *fingerprint).collect::<Vec<_>>())
    .fetch_optional(connection)
    .await
}

pub(crate) async fn restart_taken(connection: &mut PgConnection, execution: i64) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_job_execution
         set restart_due = false
         where job_execution_id = $1",
    )
    .bind(execution)
    .execute(connection)
    .await?;
    Ok(())
}
