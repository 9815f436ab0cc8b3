//! Statements of the migration runner.

use crate::migration::MigrationRow;
use crate::statement::{One, statements};

/// "tidemill" as a number, so that it meets no other product's lock.
const LOCK: i64 = 0x7469_6465_6d69_6c6c;

/// The runner's own table.
pub(crate) const CREATE_TABLE_POSTGRES: &str = "create table if not exists tidemill_migration (
    version bigint primary key,
    name text not null,
    checksum text not null,
    breaking boolean not null,
    applied_at timestamptz not null
);";

pub(crate) const CREATE_TABLE_SQLITE: &str = "create table if not exists tidemill_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    breaking integer not null,
    applied_at integer not null
) strict;";

statements! {
    /// Held until the transaction ends, which also works behind a transaction pooler. A migration may take long, so
    /// this wait has no limit.
    fn migration_lock() -> () {
        postgres |connection| {
            sqlx::raw_sql("set local lock_timeout = 0").execute(&mut *connection).await?;
            sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(connection).await?;
            Ok(())
        }
        // The runner's transaction already holds the file's write lock.
        sqlite { nothing }
    }

    fn migration_create_table() -> () {
        postgres { CREATE_TABLE_POSTGRES }
        sqlite { CREATE_TABLE_SQLITE }
    }

    fn migration_table_exists() -> One<bool> {
        postgres {
            "select to_regclass('tidemill_migration') is not null"
        }
        sqlite {
            "select exists (select 1 from sqlite_schema where name = 'tidemill_migration')"
        }
    }

    fn migration_list() -> Vec<MigrationRow> {
        "select version, name, checksum, breaking, applied_at from tidemill_migration order by version"
    }

    fn migration_record(row: &MigrationRow) -> () {
        bind(row.version, &row.name, &row.checksum, row.breaking, row.applied_at)
        "insert into tidemill_migration (version, name, checksum, breaking, applied_at)
         values ($1, $2, $3, $4, $5)"
    }
}
