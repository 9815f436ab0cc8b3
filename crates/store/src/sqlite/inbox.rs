//! Statements on `tidemill_inbox`.

use crate::codec::DbTime;
use sqlx::SqliteConnection;
use tidemill_domain::inbox::Message;

/// Whether the row was not there.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    message: Message<'_>,
    now: Option<DbTime>,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_inbox (consumer, message_id, seen_at)
         values ($1, $2, coalesce($3, cast(round(unixepoch('subsec') * 1000) as integer) * 1000))
         on conflict (consumer, message_id) do nothing",
    )
    .bind(message.consumer())
    .bind(message.id())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The oldest first, by the index on `seen_at`.
pub(crate) async fn delete_old(
    connection: &mut SqliteConnection,
    before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_inbox
         where (consumer, message_id) in (
             select consumer, message_id
             from tidemill_inbox
             where seen_at < $1
             order by seen_at
             limit $2
         )",
    )
    .bind(before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}
