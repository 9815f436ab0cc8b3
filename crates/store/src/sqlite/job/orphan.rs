//! Statements on executions whose process is gone.

use crate::row::job::{DueRestartRow, OrphanRow};
use sqlx::SqliteConnection;

/// Executions of ours that count as running while nobody holds their lease. A lease of a job is given once, in the
/// transaction that makes the execution, so what is free here stays free. Needs the partial index on executions
/// without an end.
pub(crate) async fn lock(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<OrphanRow>, sqlx::Error> {
    sqlx::query_as(
        "select e.job_execution_id as job_execution_id, i.job_name as job_name, e.status as status,
                n.on_crash as on_crash, n.crash_restart_limit as crash_restart_limit,
                n.crash_restarts as crash_restarts,
                p.name as process_name, p.host as process_host, p.pid as process_pid,
                p.state as process_state,
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
         order by e.job_execution_id
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Of one of these jobs, by name and fingerprint; a process with another definition would only be refused.
pub(crate) async fn lock_due_restart(
    connection: &mut SqliteConnection,
    jobs: &[(&str, Option<&str>)],
) -> Result<Option<DueRestartRow>, sqlx::Error> {
    sqlx::query_as(
        "select n.job_execution_id as job_execution_id, i.job_name as job_name,
                n.crash_restarts as crash_restarts
         from tidemill_job_execution n
         join batch_job_execution e on e.job_execution_id = n.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         join json_each($1) known on json_extract(known.value, '$[0]') = i.job_name
         where n.restart_due = 1
           and coalesce(json_extract(known.value, '$[1]') = n.fingerprint, 1)
         order by n.job_execution_id
         limit 1",
    )
    .bind(serde_json::json!(jobs).to_string())
    .fetch_optional(connection)
    .await
}

pub(crate) async fn restart_taken(
    connection: &mut SqliteConnection,
    execution: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_job_execution
         set restart_due = 0
         where job_execution_id = $1",
    )
    .bind(execution)
    .execute(connection)
    .await?;
    Ok(())
}
