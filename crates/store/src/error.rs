//! Errors of the database, named by what you can do about them.

use crate::item;
use crate::postgres::answer::said_plainly;
use crate::statement::columns::found_damage;
use std::path::PathBuf;
use tidemill_domain::code::Code;
use tidemill_domain::inbox::BadMessage;
use tidemill_domain::item::ErrorKind;
use tidemill_domain::job::context::ContextError;
use tidemill_domain::lease::LeaseRefusal;
use tidemill_domain::outbox::RelayId;
use tidemill_domain::pool::ledger::Contradiction;
use tidemill_domain::render::LABEL_CHARS_MAX;

/// The result of a call to the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("invalid database URL: {why}")]
    BadUrl {
        /// Never contains the password.
        why: String,
    },
    /// No answer, or the connection broke. Try again later.
    #[error("the database at {place} cannot be reached")]
    Unreachable {
        /// Without secrets.
        place: String,
        source: sqlx::Error,
    },
    /// The connection broke during a commit, which may or may not have happened.
    #[error("the connection broke during a commit, whose outcome is unknown")]
    OutcomeUnknown(#[source] sqlx::Error),
    #[error("the database at {place} refused the login")]
    LoginRefused {
        /// Without secrets.
        place: String,
        source: sqlx::Error,
    },
    #[error(
        "the database server is PostgreSQL {found}, but {} or newer is needed",
        crate::postgres::OLDEST_MAJOR
    )]
    ServerTooOld { found: String },
    /// A standby is read-only, and its data may be stale.
    #[error("the database server is a standby in recovery")]
    ServerInRecovery,
    #[error("the database schema is missing or behind: {} of {} migrations applied", known - pending, known)]
    SchemaBehind { pending: usize, known: usize },
    /// A newer program has changed the schema in a way that this one cannot use.
    #[error(
        "the database schema has the breaking migration {version} ({name}), which this program does not know"
    )]
    SchemaAhead { version: i64, name: String },
    #[error("migration {version} ({name}) was applied with another content than this program has")]
    MigrationChanged { version: i64, name: String },
    /// What is in the database does not fit the new schema. Nothing was changed.
    #[error("migration {version} ({name}) was refused{}", detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default())]
    MigrationRefused {
        version: i64,
        name: &'static str,
        /// Which rows or objects.
        detail: Option<String>,
        hint: Option<String>,
        source: sqlx::Error,
    },
    #[error("the database cannot write")]
    DiskFull(#[source] BoxError),
    #[error("the database file {} may not be used", path.display())]
    FileNotPermitted { path: PathBuf, source: BoxError },
    #[error("the folder of the database file {} does not exist", path.display())]
    FolderMissing { path: PathBuf },
    /// A lock was held for longer than we wait, or two transactions deadlocked. Try again.
    #[error("the database was locked for too long")]
    Busy(#[source] sqlx::Error),
    #[error("row {row} of {table} has a value in {column} that breaks the rules")]
    DamagedRow { table: &'static str, column: &'static str, row: String },
    #[error("the row of relay {relay} is damaged, so the position of its slots is unknown")]
    DamagedRelay { relay: RelayId },
    #[error("the stored rows of a pool contradict each other")]
    DamagedPool(#[from] Contradiction),
    /// An object of this name exists and is not one of our views, so it is not replaced.
    #[error("the name {name} belongs to another database object")]
    ViewNameTaken { name: String },
    #[error(transparent)]
    BadMessage(#[from] BadMessage),
    #[error("the execution context of {place} cannot be used")]
    BadContext { place: String, source: ContextError },
    /// The data of a render contains NUL, which the databases reject.
    #[error("a text of the render contains the character U+0000")]
    NulInRender,
    #[error("the composition or the cue item of the render has more than {LABEL_CHARS_MAX} characters")]
    LongRender,
    #[error("the data of the render is encrypted with the key {key}, which is not configured")]
    KeyMissing { key: String },
    /// The key with this id does not fit, or the encrypted data was changed or moved.
    #[error("the data of {place} cannot be decrypted with the key {key}")]
    CannotDecrypt { key: String, place: String },
    #[error("the operating system gives no random numbers")]
    NoRandomness,
    /// The process may not hold a lease; most likely it was silent for too long. Register again.
    #[error("the lease on new work was refused")]
    LeaseRefused(#[source] LeaseRefusal),
    #[error("the database user may not do this")]
    NotPermitted(#[source] sqlx::Error),
    /// All connections of our budget, or of the server, are in use.
    #[error("no database connection became free in time")]
    ConnectionsExhausted(#[source] sqlx::Error),
    #[error("the file {} is not a SQLite database or is damaged", path.display())]
    NotADatabase { path: PathBuf, source: sqlx::Error },
    #[error("the database reported an error")]
    Failed(#[source] sqlx::Error),
}

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl StoreError {
    pub fn code(&self) -> Code {
        match self {
            Self::BadUrl { .. } => Code::BadDatabaseUrl,
            Self::Unreachable { .. } | Self::OutcomeUnknown(_) => Code::DatabaseUnreachable,
            Self::LoginRefused { .. } => Code::LoginRefused,
            Self::ServerTooOld { .. } => Code::ServerTooOld,
            Self::ServerInRecovery => Code::ServerInRecovery,
            Self::SchemaBehind { .. } => Code::SchemaBehind,
            Self::SchemaAhead { .. } => Code::SchemaAhead,
            Self::MigrationChanged { .. } => Code::MigrationChanged,
            Self::DiskFull(_) => Code::DiskFull,
            Self::FileNotPermitted { .. } | Self::FolderMissing { .. } => Code::FileNotPermitted,
            Self::Busy(_) => Code::DatabaseBusy,
            Self::DamagedRow { .. } | Self::DamagedPool(_) => Code::DamagedRow,
            Self::DamagedRelay { .. } => Code::DamagedRelay,
            Self::ViewNameTaken { .. } => Code::ViewNameTaken,
            Self::BadMessage(bad) => bad.code(),
            Self::BadContext { source: ContextError::NotUnderstood(_), .. } => Code::DamagedRow,
            Self::BadContext { .. } => Code::ContextTooLarge,
            Self::NulInRender | Self::LongRender => Code::BadRenderData,
            Self::KeyMissing { .. } => Code::RenderKeyMissing,
            Self::CannotDecrypt { .. } => Code::RenderDataSealed,
            Self::NoRandomness => Code::Unexpected,
            Self::LeaseRefused(_) => Code::ProcessExpired,
            Self::NotPermitted(_) => Code::StatementNotPermitted,
            Self::ConnectionsExhausted(_) => Code::ConnectionsExhausted,
            Self::NotADatabase { .. } => Code::NotADatabase,
            Self::MigrationRefused { .. } | Self::Failed(_) => Code::DatabaseFailed,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::BadUrl { .. } => {
                "use sqlite://FILE, sqlite::memory:, postgres://USER@HOST/DATABASE or jdbc:postgresql://HOST/DATABASE".into()
            }
            Self::Unreachable { .. } => {
                "check that the server runs and that host, port and database name in database.url are right; `tidemill doctor` shows each step".into()
            }
            Self::OutcomeUnknown(_) => "run the command again: it finds out what was done".into(),
            Self::LoginRefused { .. } => {
                "check the user in database.url and the password in TIDEMILL_DATABASE_PASSWORD or TIDEMILL_DATABASE_PASSWORD_FILE".into()
            }
            Self::ServerTooOld { .. } => "upgrade the server, or point database.url at a newer one".into(),
            Self::ServerInRecovery => "point database.url at the primary".into(),
            Self::SchemaBehind { .. } => {
                "run `tidemill db migrate`, or have the SQL of `tidemill db schema` applied by hand".into()
            }
            Self::SchemaAhead { .. } => "use the newer version of Tidemill that migrated this database".into(),
            Self::MigrationChanged { .. } => {
                "use the version of Tidemill that applied it; if a migration was edited, restore it".into()
            }
            Self::MigrationRefused { hint: Some(hint), .. } => {
                format!("{hint}; then run `tidemill db migrate` again")
            }
            Self::MigrationRefused { .. } => {
                "correct what it names, then run `tidemill db migrate` again".into()
            }
            Self::DiskFull(_) => {
                "free space on the disk of the database (or raise its quota or file-size limit), then run the command again; the transaction was rolled back".into()
            }
            Self::FileNotPermitted { path, .. } => {
                format!("give this user read and write access to {} and its folder, or choose another file by database.url", path.display())
            }
            Self::FolderMissing { .. } => "create the folder, or choose another file by database.url".into(),
            Self::Busy(_) => {
                "run the command again; if it fails again, look for a long transaction, or raise database.busy_timeout".into()
            }
            Self::DamagedRow { .. } => "restore the row from a backup, or report this with the row".into(),
            Self::DamagedRelay { relay } => format!(
                "once it has stopped, run the statement: update tidemill_outbox_relay set cursors = '[]' where id = '{relay}'; its slots are then read from where they were before it, so that events come again and none is lost"
            ),
            Self::DamagedPool(_) => "see what `tidemill pool verify` says, and report it".into(),
            Self::BadMessage(bad) => bad.fix().into(),
            Self::ViewNameTaken { .. } => {
                "set other names in pools.registry_view and pools.limits_view, or rename that object".into()
            }
            Self::BadContext { source: ContextError::NotUnderstood(_), .. } => {
                "resume the job with the program that wrote the context, or launch it with other identifying parameters".into()
            }
            Self::BadContext { .. } => "keep positions and totals in the context, and data in a table".into(),
            Self::NulInRender => "remove the character".into(),
            Self::LongRender => "use a shorter name; put texts to display into the data".into(),
            Self::KeyMissing { key } => {
                format!("add the key {key} to render.keys; you can remove it when no render needs it")
            }
            Self::CannotDecrypt { key, .. } => format!(
                "check that {key} still has the value that it had when the render was stored; if it has, restore the row from a backup"
            ),
            Self::NoRandomness => "check that the process may read random numbers, then try again".into(),
            Self::LeaseRefused(_) => "start the process again: it then counts as a new one".into(),
            Self::NotPermitted(_) => {
                "grant the database user create and use on the schema, or let an administrator run `tidemill db migrate`".into()
            }
            Self::ConnectionsExhausted(_) => {
                "raise database.max_connections, or the server's own limit if that is what is used up".into()
            }
            Self::NotADatabase { .. } => "choose another file by database.url, or restore it from a backup".into(),
            Self::Failed(_) => "run `tidemill doctor`; if that is clean, report this with the text above".into(),
        }
    }

    /// The error kind for items being read or written; `None` if it has no special meaning for them.
    pub fn item_kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Unreachable { .. } | Self::Busy(_) | Self::ConnectionsExhausted(_) => {
                Some(ErrorKind::TRANSIENT)
            }
            Self::Failed(source) => item::statement_kind(source),
            // Repeating a commit that may have happened could do the work twice; the rest needs a person.
            _ => Some(ErrorKind::FATAL),
        }
    }

    /// Whether the same call may succeed later without anyone acting.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::OutcomeUnknown(_)
                | Self::Busy(_)
                | Self::ConnectionsExhausted(_)
        )
    }
}

pub(crate) fn damaged(table: &'static str, column: &'static str, row: impl ToString) -> StoreError {
    StoreError::DamagedRow { table, column, row: row.to_string() }
}

/// For statements, after the connection worked: connection errors are classified where their place is known.
impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let error = match found_damage(error) {
            Ok(damage) => return damage,
            Err(error) => said_plainly(error),
        };
        let kind = match &error {
            sqlx::Error::Database(answer) => match answer.code() {
                Some(code) => statement_kind(&code),
                None => Kind::Failed,
            },
            sqlx::Error::PoolTimedOut => Kind::Exhausted,
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Kind::Unreachable,
            _ => Kind::Failed,
        };
        match kind {
            Kind::DiskFull => Self::DiskFull(Box::new(error)),
            Kind::Busy => Self::Busy(error),
            Kind::NotPermitted => Self::NotPermitted(error),
            Kind::Exhausted => Self::ConnectionsExhausted(error),
            Kind::InRecovery => Self::ServerInRecovery,
            Kind::Unreachable => Self::Unreachable { place: "the configured URL".to_owned(), source: error },
            Kind::Failed => Self::Failed(error),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    DiskFull,
    Busy,
    NotPermitted,
    Exhausted,
    InRecovery,
    Unreachable,
    Failed,
}

/// PostgreSQL's codes have five characters; SQLite's are numbers of at most four digits.
fn statement_kind(code: &str) -> Kind {
    match code.parse::<i32>() {
        Ok(number) if code.len() < 5 => sqlite_kind(number),
        _ => postgres_kind(code),
    }
}

fn postgres_kind(code: &str) -> Kind {
    match code {
        "53100" => Kind::DiskFull,
        "40001" | "40P01" | "55P03" | "57014" => Kind::Busy,
        "42501" => Kind::NotPermitted,
        "53300" => Kind::Exhausted,
        "25006" => Kind::InRecovery,
        "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Kind::Unreachable,
        class if class.starts_with("08") => Kind::Unreachable,
        _ => Kind::Failed,
    }
}

/// The low byte is the error class.
fn sqlite_kind(code: i32) -> Kind {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const READONLY: i32 = 8;
    const FULL: i32 = 13;
    const PERM: i32 = 3;
    // Failed writes of the operating system: write, fsync, truncate, growing the shared memory file.
    const FAILED_WRITES: [i32; 4] = [778, 1034, 1546, 4874];
    match code & 0xff {
        FULL => Kind::DiskFull,
        BUSY | LOCKED => Kind::Busy,
        READONLY | PERM => Kind::NotPermitted,
        _ if FAILED_WRITES.contains(&code) => Kind::DiskFull,
        _ => Kind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_databases_are_told_apart() {
        let cases = [
            ("53100", Kind::DiskFull),
            ("13", Kind::DiskFull),
            ("778", Kind::DiskFull),
            ("5", Kind::Busy),
            ("517", Kind::Busy),
            ("40P01", Kind::Busy),
            ("42501", Kind::NotPermitted),
            ("8", Kind::NotPermitted),
            ("08006", Kind::Unreachable),
            ("25006", Kind::InRecovery),
            ("42P01", Kind::Failed),
            ("1", Kind::Failed),
            ("22012", Kind::Failed),
        ];
        for (code, kind) in cases {
            assert_eq!(statement_kind(code), kind, "{code}");
        }
    }
}
