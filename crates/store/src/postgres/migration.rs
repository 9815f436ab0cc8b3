//! Statements of the migration runner.

use crate::row::MigrationRow;
use sqlx::PgConnection;

/// "tidemill" as a number, so that no other product's lock is met by chance.
const LOCK: i64 = 0x7469_6465_6d69_6c6c;

/// Held until the transaction ends, which also works behind a transaction pooler. Whoever migrates may take its
/// time, so the wait for it has no limit.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("set local lock_timeout = 0").execute(&mut *connection).await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(connection).await?;
    Ok(())
}

/// Text of the statement that makes the runner's own table.
pub(crate) const CREATE_TABLE: &str = "create table if not exists tidemill_migration (
    version bigint primary key,
    name text not null,
    checksum text not null,
    breaking boolean not null,
    applied_at timestamptz not null
);";

pub(crate) async fn create_table(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(CREATE_TABLE).execute(connection).await?;
    Ok(())
}

pub(crate) async fn table_exists(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select to_regclass('tidemill_migration') is not null").fetch_one(connection).await
}

pub(crate) async fn list(connection: &mut PgConnection) -> Result<Vec<MigrationRow>, sqlx::Error> {
    sqlx::query_as(
        "select version, name, checksum, breaking, applied_at
         from tidemill_migration
         order by version",
    )
    .fetch_all(connection)
    .await
}

pub(crate) async fn statement(connection: &mut PgConnection, text: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(text).execute(connection).await?;
    Ok(())
}

pub(crate) async fn record(connection: &mut PgConnection, row: &MigrationRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_migration (version, name, checksum, breaking, applied_at)
         values ($1, $2, $3, $4, $5)",
    )
    .bind(row.version)
    .bind(&row.name)
    .bind(&row.checksum)
    .bind(row.breaking)
    .bind(row.applied_at)
    .execute(connection)
    .await?;
    Ok(())
}
