//! Creates and upgrades the schema.
//!
//! A migration runs in one transaction together with its row in `tidemill_migration`, under a lock that the transaction
//! holds. If it is killed, nothing has happened; if it is started twice, the second waits and finds it done.

use crate::codec::{DbTime, hex};
use crate::crash_point;
use crate::error::{Result, StoreError};
use crate::statement::{One, statements};
use crate::store::Store;
use crate::url::Dialect;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgDatabaseError;
use std::fmt::Write as _;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// From 1, without gaps.
    pub version: i64,
    pub name: &'static str,
    text: &'static str,
}

macro_rules! migrations {
    ($dialect:literal: $($version:literal $file:literal $name:literal),+) => {
        &[$(Migration {
            version: $version,
            name: $name,
            text: include_str!(concat!("../migrations/", $dialect, "/", $file, "_", $name, ".sql")),
        },)+]
    };
}

const POSTGRES: &[Migration] = migrations!("postgres": 1 "0001" "foundation", 2 "0002" "alert", 3 "0003" "access", 4 "0004" "job", 5 "0005" "partition", 6 "0006" "schedule", 7 "0007" "history", 8 "0008" "pool", 9 "0009" "outbox", 10 "0010" "outbox_number", 11 "0011" "outbox_effort", 12 "0012" "adopted", 13 "0013" "inbox", 14 "0014" "render", 15 "0015" "pool_settings", 16 "0016" "render_again", 17 "0017" "render_ended", 18 "0018" "lease_renewed", 19 "0019" "pool_estimate", 20 "0020" "pool_events", 21 "0021" "pool_demand", 22 "0022" "pool_breaker", 23 "0023" "pool_audit", 24 "0024" "process_incarnation", 25 "0025" "job_alert", 26 "0026" "outbox_joined", 27 "0027" "job_notify", 28 "0028" "render_output", 29 "0029" "render_batch", 30 "0030" "render_target", 31 "0031" "render_approval", 32 "0032" "job_trace");
const SQLITE: &[Migration] = migrations!("sqlite": 1 "0001" "foundation", 2 "0002" "alert", 3 "0003" "access", 4 "0004" "job", 5 "0005" "partition", 6 "0006" "schedule", 7 "0007" "history", 8 "0008" "pool", 9 "0009" "outbox", 10 "0010" "outbox_number", 11 "0011" "outbox_effort", 12 "0012" "adopted", 13 "0013" "inbox", 14 "0014" "render", 15 "0015" "pool_settings", 16 "0016" "render_again", 17 "0017" "render_ended", 18 "0018" "lease_renewed", 19 "0019" "pool_estimate", 20 "0020" "pool_events", 21 "0021" "pool_demand", 22 "0022" "pool_breaker", 23 "0023" "pool_audit", 24 "0024" "process_incarnation", 25 "0025" "job_alert", 26 "0026" "outbox_joined", 27 "0027" "job_notify", 28 "0028" "render_output", 29 "0029" "render_batch", 30 "0030" "render_target", 31 "0031" "render_approval", 32 "0032" "job_trace");

pub fn known(dialect: Dialect) -> &'static [Migration] {
    match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Sqlite => SQLITE,
    }
}

impl Migration {
    /// An empty line separates two statements.
    pub fn statements(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.text.split("\n\n").map(str::trim).filter(|statement| !statement.is_empty())
    }

    /// Whether programs that do not know it cannot use its schema.
    pub fn is_breaking(&self) -> bool {
        self.text.starts_with("-- breaking\n")
    }

    pub fn checksum(&self) -> String {
        hex(&Sha256::digest(self.text.as_bytes()))
    }

    fn row(&self, applied_at: Timestamp) -> MigrationRow {
        MigrationRow {
            version: self.version,
            name: self.name.to_owned(),
            checksum: self.checksum(),
            breaking: self.is_breaking(),
            applied_at: DbTime(applied_at),
        }
    }
}

crate::statement::row! {
    #[derive(Clone, Debug)]
    pub(crate) struct MigrationRow {
        pub(crate) version: i64,
        pub(crate) name: String,
        pub(crate) checksum: String,
        pub(crate) breaking: bool,
        pub(crate) applied_at: DbTime,
    }
}

