//! Statements on `tidemill_pool_usage`.

use crate::codec::DbTime;
use crate::row::pool::UsageRow;
use sqlx::PgConnection;

/// Adds to a step what is in use now, in every pool. In the order of the names, which is that of all who lock pools.
pub(crate) async fn sample(connection: &mut PgConnection, step: DbTime) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_pool_usage as u (pool, at, least, most, total, samples, most_waiting)
         select name, $1, usage, usage, usage, 1, waiting
         from tidemill_pool
         where true
         order by name
         on conflict (pool, at) do update
         set least = least(u.least, excluded.least), most = greatest(u.most, excluded.most),
             total = u.total + excluded.total, samples = u.samples + 1,
             most_waiting = greatest(u.most_waiting, excluded.most_waiting)",
    )
    .bind(step)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// The steps of a pool from this one on, the oldest first.
pub(crate) async fn list(
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
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
