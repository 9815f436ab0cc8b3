//! A mark of SQLite is an id of its own file, so it means the same wherever the file is: nothing has to be written down
//! or done after a restore.

use crate::codec::DbTime;
use crate::row::outbox::place::PlaceColumns;
use crate::row::outbox::restore::{OutboxRow, ServerRow};
use sqlx::SqliteConnection;

/// There is no server.
pub(crate) async fn server(_connection: &mut SqliteConnection) -> Result<Option<ServerRow>, sqlx::Error> {
    Ok(None)
}

/// The one row of the outbox.
pub(crate) async fn row(connection: &mut SqliteConnection) -> Result<OutboxRow, sqlx::Error> {
    sqlx::query_as("select system_identifier, timeline, floor_id from tidemill_outbox")
        .fetch_one(connection)
        .await
}

/// The one writer's transaction keeps everybody else out by itself.
pub(crate) async fn lock(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// The one writer's transaction keeps everybody else out by itself.
pub(crate) async fn lock_writers(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// There is no server.
pub(crate) async fn record_server(
    _connection: &mut SqliteConnection,
    _server: &ServerRow,
    _now: DbTime,
) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Never needed.
pub(crate) async fn retire_all(_connection: &mut SqliteConnection, _now: DbTime) -> Result<u64, sqlx::Error> {
    Ok(0)
}

/// Never needed.
pub(crate) async fn except_unread(
    _connection: &mut SqliteConnection,
    _places: &PlaceColumns,
    _now: DbTime,
) -> Result<Vec<(i16, i64, i64)>, sqlx::Error> {
    Ok(Vec::new())
}

/// Never needed.
pub(crate) async fn raise_floor(
    _connection: &mut SqliteConnection,
    _now: DbTime,
) -> Result<i64, sqlx::Error> {
    Ok(0)
}

/// Never needed.
pub(crate) async fn raise_numbers(
    _connection: &mut SqliteConnection,
    _floor: i64,
) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Never needed.
pub(crate) async fn rest(
    _connection: &mut SqliteConnection,
    _slots: &[i16],
    _places: &[String],
    _seqs: &[i64],
) -> Result<(), sqlx::Error> {
    Ok(())
}
