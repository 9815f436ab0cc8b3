//! The clock that decides on leases.

use crate::codec::DbTime;
use sqlx::PgConnection;

/// Not `now()`, which stands still within a transaction: the instant must lie after the locks were taken.
pub(crate) async fn now(connection: &mut PgConnection) -> Result<DbTime, sqlx::Error> {
    sqlx::query_scalar("select clock_timestamp()").fetch_one(connection).await
}
