//! What relays ask of an attached table every second.

use super::text;
use crate::codec::DbTime;
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;
use tidemill_domain::outbox::attached::{AttachedTable, Index, TableName};

/// Settings until the transaction ends: time zone for columns without one, timeouts of statements and locks. Returns
/// which of our indexes are missing; reads only the catalogue.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    table: &AttachedTable,
    within: Duration,
) -> Result<Vec<String>, sqlx::Error> {
    let indexes: Vec<String> = Index::ALL.into_iter().map(|index| table.name.index(index)).collect();
    let (_, _, _, lost): (String, String, String, Vec<String>) = sqlx::query_as(
        "select set_config('timezone', $1, true), set_config('lock_timeout', '100ms', true),
                set_config('statement_timeout', $2, true),
                array(
                    select needed.name
                    from unnest($5::text[]) as needed (name)
                    where to_regclass(format('%I.%I', $3::text, $4::text)) is not null
                      and not exists (
                          select
                          from pg_index i
                          join pg_class c on c.oid = i.indexrelid
                          join pg_namespace n on n.oid = c.relnamespace
                          where n.nspname = $3 and c.relname = needed.name and i.indisvalid
                      )
                ) as lost",
    )
    .bind(&table.time_zone)
    .bind(super::millis(within))
    .bind(table.name.schema())
    .bind(table.name.table())
    .bind(indexes)
    .fetch_one(connection)
    .await?;
    Ok(lost)
}

/// Whether rows are due in these slots: one step in the index of each. Planned for its slots each time.
pub(crate) async fn is_due(
    connection: &mut PgConnection,
    name: &TableName,
    slots: &[i32],
    now: Option<DbTime>,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(text::is_due(name)))
        .bind(slots)
        .bind(now)
        .persistent(false)
        .fetch_one(connection)
        .await
}
