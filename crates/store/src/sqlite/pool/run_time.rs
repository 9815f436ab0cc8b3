//! Statements on `tidemill_pool_run_time`, and on the tickets that it is made of.

use crate::codec::DbTime;
use crate::row::pool::{EndedRunRow, ForgottenRow, RunTimeRow, SavedRunTime, listed};
use sqlx::SqliteConnection;

pub(crate) async fn list(
    connection: &mut SqliteConnection,
    pool: &str,
) -> Result<Vec<RunTimeRow>, sqlx::Error> {
    sqlx::query_as(
        "select dag_id, table_name, parallel, seconds
         from tidemill_pool_run_time
         where pool = $1",
    )
    .bind(pool)
    .fetch_all(connection)
    .await
}

/// The last of them that were given back, the oldest first.
pub(crate) async fn ended(
    connection: &mut SqliteConnection,
    pool: &str,
    limit: i64,
) -> Result<Vec<EndedRunRow>, sqlx::Error> {
    sqlx::query_as(
        "select dag_id, table_name, parallel, started_at, ended_at
         from (
             select dag_id, table_name, parallel, started_at, ended_at
             from tidemill_pool_ticket
             where pool = $1
               and state = 'released'
               and started_at is not null
             order by version desc
             limit $2
         ) as latest
         order by ended_at",
    )
    .bind(pool)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Deletes the tickets that ended first, of those that ended before an instant; returns them in no order.
pub(crate) async fn delete_ended(
    connection: &mut SqliteConnection,
    pool: &str,
    before: DbTime,
    limit: i64,
) -> Result<Vec<ForgottenRow>, sqlx::Error> {
    sqlx::query_as(
        "delete from tidemill_pool_ticket
         where id in (
             select id
             from tidemill_pool_ticket
             where pool = $1
               and ended_at < $2
             order by ended_at
             limit $3
         )
         returning dag_id, table_name, parallel, state, version, started_at, ended_at",
    )
    .bind(pool)
    .bind(before)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Puts these in place of what was known of their kinds.
pub(crate) async fn save(
    connection: &mut SqliteConnection,
    run_times: &[SavedRunTime],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_pool_run_time (pool, dag_id, table_name, parallel, seconds)
         select value ->> 'pool', value ->> 'dag_id', value ->> 'table_name', value ->> 'parallel',
                value ->> 'seconds'
         from json_each($1)
         where true
         on conflict (pool, dag_id, table_name, parallel) do update
         set seconds = excluded.seconds",
    )
    .bind(listed(&run_times)?)
    .execute(connection)
    .await?;
    Ok(())
}
