//! Statements on `tidemill_outbox_attempt`: how often rows were tried, and which were skipped.

use crate::codec::DbTime;
use crate::outbox::attached::row::AttemptRow;
use sqlx::PgConnection;
use tidemill_domain::outbox::attached::TableName;

pub(crate) async fn save_attempts(
    connection: &mut PgConnection,
    name: &TableName,
    rows: &[AttemptRow],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_outbox_attempt
             (schema_name, table_name, event_id, state, attempts, error, updated_at)
         select $1, $2, given.event_id, given.state, given.attempts, given.error, $7
         from unnest($3::bigint[], $4::text[], $5::bigint[], $6::text[]) as given (event_id, state, attempts, error)
         on conflict (schema_name, table_name, event_id) do update
         set state = excluded.state, attempts = excluded.attempts, error = coalesce(excluded.error, tidemill_outbox_attempt.error),
             updated_at = excluded.updated_at",
    )
    .bind(name.schema())
    .bind(name.table())
    .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.state).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.attempts).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.error.as_deref()).collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Skips rows that have FAILED; how often they were tried stays.
pub(crate) async fn skip(
    connection: &mut PgConnection,
    name: &TableName,
    ids: &[i64],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_outbox_attempt (schema_name, table_name, event_id, state, attempts, updated_at)
         select $1, $2, given.event_id, 'skipped', 0, $4 from unnest($3::bigint[]) as given (event_id)
         on conflict (schema_name, table_name, event_id) do update
         set state = 'skipped', updated_at = excluded.updated_at",
    )
    .bind(name.schema())
    .bind(name.table())
    .bind(ids)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn forget_attempts(
    connection: &mut PgConnection,
    name: &TableName,
    ids: &[i64],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "delete from tidemill_outbox_attempt
         where schema_name = $1 and table_name = $2 and event_id = any($3)",
    )
    .bind(name.schema())
    .bind(name.table())
    .bind(ids)
    .execute(connection)
    .await?;
    Ok(())
}

/// Forgets all attempts at rows of a table.
pub(crate) async fn forget_table(connection: &mut PgConnection, name: &TableName) -> Result<(), sqlx::Error> {
    sqlx::query("delete from tidemill_outbox_attempt where schema_name = $1 and table_name = $2")
        .bind(name.schema())
        .bind(name.table())
        .execute(connection)
        .await?;
    Ok(())
}
