//! The clock that decides on leases.

use crate::codec::DbTime;
use sqlx::SqliteConnection;

/// The clock of the host, which all processes on this file share; it tells milliseconds.
pub(crate) async fn now(connection: &mut SqliteConnection) -> Result<DbTime, sqlx::Error> {
    sqlx::query_scalar("select cast(round(unixepoch('subsec') * 1000) as integer) * 1000")
        .fetch_one(connection)
        .await
}
