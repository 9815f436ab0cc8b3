//! SQLite has no notifications, so there is no trigger that could send one.

use sqlx::SqliteConnection;

/// It can not be there.
pub(crate) async fn is_on(_connection: &mut SqliteConnection) -> Result<Option<bool>, sqlx::Error> {
    Ok(None)
}

/// Nothing is made.
pub(crate) async fn create(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Nothing is there.
pub(crate) async fn drop(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}
