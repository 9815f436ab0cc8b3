//! Statements that list jobs, instances and executions, newest first. Each is one query, however long the page.

use crate::row::job::{ExecutionRow, InstanceRow, JobRow};
use crate::tx::ExecutionFilterRow;
use sqlx::PgConnection;

/// Jobs by name, each with its last execution.
pub(crate) async fn jobs(connection: &mut PgConnection, limit: i64) -> Result<Vec<JobRow>, sqlx::Error> {
    sqlx::query_as(
        "select j.job_name, j.instances, e.job_execution_id, e.status, e.create_time
         from (
             select job_name, count(*) as instances
             from batch_job_instance
             group by job_name
             order by job_name
             limit $1
         ) j
         left join lateral (
             select e.job_execution_id, e.status, e.create_time
             from batch_job_instance i
             join batch_job_execution e on e.job_instance_id = i.job_instance_id
             where i.job_name = j.job_name
             order by e.job_execution_id desc
             limit 1
         ) e on true
         order by j.job_name",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Instances of one job, each with its last execution.
pub(crate) async fn instances(
    connection: &mut PgConnection,
    job: &str,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<InstanceRow>, sqlx::Error> {
    sqlx::query_as(
        "select i.job_instance_id, i.job_name, i.job_key, coalesce(h.executions, 0) as executions,
                e.job_execution_id, e.status, e.create_time
         from (
             select job_instance_id, job_name, job_key
             from batch_job_instance
             where job_name = $1
               and ($2::bigint is null or job_instance_id < $2)
             order by job_instance_id desc
             limit $3
         ) i
         left join lateral (
             select count(*) as executions, max(job_execution_id) as latest
             from batch_job_execution
             where job_instance_id = i.job_instance_id
         ) h on true
         left join batch_job_execution e on e.job_execution_id = h.latest
         order by i.job_instance_id desc",
    )
    .bind(job)
    .bind(before)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn executions(
    connection: &mut PgConnection,
    filter: &ExecutionFilterRow<'_>,
) -> Result<Vec<ExecutionRow>, sqlx::Error> {
    sqlx::query_as(
        "select e.job_execution_id, e.job_instance_id, i.job_name, coalesce(e.version, 0) as version, e.status,
                coalesce(e.exit_code, '') as exit_code,
                coalesce(n.exit_text, e.exit_message, '') as exit_message,
                e.create_time, e.start_time, e.end_time, e.last_updated,
                n.launched_by, coalesce(n.crash_restarts, 0) as crash_restarts
         from batch_job_execution e
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         where ($1::bigint is null or e.job_execution_id = $1)
           and ($2::text is null or i.job_name = $2)
           and ($3::text is null or e.status = $3)
           and ($4::bigint is null or e.job_instance_id = $4)
           and ($5::bigint is null or e.job_execution_id < $5)
         order by e.job_execution_id desc
         limit $6",
    )
    .bind(filter.id)
    .bind(filter.job)
    .bind(filter.status)
    .bind(filter.instance)
    .bind(filter.before)
    .bind(filter.limit)
    .fetch_all(connection)
    .await
}
