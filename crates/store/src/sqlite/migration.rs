//! Statements of the migration runner.

use crate::row::MigrationRow;
use sqlx::SqliteConnection;

/// The runner's transaction holds the file's write lock already.
pub(crate) async fn lock(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Text of the statement that makes the runner's own table.
pub(crate) const CREATE_TABLE: &str = "create table if not exists tidemill_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    breaking integer not null,
    applied_at integer not null
) strict;";

pub(crate) async fn create_table(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(CREATE_TABLE).execute(connection).await?;
    Ok(())
}

pub(crate) async fn table_exists(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select 1 from sqlite_schema where name = 'tidemill_migration')")
        .fetch_one(connection)
        .await
}

pub(crate) async fn list(connection: &mut SqliteConnection) -> Result<Vec<MigrationRow>, sqlx::Error> {
    sqlx::query_as(
        "select version, name, checksum, breaking, applied_at
         from tidemill_migration
         order by version",
    )
    .fetch_all(connection)
    .await
}

pub(crate) async fn statement(
    connection: &mut SqliteConnection,
    text: &'static str,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(text).execute(connection).await?;
    Ok(())
}

pub(crate) async fn record(connection: &mut SqliteConnection, row: &MigrationRow) -> Result<(), sqlx::Error> {
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
