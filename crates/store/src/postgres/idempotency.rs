//! Statements on `tidemill_idempotency`.

use crate::codec::DbTime;
use crate::row::IdempotencyRow;
use sqlx::PgConnection;

/// Waits for a transaction that is about to answer the same key; no row then means that it had been answered.
pub(crate) async fn claim(connection: &mut PgConnection, row: &IdempotencyRow) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_idempotency (caller, key, fingerprint, status, body, created_at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (caller, key) do nothing",
    )
    .bind(&row.caller)
    .bind(&row.key)
    .bind(&row.fingerprint)
    .bind(row.status)
    .bind(&row.body)
    .bind(row.created_at)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn by_key(
    connection: &mut PgConnection,
    caller: &str,
    key: &str,
) -> Result<Option<IdempotencyRow>, sqlx::Error> {
    sqlx::query_as(
        "select caller, key, fingerprint, status, body, created_at
         from tidemill_idempotency
         where caller = $1
           and key = $2",
    )
    .bind(caller)
    .bind(key)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn save_answer(
    connection: &mut PgConnection,
    caller: &str,
    key: &str,
    status: i32,
    body: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_idempotency
         set status = $3, body = $4
         where caller = $1
           and key = $2",
    )
    .bind(caller)
    .bind(key)
    .bind(status)
    .bind(body)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn prune(connection: &mut PgConnection, created_before: DbTime) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("delete from tidemill_idempotency where created_at < $1")
        .bind(created_before)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}
