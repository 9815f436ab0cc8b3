//! Opening a SQLite file: one writing connection, several that read.

use crate::error::{Result, StoreError};
use crate::options::{StoreOptions, Synchronous};
use crate::system;
use crate::tx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqlitePool};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Sqlite {
    /// One connection: writers of this process queue here, in order, instead of racing for the file's lock.
    writer: SqlitePool,
    readers: SqlitePool,
    path: Option<PathBuf>,
}

impl Sqlite {
    pub(crate) async fn open_file(path: &Path, options: &StoreOptions) -> Result<Self> {
        make_file(path)?;
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(match options.synchronous {
                Synchronous::Full => SqliteSynchronous::Full,
                Synchronous::Normal => SqliteSynchronous::Normal,
            })
            .busy_timeout(options.busy_timeout)
            .foreign_keys(true)
            .disable_statement_logging();
        let writer = one(&connect, options, Some(path)).await?;
        let readers = pool(options.max_connections.saturating_sub(1).max(1), options)
            .connect_lazy_with(connect.pragma("query_only", "on"));
        Ok(Self { writer, readers, path: Some(path.to_owned()) })
    }

    /// Exists as long as its one connection.
    pub(crate) async fn open_memory(options: &StoreOptions) -> Result<Self> {
        let connect =
            SqliteConnectOptions::new().in_memory(true).foreign_keys(true).disable_statement_logging();
        let writer = one(&connect, options, None).await?;
        Ok(Self { readers: writer.clone(), writer, path: None })
    }

    /// `immediate` takes the write lock now, so a transaction never fails half-way because it has to wait.
    pub(crate) async fn begin(&self) -> Result<Connection> {
        let begun = self.writer.begin_with("begin immediate").await;
        begun.map(Connection::Sqlite).map_err(|error| match error {
            // This process's own queue of writers, which a larger budget would not shorten.
            sqlx::Error::PoolTimedOut => StoreError::Busy(error),
            error => answer(error, self.path.as_deref()),
        })
    }

    pub(crate) async fn read(&self) -> Result<Connection> {
        let begun = self.readers.begin().await;
        begun.map(Connection::Sqlite).map_err(|error| answer(error, self.path.as_deref()))
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// Idle connections to a file cost nothing, and an in-memory database would be lost with its connection.
fn pool(size: u32, options: &StoreOptions) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(size)
        .acquire_timeout(options.connect_timeout.max(options.busy_timeout))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// Opens the writer. Two processes that create a file at the same time can collide at the change to WAL, which fails at
/// once instead of waiting, so retry it for as long as a lock would be waited for.
async fn one(
    connect: &SqliteConnectOptions,
    options: &StoreOptions,
    path: Option<&Path>,
) -> Result<SqlitePool> {
    const PAUSE: Duration = Duration::from_millis(25);
    let mut attempts_left = options.busy_timeout.as_millis() / PAUSE.as_millis();
    loop {
        let error = match pool(1, options).connect_with(connect.clone()).await {
            Ok(pool) => return Ok(pool),
            Err(error) => answer(error, path),
        };
        if attempts_left == 0 || !matches!(error, StoreError::Busy(_)) {
            return Err(error);
        }
        attempts_left -= 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Creates the file, readable for its owner only, with clearer errors than SQLite's. Does not open an existing file:
/// closing it would drop the locks that this process may hold on it through SQLite.
fn make_file(path: &Path) -> Result<()> {
    let made = system::create_private(OpenOptions::new().write(true).create_new(true)).open(path).map(drop);
    let usable = match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => system::access(path),
        made => made,
    };
    let path = path.to_owned();
    usable.map_err(|error| match error.kind() {
        ErrorKind::NotFound => StoreError::FolderMissing { path },
        ErrorKind::StorageFull => StoreError::DiskFull(Box::new(error)),
        _ => StoreError::FileNotPermitted { path, source: Box::new(error) },
    })
}

fn answer(error: sqlx::Error, path: Option<&Path>) -> StoreError {
    const CORRUPT: i32 = 11;
    const READONLY: i32 = 8;
    const CANTOPEN: i32 = 14;
    const NOTADB: i32 = 26;
    let primary = match &error {
        sqlx::Error::Database(reply) => {
            reply.code().and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff)
        }
        _ => None,
    };
    match (primary, path) {
        (Some(CORRUPT | NOTADB), Some(path)) => {
            StoreError::NotADatabase { path: path.to_owned(), source: error }
        }
        (Some(CANTOPEN | READONLY), Some(path)) => {
            StoreError::FileNotPermitted { path: path.to_owned(), source: Box::new(error) }
        }
        _ => error.into(),
    }
}
