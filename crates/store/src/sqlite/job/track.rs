//! Statements about how jobs have been doing lately. Each takes the last executions of a job from `tidemill_job_history`,
//! so that it does not matter how many there are. A list cannot be bound, so names travel as the text of one.

use crate::codec::DbStamp;
use crate::row::job::{OutcomeRow, RunRow};
use sqlx::SqliteConnection;

/// The last executions of each of these jobs, newest first.
pub(crate) async fn recent(
    connection: &mut SqliteConnection,
    jobs: &[&str],
    limit: i64,
) -> Result<Vec<RunRow>, sqlx::Error> {
    sqlx::query_as(
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
         order by e.job_execution_id desc",
    )
    .bind(names(jobs))
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// How many of the last executions of each of these jobs are in which status, of those made since.
pub(crate) async fn outcomes(
    connection: &mut SqliteConnection,
    jobs: &[&str],
    since: DbStamp,
    limit: i64,
) -> Result<Vec<OutcomeRow>, sqlx::Error> {
    sqlx::query_as(
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
         group by j.value, e.status",
    )
    .bind(names(jobs))
    .bind(since)
    .bind(limit)
    .fetch_all(connection)
    .await
}

fn names(jobs: &[&str]) -> String {
    serde_json::Value::from(jobs).to_string()
}
