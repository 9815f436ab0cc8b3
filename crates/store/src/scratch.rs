//! Scratch databases for the tests of this workspace: one of its own for each test, gone afterwards.

mod history;

use crate::error::StoreError;
use crate::options::{Init, StoreOptions};
use crate::store::Store;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::time::Clock;
use tidemill_testkit::skip;

/// The text of a statement as SQLite runs it.
pub fn in_sqlite(text: &str) -> String {
    let (bytes, length) = crate::statement::dialect::translate::<16_384>(text, false);
    String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned()
}

/// The variable that names a server on which tests may create and drop databases.
pub const POSTGRES_URL: &str = "TIDEMILL_TEST_POSTGRES_URL";

/// An empty database of a test's own. Its schema is made by [`Scratch::store`], or not at all.
#[derive(Debug)]
pub struct Scratch {
    url: String,
    cleanup: Cleanup,
}

#[derive(Debug)]
enum Cleanup {
    Nothing,
    Folder { _removed_on_drop: TempDir },
    Database { server: Box<PgConnectOptions>, name: String },
}

impl Scratch {
    /// A database in memory.
    pub fn memory() -> Self {
        Self { url: "sqlite::memory:".to_owned(), cleanup: Cleanup::Nothing }
    }

    /// A database in a file, which several processes may share.
    pub fn file() -> Self {
        let folder = tempfile::tempdir().expect("the system's folder for temporary files is writable");
        let url = format!("sqlite://{}/tidemill.db", folder.path().display());
        Self { url, cleanup: Cleanup::Folder { _removed_on_drop: folder } }
    }

    /// A database on the test server; none when tests on PostgreSQL are to be skipped.
    pub async fn postgres() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = skip::require("postgres", std::env::var(POSTGRES_URL).ok())?;
        let server = PgConnectOptions::from_str(&server).expect("the test server's URL is understood");
        let name = format!("tm_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        drop_database(&server, &name).await.expect("the test user may drop databases");
        let mut admin = server.connect().await.expect("the test server is reachable");
        // The name is made of digits and letters of our own.
        sqlx::raw_sql(AssertSqlSafe(format!("create database {name} encoding 'UTF8' template template0")))
            .execute(&mut admin)
            .await
            .expect("the test user may create databases");
        let url = server.clone().database(&name).to_url_lossy().to_string();
        Some(Self { url, cleanup: Cleanup::Database { server: Box::new(server), name } })
    }

    /// The same database under another value, which does not remove it.
    #[must_use]
    pub fn same(&self) -> Self {
        Self { url: self.url.clone(), cleanup: Cleanup::Nothing }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens it with the schema in place and, if given, a clock that decides instead of the database's.
    pub async fn store(&self, clock: Option<Arc<dyn Clock>>) -> Result<Store, StoreError> {
        // Tests run many at once, and some machines are slow.
        let connect_timeout = Duration::from_secs(60);
        let options = StoreOptions { clock, connect_timeout, ..StoreOptions::default() };
        let store = Store::open(self.url.parse()?, &options).await?;
        store.initialise(Init::Always).await?;
        Ok(store)
    }
}

async fn drop_database(server: &PgConnectOptions, name: &str) -> Result<(), sqlx::Error> {
    let mut admin = server.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(format!("drop database if exists {name} with (force)")))
        .execute(&mut admin)
        .await?;
    Ok(())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Cleanup::Database { server, name } = &self.cleanup else { return };
        let (server, name) = (server.clone(), name.clone());
        // A runtime of its own, because a test may drop this inside one that cannot be blocked.
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(drop_database(&server, &name)).ok()
        });
        if cleaner.join().is_err() {
            tracing::warn!("a scratch database was not removed");
        }
    }
}

impl crate::tx::Tx {
    /// Runs any statement: for tests that plant a fault which the product has no statement for.
    pub async fn execute_for_test(&mut self, sql: &str) -> Result<(), StoreError> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self.connection_for_test() {
            crate::tx::Connection::Postgres(tx) => {
                statement.execute(&mut **tx).await?;
            }
            crate::tx::Connection::Alone(alone) => {
                statement.execute(&mut **alone).await?;
            }
            crate::tx::Connection::Sqlite(tx) => {
                statement.execute(&mut **tx).await?;
            }
        }
        Ok(())
    }
}
