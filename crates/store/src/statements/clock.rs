//! The clock that decides on leases.

use crate::codec::DbTime;
use crate::statement::dialect::in_dialect;
use crate::statement::{One, statements};
use sqlx::SqliteConnection;

statements! {
    /// On PostgreSQL not `now()`, which does not advance within a transaction: the instant must be after the locks were
    /// taken. On SQLite the host's clock, which all processes on this file share, in milliseconds.
    fn clock_now() -> One<DbTime> {
        "select {now}"
    }
}

/// For Rust code inside a statement.
pub(super) async fn sqlite_now(connection: &mut SqliteConnection) -> Result<DbTime, sqlx::Error> {
    sqlx::query_scalar(in_dialect!(false, "select {now}")).fetch_one(connection).await
}
