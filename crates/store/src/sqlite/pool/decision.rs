//! Statements on `tidemill_pool_log` for those who look back.

use crate::codec::DbTime;
use crate::row::pool::{DecisionRow, LogRow};
use sqlx::SqliteConnection;

/// The newest first, from before a place on. By the primary key.
pub(crate) async fn before(
    connection: &mut SqliteConnection,
    pool: &str,
    before: (i64, i32),
    limit: i64,
) -> Result<Vec<DecisionRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, ticket_id, dag_id, run_id, event
         from tidemill_pool_log
         where pool = $1
           and (version, seq) < ($2, $3)
           and kind <> 'snapshot'
         order by version desc, seq desc
         limit $4",
    )
    .bind(pool)
    .bind(before.0)
    .bind(before.1)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// What was set since an instant, the newest first. By `tidemill_pool_log_configured`.
pub(crate) async fn configured_since(
    connection: &mut SqliteConnection,
    pool: &str,
    since: DbTime,
    limit: i64,
) -> Result<Vec<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         where pool = $1
           and kind = 'configured'
           and at >= $2
         order by at desc
         limit $3",
    )
    .bind(pool)
    .bind(since)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// What was last set before an instant. By `tidemill_pool_log_configured`.
pub(crate) async fn configured_before(
    connection: &mut SqliteConnection,
    pool: &str,
    before: DbTime,
) -> Result<Option<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         where pool = $1
           and kind = 'configured'
           and at < $2
         order by at desc
         limit 1",
    )
    .bind(pool)
    .bind(before)
    .fetch_optional(connection)
    .await
}

/// The oldest snapshot, which has what was set when the log before it was forgotten. By `tidemill_pool_log_snapshot`.
pub(crate) async fn first_snapshot(
    connection: &mut SqliteConnection,
    pool: &str,
) -> Result<Option<LogRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, version, seq, at, event
         from tidemill_pool_log
         where pool = $1
           and kind = 'snapshot'
         order by at
         limit 1",
    )
    .bind(pool)
    .fetch_optional(connection)
    .await
}

/// When that was.
pub(crate) async fn first_snapshot_at(
    connection: &mut SqliteConnection,
    pool: &str,
) -> Result<Option<DbTime>, sqlx::Error> {
    sqlx::query_scalar(
        "select at
         from tidemill_pool_log
         where pool = $1
           and kind = 'snapshot'
         order by at
         limit 1",
    )
    .bind(pool)
    .fetch_optional(connection)
    .await
}