tidemill_domain::words! {
    pub enum MigrationState {
        Pending = "pending",
        Applied = "applied",
        /// Applied with other content than ours.
        Changed = "changed",
        /// Applied by a newer program; compatible with ours.
        Newer = "newer",
        /// Applied by a newer program; incompatible with ours.
        NewerBreaking = "newer, breaking",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MigrationStatus {
    pub version: i64,
    pub name: String,
    pub state: MigrationState,
    pub applied_at: Option<Timestamp>,
}

fn compare(known: &[Migration], applied: &[MigrationRow]) -> Vec<MigrationStatus> {
    let row_of = |version| applied.iter().find(|row| row.version == version);
    let ours = known.iter().map(|migration| {
        let row = row_of(migration.version);
        MigrationStatus {
            version: migration.version,
            name: migration.name.to_owned(),
            state: match row {
                None => MigrationState::Pending,
                Some(row) if row.checksum == migration.checksum() => MigrationState::Applied,
                Some(_) => MigrationState::Changed,
            },
            applied_at: row.map(|row| row.applied_at.into()),
        }
    });
    let theirs = applied
        .iter()
        .filter(|row| known.iter().all(|migration| migration.version != row.version))
        .map(|row| MigrationStatus {
            version: row.version,
            name: row.name.clone(),
            state: if row.breaking { MigrationState::NewerBreaking } else { MigrationState::Newer },
            applied_at: Some(row.applied_at.into()),
        });
    ours.chain(theirs).collect()
}

pub(crate) fn usable(status: &[MigrationStatus]) -> Result<()> {
    for line in status {
        let (version, name) = (line.version, line.name.clone());
        match line.state {
            MigrationState::NewerBreaking => return Err(StoreError::SchemaAhead { version, name }),
            MigrationState::Changed => return Err(StoreError::MigrationChanged { version, name }),
            MigrationState::Newer => {
                tracing::warn!(
                    migration.version = version,
                    "migration {version} ({name}) is newer than this program"
                );
            }
            MigrationState::Applied | MigrationState::Pending => {}
        }
    }
    let pending = status.iter().filter(|line| line.state == MigrationState::Pending).count();
    if pending > 0 {
        let newer = |line: &&MigrationStatus| {
            matches!(line.state, MigrationState::Newer | MigrationState::NewerBreaking)
        };
        return Err(StoreError::SchemaBehind {
            pending,
            known: status.len() - status.iter().filter(newer).count(),
        });
    }
    Ok(())
}

impl Store {
    pub async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        let mut tx = self.read().await?;
        let applied =
            if tx.migration_table_exists().await? { tx.migration_list().await? } else { Vec::new() };
        Ok(compare(known(self.dialect()), &applied))
    }

    /// Applies what is pending, in order, and calls back for each; returns how many were applied.
    pub async fn migrate(&self, actor: &Actor, mut tell: impl FnMut(&Migration)) -> Result<usize> {
        let status = self.migration_status().await?;
        if let Err(error) = usable(&status)
            && !matches!(error, StoreError::SchemaBehind { .. })
        {
            return Err(error);
        }
        let mut count = 0;
        for migration in known(self.dialect()) {
            let applied =
                status.iter().any(|line| line.version == migration.version && line.applied_at.is_some());
            if !applied && self.apply(migration, actor).await? {
                tell(migration);
                count += 1;
            }
        }
        Ok(count)
    }

    /// False if another process has applied it meanwhile.
    async fn apply(&self, migration: &Migration, actor: &Actor) -> Result<bool> {
        let mut tx = self.begin().await?;
        tx.migration_lock().await?;
        tx.migration_create_table().await?;
        if tx.migration_list().await?.iter().any(|row| row.version == migration.version) {
            tx.rollback().await?;
            return Ok(false);
        }
        crash_point!("migration_statement");
        for statement in migration.statements() {
            tx.plain(statement).await.map_err(|error| refused(migration, error))?;
            crash_point!("migration_statement");
        }
        let now = tx.now().await?;
        tx.migration_record(&migration.row(now)).await?;
        let object = format!("migration/{}", migration.version);
        tx.audit_insert(&AuditEntry::new(actor.clone(), "db.migrate", &object), now).await?;
        crash_point!("migration_statement");
        tx.commit().await?;
        crash_point!("migration_statement");
        Ok(true)
    }
}

/// With the names of the rows that are in the way.
fn refused(migration: &Migration, error: StoreError) -> StoreError {
    let StoreError::Failed(source) = error else { return error };
    let answer = source.as_database_error().and_then(|answer| answer.try_downcast_ref::<PgDatabaseError>());
    let detail = answer.and_then(PgDatabaseError::detail).map(str::to_owned);
    let hint = answer.and_then(PgDatabaseError::hint).map(str::to_owned);
    StoreError::MigrationRefused { version: migration.version, name: migration.name, detail, hint, source }
}

/// The whole schema as SQL, to apply by hand; equals what `migrate` does.
pub fn schema_sql(dialect: Dialect) -> String {
    let (create_table, instant) = match dialect {
        Dialect::Postgres => (CREATE_TABLE_POSTGRES, "now()"),
        Dialect::Sqlite => (CREATE_TABLE_SQLITE, "unixepoch() * 1000000"),
    };
    let mut sql = format!(
        "-- The schema of Tidemill {} for {dialect}.\n\nbegin;\n\n{create_table}\n",
        env!("CARGO_PKG_VERSION")
    );
    for migration in known(dialect) {
        let row = migration.row(Timestamp::EPOCH);
        let breaking = match dialect {
            Dialect::Postgres => row.breaking.to_string(),
            Dialect::Sqlite => u8::from(row.breaking).to_string(),
        };
        let _infallible = write!(
            sql,
            "\n-- Migration {version}: {name}\n{text}\ninsert into tidemill_migration (version, name, checksum, breaking, applied_at)\n\
             values ({version}, '{name}', '{checksum}', {breaking}, {instant});\n",
            version = row.version,
            name = row.name,
            text = migration.text,
            checksum = row.checksum,
        );
    }
    sql.push_str("\ncommit;\n");
    sql
}

/// "tidemill" as a number, so that it meets no other product's lock.
const LOCK: i64 = 0x7469_6465_6d69_6c6c;

/// The runner's own table.
const CREATE_TABLE_POSTGRES: &str = "create table if not exists tidemill_migration (
    version bigint primary key,
    name text not null,
    checksum text not null,
    breaking boolean not null,
    applied_at timestamptz not null
);";

