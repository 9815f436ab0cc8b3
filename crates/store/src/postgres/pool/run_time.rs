//! Statements on `tidemill_pool_run_time`, and on the tickets that it is made of.

use crate::codec::DbTime;
use crate::row::pool::{EndedRunRow, ForgottenRow, RunTimeRow, SavedRunTime, listed};
use sqlx::PgConnection;

pub(crate) async fn list(connection: &mut PgConnection, pool: &str) -> Result<Vec<RunTimeRow>, sqlx::Error> {
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
    connection: &mut PgConnection,
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

/// Deletes the tickets that ended first, of those that ended before an instant; returns them in no order. Nobody moves
/// rows of tickets that have ended, so their places name them.
pub(crate) async fn delete_ended(
    connection: &mut PgConnection,
    pool: &str,
    before: DbTime,
    limit: i64,
) -> Result<Vec<ForgottenRow>, sqlx::Error> {
    sqlx::query_as(
        "delete from tidemill_pool_ticket
         where ctid = any(array(
             select ctid
             from tidemill_pool_ticket
             where pool = $1
               and ended_at < $2
             order by ended_at
             limit $3
         ))
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
    connection: &mut PgConnection,
    run_times: &[SavedRunTime],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_pool_run_time (pool, dag_id, table_name, parallel, seconds)
         select pool, dag_id, table_name, parallel, seconds
         from jsonb_to_recordset($1::text::jsonb) as saved (
             pool text, dag_id text, table_name text, parallel bigint, seconds text
         )
         on conflict (pool, dag_id, table_name, parallel) do update
         set seconds = excluded.seconds",
    )
    .bind(listed(&run_times)?)
    .execute(connection)
    .await?;
    Ok(())
}
