//! The clock that decides on leases.

use crate::codec::DbTime;
use crate::statement::dialect::in_dialect;
use crate::statement::{One, statements};
use sqlx::SqliteConnection;

statements! {
    /// On PostgreSQL not `now()`, which stands still within a transaction: the instant must lie after the locks were taken.
    /// On SQLite the clock of the host, which all processes on this file share; it tells milliseconds.
    fn clock_now() -> One<DbTime> {
        "select {now}"
    }
}

/// The same for a statement of several parts.
pub(super) async fn sqlite_now(connection: &mut SqliteConnection) -> Result<DbTime, sqlx::Error> {
    sqlx::query_scalar(in_dialect!(false, "select {now}")).fetch_one(connection).await
}