const CREATE_TABLE_SQLITE: &str = "create table if not exists tidemill_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    breaking integer not null,
    applied_at integer not null
) strict;";

statements! {
    /// Held until the transaction ends, also behind a transaction pooler. A migration may take long, so wait for ever.
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
        postgres { "select to_regclass('tidemill_migration') is not null" }
        sqlite { "select exists (select 1 from sqlite_schema where name = 'tidemill_migration')" }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations_without_gaps() {
        let names = |dialect| known(dialect).iter().map(|m| (m.version, m.name)).collect::<Vec<_>>();

        assert_eq!(names(Dialect::Postgres), names(Dialect::Sqlite));
        let versions: Vec<i64> = known(Dialect::Sqlite).iter().map(|m| m.version).collect();
        assert_eq!(versions, (1..=i64::try_from(versions.len()).unwrap()).collect::<Vec<_>>());
    }

    #[test]
    fn every_file_is_listed_and_every_statement_ends() {
        for dialect in Dialect::ALL {
            let folder = format!("{}/migrations/{dialect}", env!("CARGO_MANIFEST_DIR"));
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), known(dialect).len());
            for migration in known(dialect) {
                for statement in migration.statements() {
                    assert!(statement.ends_with(';'), "{dialect} {}: {statement}", migration.name);
                }
            }
        }
    }

    fn applied(version: i64, checksum: &str, breaking: bool) -> MigrationRow {
        MigrationRow {
            version,
            name: "x".into(),
            checksum: checksum.into(),
            breaking,
            applied_at: DbTime(Timestamp::EPOCH),
        }
    }

    #[test]
    fn a_schema_is_used_unless_it_is_behind_changed_or_broken_by_a_newer_program() {
        let ours = known(Dialect::Sqlite);
        let good: Vec<MigrationRow> = ours.iter().map(|m| m.row(Timestamp::EPOCH)).collect();
        let with = |row: MigrationRow| good.iter().cloned().chain([row]).collect::<Vec<_>>();

        assert!(usable(&compare(ours, &good)).is_ok());
        assert!(usable(&compare(ours, &with(applied(9001, "?", false)))).is_ok());
        assert!(matches!(usable(&compare(ours, &[])), Err(StoreError::SchemaBehind { .. })));
        assert!(matches!(
            usable(&compare(ours, &with(applied(9001, "?", true)))),
            Err(StoreError::SchemaAhead { version: 9001, .. })
        ));
        assert!(matches!(
            usable(&compare(ours, &[applied(1, "edited", false)])),
            Err(StoreError::MigrationChanged { version: 1, .. })
        ));
    }
}
