//! Statements on `tidemill_pool_usage`.

use crate::codec::DbTime;
use crate::row::pool::UsageRow;
use sqlx::SqliteConnection;

/// Adds to a step what is in use now, in every pool. In the order of the names, which is that of all who lock pools.
pub(crate) async fn sample(connection: &mut SqliteConnection, step: DbTime) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_pool_usage (pool, at, least, most, total, samples, most_waiting)
         select name, $1, usage, usage, usage, 1, waiting
         from tidemill_pool
         where true
         order by name
         on conflict (pool, at) do update
         set least = min(tidemill_pool_usage.least, excluded.least), most = max(tidemill_pool_usage.most, excluded.most),
             total = tidemill_pool_usage.total + excluded.total, samples = tidemill_pool_usage.samples + 1,
             most_waiting = max(tidemill_pool_usage.most_waiting, excluded.most_waiting)",
    )
    .bind(step)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// The steps of a pool from this one on, the oldest first.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    pool: &str,
    since: DbTime,
) -> Result<Vec<UsageRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, at, least, most, total, samples, most_waiting
         from tidemill_pool_usage
         where pool = $1
           and at >= $2
         order by at",
    )
    .bind(pool)
    .bind(since)
    .fetch_all(connection)
    .await
}

/// Deletes what lies before this step.
pub(crate) async fn delete_before(
    connection: &mut SqliteConnection,
    pool: &str,
    before: DbTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_pool_usage
         where pool = $1
           and at < $2",
    )
    .bind(pool)
    .bind(before)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}
