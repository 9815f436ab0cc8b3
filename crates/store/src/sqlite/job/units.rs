//! Statements on the units of pools that steps hold.

use crate::codec::DbId;
use sqlx::SqliteConnection;

/// Live tickets of executions that have ended. What is no number reads as 0 here, and no execution has that. Needs the
/// partial index on tickets without an end.
pub(crate) async fn of_ended(
    connection: &mut SqliteConnection,
    run_prefix: &str,
    limit: i64,
) -> Result<Vec<(String, DbId)>, sqlx::Error> {
    sqlx::query_as(
        "select t.pool, t.id
         from tidemill_pool_ticket t
         join batch_job_execution e
           on e.job_execution_id = cast(substr(t.run_id, length($1) + 1) as integer)
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where t.ended_at is null
           and t.run_id = $1 || cast(e.job_execution_id as text)
           and t.dag_id = i.job_name
           and e.status in ('COMPLETED', 'FAILED', 'STOPPED', 'ABANDONED')
         order by t.pool, t.id
         limit $2",
    )
    .bind(run_prefix)
    .bind(limit)
    .fetch_all(connection)
    .await
}
