//! Statements on `tidemill_session`.

use crate::codec::DbTime;
use crate::row::SessionRow;
use sqlx::SqliteConnection;

pub(crate) async fn insert(connection: &mut SqliteConnection, row: &SessionRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_session (secret_hash, token_id, created_at, seen_at, ends_at)
         values ($1, $2, $3, $4, $5)",
    )
    .bind(&row.secret_hash)
    .bind(&row.token_id)
    .bind(row.created_at)
    .bind(row.seen_at)
    .bind(row.ends_at)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn by_hash(
    connection: &mut SqliteConnection,
    hash: &[u8],
) -> Result<Option<SessionRow>, sqlx::Error> {
    sqlx::query_as(
        "select secret_hash, token_id, created_at, seen_at, ends_at
         from tidemill_session
         where secret_hash = $1",
    )
    .bind(hash)
    .fetch_optional(connection)
    .await
}

/// Notes that it was used; at most once per minute.
pub(crate) async fn touch(
    connection: &mut SqliteConnection,
    hash: &[u8],
    now: DbTime,
    not_since: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_session
         set seen_at = $2
         where secret_hash = $1
           and seen_at < $3",
    )
    .bind(hash)
    .bind(now)
    .bind(not_since)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn delete(connection: &mut SqliteConnection, hash: &[u8]) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("delete from tidemill_session where secret_hash = $1")
        .bind(hash)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// Those of one token, or those that have ended.
pub(crate) async fn delete_of_token(
    connection: &mut SqliteConnection,
    token_id: &str,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("delete from tidemill_session where token_id = $1")
        .bind(token_id)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn prune(
    connection: &mut SqliteConnection,
    ended_before: DbTime,
    not_seen_since: DbTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("delete from tidemill_session where ends_at < $1 or seen_at < $2")
        .bind(ended_before)
        .bind(not_seen_since)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}
