//! Statements on `tidemill_token`.

use crate::codec::DbTime;
use crate::row::TokenRow;
use sqlx::PgConnection;

pub(crate) async fn insert(connection: &mut PgConnection, row: &TokenRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_token (id, name, role, scopes, secret_hash, created_at, created_by, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(&row.id)
    .bind(&row.name)
    .bind(&row.role)
    .bind(&row.scopes)
    .bind(&row.secret_hash)
    .bind(row.created_at)
    .bind(&row.created_by)
    .bind(row.expires_at)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn by_id(connection: &mut PgConnection, id: &str) -> Result<Option<TokenRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, name, role, scopes, secret_hash, created_at, created_by, expires_at, last_used_at, revoked_at
         from tidemill_token
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// The newest first.
pub(crate) async fn list(connection: &mut PgConnection, limit: i64) -> Result<Vec<TokenRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, name, role, scopes, secret_hash, created_at, created_by, expires_at, last_used_at, revoked_at
         from tidemill_token
         order by created_at desc, id
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Notes that it was used; at most once per minute, so that a busy caller does not cost a write per request.
pub(crate) async fn touch(
    connection: &mut PgConnection,
    id: &str,
    now: DbTime,
    not_since: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_token
         set last_used_at = $2
         where id = $1
           and (last_used_at is null or last_used_at < $3)",
    )
    .bind(id)
    .bind(now)
    .bind(not_since)
    .execute(connection)
    .await?;
    Ok(())
}

/// No row: there is no such token, or it was revoked before.
pub(crate) async fn revoke(connection: &mut PgConnection, id: &str, now: DbTime) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "update tidemill_token
         set revoked_at = $2
         where id = $1
           and revoked_at is null",
    )
    .bind(id)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}
