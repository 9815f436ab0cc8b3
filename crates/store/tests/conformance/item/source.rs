//! A database to be read in a test, and the three readers under one roof.

use std::sync::atomic::{AtomicU32, Ordering};
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::Store;
use tidemill_store::item::{CursorReader, Database, KeysetReader, OffsetReader, SqlQuery};
use tidemill_store::scratch::Scratch;
use tidemill_store::sqlx::mysql::MySqlConnectOptions;
use tidemill_store::sqlx::{self, AssertSqlSafe, ConnectOptions};
use tidemill_testkit::skip;

/// The variable that names a MySQL or MariaDB on which tests may create and drop databases.
const MYSQL_URL: &str = "TIDEMILL_TEST_MYSQL_URL";

/// A database of a test's own.
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) database: Database,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

enum Place {
    Store { store: Store, _scratch: Scratch },
    MySql { server: Box<MySqlConnectOptions>, name: String },
}

impl Source {
    pub(crate) async fn sqlite() -> Self {
        Self::of_store(Kind::Sqlite, Scratch::file()).await
    }

    pub(crate) async fn postgres() -> Option<Self> {
        Some(Self::of_store(Kind::Postgres, Scratch::postgres().await?).await)
    }

    async fn of_store(kind: Kind, scratch: Scratch) -> Self {
        let store = scratch.store(None).await.unwrap();
        Self { kind, database: Database::of(&store), place: Place::Store { store, _scratch: scratch } }
    }

    pub(crate) async fn mysql() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = skip::require("mysql", std::env::var(MYSQL_URL).ok())?;
        let server: MySqlConnectOptions = server.parse().unwrap();
        let name = format!("tm_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut admin = server.connect().await.unwrap();
        let create = format!("create or replace database {name} character set utf8mb4");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.unwrap();
        let server = server.database(&name);
        let database = Database::connect(server.to_url_lossy().as_str()).unwrap();
        Some(Self { kind: Kind::MySql, database, place: Place::MySql { server: Box::new(server), name } })
    }

    /// Runs statements.
    pub(crate) async fn run(&self, sql: &str) {
        match &self.place {
            Place::Store { store, .. } => {
                let mut tx = store.begin().await.unwrap();
                tx.execute_for_test(sql).await.unwrap();
                tx.commit().await.unwrap();
            }
            Place::MySql { server, .. } => {
                let mut connection = server.connect().await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
            }
        }
    }

    /// A place for the first bound value.
    pub(crate) fn place(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => "$1",
            Kind::Sqlite | Kind::MySql => "?",
        }
    }

    /// Ends the connections of readers.
    pub(crate) async fn cut_others(&self) {
        match &self.place {
            Place::Store { .. } => {
                // Those of the store itself have said something else last.
                self.run(
                    "select pg_terminate_backend(pid)
                     from pg_stat_activity
                     where datname = current_database() and pid <> pg_backend_pid()
                         and (query like '%tidemill_cursor%' or query like '% from w%')",
                )
                .await;
            }
            Place::MySql { server, name } => {
                let mut admin = server.connect().await.unwrap();
                let ids: Vec<u64> = sqlx::query_scalar(
                    "select cast(id as unsigned)
                     from information_schema.processlist
                     where db = ? and id <> connection_id()",
                )
                .bind(name)
                .fetch_all(&mut admin)
                .await
                .unwrap();
                for id in ids {
                    sqlx::raw_sql(AssertSqlSafe(format!("kill {id}"))).execute(&mut admin).await.unwrap();
                }
            }
        }
    }

    /// Makes a table `t` of `rows` rows: an id, a group with many rows each, and the place in the group.
    pub(crate) async fn fill(&self, rows: i64) {
        self.run(
            "create table t (id bigint primary key, family bigint not null, member varchar(20) not null)",
        )
        .await;
        let values: Vec<String> =
            (1..=rows).map(|id| format!("({id}, {}, 'm{:03}')", id / 4, 999 - id % 4)).collect();
        if !values.is_empty() {
            self.run(&format!("insert into t (id, family, member) values {}", values.join(", "))).await;
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let Place::MySql { server, name } = &self.place else { return };
        let (server, name) = (server.clone(), name.clone());
        // A runtime of its own, because a test may drop this inside one that cannot be blocked.
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut admin = server.connect().await.unwrap();
                let remove = format!("drop database {name}");
                sqlx::raw_sql(AssertSqlSafe(remove)).execute(&mut admin).await.unwrap();
            });
        });
        cleaner.join().unwrap();
    }
}

/// Any of the readers.
#[derive(Debug)]
pub(crate) enum Reader {
    Cursor(CursorReader),
    Keyset(KeysetReader),
    Offset(OffsetReader),
}

impl Reader {
    /// The three readers of one query, with pages of this size. Keys give the order.
    pub(crate) fn all(
        database: &Database,
        query: &SqlQuery,
        ordered: &SqlQuery,
        keys: &[&str],
        size: usize,
    ) -> [Self; 3] {
        [
            Self::Cursor(CursorReader::new("rows", database.clone(), ordered.clone()).fetch_size(size)),
            Self::Keyset(KeysetReader::new(
                "rows",
                database.clone(),
                query.clone(),
                keys.iter().copied(),
                size,
            )),
            Self::Offset(OffsetReader::new("rows", database.clone(), ordered.clone(), size)),
        ]
    }

    pub(crate) async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        match self {
            Self::Cursor(reader) => reader.open(context).await,
            Self::Keyset(reader) => reader.open(context).await,
            Self::Offset(reader) => reader.open(context).await,
        }
    }

    pub(crate) async fn read(&mut self) -> Result<Option<Row>, ItemError> {
        match self {
            Self::Cursor(reader) => reader.read().await,
            Self::Keyset(reader) => reader.read().await,
            Self::Offset(reader) => reader.read().await,
        }
    }

    /// The position, as it comes back from where it is stored.
    pub(crate) fn position(&mut self) -> ExecutionContext {
        let mut context = ExecutionContext::new();
        match self {
            Self::Cursor(reader) => reader.update(&mut context),
            Self::Keyset(reader) => reader.update(&mut context),
            Self::Offset(reader) => reader.update(&mut context),
        }
        ExecutionContext::from_text(&context.to_text().unwrap()).unwrap()
    }

    pub(crate) async fn close(&mut self) {
        match self {
            Self::Cursor(reader) => reader.close().await,
            Self::Keyset(reader) => reader.close().await,
            Self::Offset(reader) => reader.close().await,
        }
    }

    /// All that is left, by the first column.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        while let Some(row) = self.read().await.unwrap() {
            values.push(row.values()[0].clone());
        }
        values
    }
}
