//! SQLite has no partitions: all events are in one table, and there is nothing to make ahead.

use crate::row::outbox::partition::PartitionRow;
use sqlx::SqliteConnection;
use tidemill_domain::outbox::partition::Range;

/// The one writer's transaction keeps everybody else out by itself.
pub(crate) async fn lock(_connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    Ok(true)
}

/// There is no lock to wait for.
pub(crate) async fn hurry(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// None.
pub(crate) async fn list(_connection: &mut SqliteConnection) -> Result<Vec<PartitionRow>, sqlx::Error> {
    Ok(Vec::new())
}

/// The last id that was given out.
pub(crate) async fn last_id(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select coalesce(max(seq), 0) from sqlite_sequence where name = 'outbox_event'")
        .fetch_one(connection)
        .await
}

/// There is no default partition.
pub(crate) async fn highest_in_default(
    _connection: &mut SqliteConnection,
) -> Result<Option<i64>, sqlx::Error> {
    Ok(None)
}

/// Nothing is made.
pub(crate) async fn create(_connection: &mut SqliteConnection, _range: Range) -> Result<(), sqlx::Error> {
    Ok(())
}

/// There is no default partition.
pub(crate) async fn default_count(
    _connection: &mut SqliteConnection,
    _limit: i64,
) -> Result<i64, sqlx::Error> {
    Ok(0)
}
