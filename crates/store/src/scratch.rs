//! Scratch databases for the tests of this workspace: one per test, dropped afterwards.

mod history;

use crate::error::Result;
use crate::migration::{Migration, known};
use crate::options::{Init, StoreOptions};
use crate::store::Store;
use crate::url::Dialect;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_testkit::skip;

/// The text of a statement as SQLite runs it.
pub fn in_sqlite(text: &str) -> String {
    let (bytes, length) = crate::statement::dialect::translate::<16_384>(text, false);
    String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned()
}

/// The variable that names a server on which tests may create and drop databases.
pub const POSTGRES_URL: &str = "TIDEMILL_TEST_POSTGRES_URL";

const NO_SUCH_DATABASE: &str = "3D000";

/// Declares tests for both databases: each is an `async fn name(scratch: Scratch)`, and becomes `on_sqlite::name` and
/// `on_postgres::name`. On PostgreSQL the schema is in place, unless they start with `empty:`. With `one_thread:` they
/// run on the test's own thread.
#[macro_export]
macro_rules! on_both {
    (empty: $($name:ident),+ $(,)?) => {
        $crate::on_both! { postgres, tokio::test(flavor = "multi_thread", worker_threads = 2); $($name)+ }
    };
    (one_thread: $($name:ident),+ $(,)?) => {
        $crate::on_both! { postgres_with_schema, tokio::test; $($name)+ }
    };
    ($($name:ident),+ $(,)?) => {
        $crate::on_both! {
            postgres_with_schema, tokio::test(flavor = "multi_thread", worker_threads = 2); $($name)+
        }
    };
    ($postgres:ident, $test:meta; $($name:ident)+) => {
        mod on_sqlite {
            $(#[$test]
            async fn $name() { super::$name($crate::scratch::Scratch::file()).await })+
        }
        mod on_postgres {
            $(#[$test]
            async fn $name() {
                if let Some(scratch) = $crate::scratch::Scratch::$postgres().await {
                    super::$name(scratch).await;
                }
            })+
        }
    };
}

/// A test's own empty database. [`Scratch::store`] creates its schema.
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
    pub fn memory() -> Self {
        Self { url: "sqlite::memory:".to_owned(), cleanup: Cleanup::Nothing }
    }

    /// A file, which several processes may share.
    pub fn file() -> Self {
        let folder = tempfile::tempdir().expect("the system's folder for temporary files is writable");
        let url = format!("sqlite://{}/tidemill.db", folder.path().display());
        Self { url, cleanup: Cleanup::Folder { _removed_on_drop: folder } }
    }

    /// `None` if tests on PostgreSQL are skipped.
    pub async fn postgres() -> Option<Self> {
        Self::postgres_from(&test_server()?, "template0").await.expect("the test user may create databases")
    }

    /// With the schema: a copy of a template, which is much faster than the migrations.
    pub async fn postgres_with_schema() -> Option<Self> {
        let server = test_server()?;
        let template = template_name();
        if let Some(copy) = Self::postgres_from(&server, &template).await.expect("a copy of the template") {
            return Some(copy);
        }
        make_template(&server, &template).await;
        Self::postgres_from(&server, &template).await.expect("a copy of the template")
    }

    /// `None` if the template does not exist.
    async fn postgres_from(server: &PgConnectOptions, template: &str) -> Result<Option<Self>, sqlx::Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("tm_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut admin = server.connect().await?;
        // Names contain only our own letters and digits.
        let mut run = async |sql: String| sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await;
        run(format!("drop database if exists {name} with (force)")).await?;
        match run(format!("create database {name} encoding 'UTF8' template {template}")).await {
            Ok(_) => {}
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NO_SUCH_DATABASE) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let url = server.clone().database(&name).to_url_lossy().to_string();
        Ok(Some(Self { url, cleanup: Cleanup::Database { server: Box::new(server.clone()), name } }))
    }

    /// The same database as another value, which does not drop it.
    #[must_use]
    pub fn same(&self) -> Self {
        Self { url: self.url.clone(), cleanup: Cleanup::Nothing }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens it with the schema; `clock` replaces the database's clock.
    pub async fn store(&self, clock: Option<Arc<dyn Clock>>) -> Result<Store> {
        // Many tests run at once, and some machines are slow.
        let connect_timeout = Duration::from_secs(60);
        let options = StoreOptions { clock, connect_timeout, ..StoreOptions::default() };
        let store = Store::open(self.url.parse()?, &options).await?;
        store.initialise(Init::Always).await?;
        Ok(store)
    }
}

fn test_server() -> Option<PgConnectOptions> {
    let server = skip::require("postgres", std::env::var(POSTGRES_URL).ok())?;
    Some(PgConnectOptions::from_str(&server).expect("the test server's URL is understood"))
}

/// Depends on the migrations.
fn template_name() -> String {
    let checksums: String = known(Dialect::Postgres).iter().map(Migration::checksum).collect();
    let number = Sha256::digest(checksums).iter().take(8).fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
    format!("tm_template_{number:016x}")
}

/// Does nothing if another process has just done so.
async fn make_template(server: &PgConnectOptions, template: &str) {
    let mut admin = server.connect().await.expect("the test server is reachable");
    let mut run = async |sql: String| sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.map(drop);
    run("select pg_advisory_lock(hashtext('tidemill test template'))".to_owned()).await.expect("a lock");
    if Scratch::postgres_from(server, template).await.expect("a copy of the template").is_some() {
        return;
    }
    let scratch = Scratch::postgres_from(server, "template0").await.ok().flatten().expect("a new database");
    // Earlier than any test's clock.
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().expect("an instant")));
    scratch.store(Some(clock)).await.expect("the schema").close().await;
    let Cleanup::Database { name, .. } = &scratch.cleanup else { return };
    run(format!("alter database {name} rename to {template}")).await.expect("nobody uses the new database");
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
        // On its own runtime, because a test may drop this inside one that cannot be blocked.
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
    /// Runs any statement, for tests that plant a fault.
    pub async fn execute_for_test(&mut self, sql: &str) -> Result<()> {
        self.plain(AssertSqlSafe(sql.to_owned())).await
    }
}
