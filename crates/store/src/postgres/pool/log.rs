//! Statements on `tidemill_pool_log`.

use crate::codec::{DbId, DbTime};
use crate::row::pool::LogRow;
use sqlx::PgConnection;

/// From this place on, in the order in which it was decided.
pub(crate) async fn from(
    connection: &mut PgConnection,
    pool: &str,
    after: (i64, i32),
    limit: i64,
) -> Result<Vec<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         where pool = $1
           and (version, seq) > ($2, $3)
         order by version, seq
         limit $4",
    )
    .bind(pool)
    .bind(after.0)
    .bind(after.1)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The newest first, of all pools. By the index on `at`, so that only the last of them are read.
pub(crate) async fn latest(connection: &mut PgConnection, limit: i64) -> Result<Vec<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         order by at desc, version desc, seq desc
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The newest first, of one pool.
pub(crate) async fn latest_of(
    connection: &mut PgConnection,
    pool: &str,
    limit: i64,
) -> Result<Vec<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         where pool = $1
         order by version desc, seq desc
         limit $2",
    )
    .bind(pool)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn of_ticket(
    connection: &mut PgConnection,
    ticket: DbId,
    limit: i64,
) -> Result<Vec<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         where ticket_id = $1
         order by version, seq
         limit $2",
    )
    .bind(ticket)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Version and instant of the newest snapshot from before an instant.
pub(crate) async fn snapshot_before(
    connection: &mut PgConnection,
    pool: &str,
    before: DbTime,
) -> Result<Option<(i64, DbTime)>, sqlx::Error> {
    sqlx::query_as(
        "select version, at
         from tidemill_pool_log
         where pool = $1
           and kind = 'snapshot'
           and at < $2
         order by at desc
         limit 1",
    )
    .bind(pool)
    .bind(before)
    .fetch_optional(connection)
    .await
}

/// Deletes the oldest of what lies before this version. Nobody moves rows of the log, so their places name them.
pub(crate) async fn delete_before(
    connection: &mut PgConnection,
    pool: &str,
    version: i64,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_pool_log
         where ctid = any(array(
             select ctid
             from tidemill_pool_log
             where pool = $1
               and version < $2
             order by version, seq
             limit $3
         ))",
    )
    .bind(pool)
    .bind(version)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}
