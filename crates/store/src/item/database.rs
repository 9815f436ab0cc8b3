//! The database that a reader reads: the store's own, or another one.

use crate::error::StoreError;
use crate::item::failure::{fatal, reading};
use crate::item::identifier::{Quote, quoted, quoted_table};
use crate::item::link::Link;
use crate::item::{CursorReader, SqlQuery};
use crate::store::Store;
use crate::url::{DatabaseUrl, Place};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::ExecutionContext;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for SQLite's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A database to read from. Cheap to clone; each reader opens a connection, so that the store keeps its own.
#[derive(Clone)]
pub struct Database {
    source: Source,
    place: String,
}

#[derive(Clone)]
enum Source {
    Postgres {
        options: Box<PgConnectOptions>,
        is_pooled: bool,
    },
    Sqlite(Box<SqliteConnectOptions>),
    MySql(Box<MySqlConnectOptions>),
    /// In memory, with a single connection.
    Shared(Store),
}

/// The dialects of SQL text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    Postgres,
    Sqlite,
    MySql,
}

impl Flavour {
    pub(crate) const fn quote(self) -> Quote {
        match self {
            Self::Postgres | Self::Sqlite => Quote::Double,
            Self::MySql => Quote::Backtick,
        }
    }
}

impl Database {
    pub fn of(store: &Store) -> Self {
        let source = match (store.postgres_options(), store.inner.url.file()) {
            (Some(options), _) => Source::Postgres {
                options: Box::new(options),
                is_pooled: store.is_behind_transaction_pooler(),
            },
            (None, Some(path)) => Source::Sqlite(Box::new(sqlite_options(path))),
            (None, None) => Source::Shared(store.clone()),
        };
        Self { source, place: store.place() }
    }

    /// The database at `url`: `postgres://…`, `sqlite://FILE`, `mysql://…` or `mariadb://…`. A reader connects to it.
    ///
    /// ```
    /// # use tidemill_store::item::Database;
    /// let shop = Database::connect("mysql://reader:secret@shop.example/orders").unwrap();
    /// assert_eq!(shop.to_string(), "mysql://shop.example:3306/orders");
    /// ```
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        let mysql = url.strip_prefix("mysql://").or_else(|| url.strip_prefix("mariadb://"));
        if let Some(rest) = mysql {
            return Self::mysql(&format!("mysql://{rest}"));
        }
        let parsed: DatabaseUrl = url.parse().map_err(|error| match error {
            StoreError::BadUrl { why } if why.contains("none of sqlite") => {
                StoreError::BadUrl { why: why.replace("none of sqlite", "none of mysql, mariadb, sqlite") }
            }
            error => error,
        })?;
        let place = parsed.to_string();
        let source = match parsed.place {
            Place::Postgres(options) => {
                let options = options.extra_float_digits(None).disable_statement_logging();
                Source::Postgres { options: Box::new(options), is_pooled: false }
            }
            Place::SqliteFile(path) => Source::Sqlite(Box::new(sqlite_options(&path))),
            Place::SqliteMemory => {
                let why = "a database in memory can be read only through its store".to_owned();
                return Err(StoreError::BadUrl { why });
            }
        };
        Ok(Self { source, place })
    }

    fn mysql(url: &str) -> Result<Self, StoreError> {
        // The driver's message may quote the URL with its password, so drop it.
        let options = MySqlConnectOptions::from_str(url).map_err(|_| StoreError::BadUrl {
            why: "it is not of the form mysql://USER@HOST:PORT/DATABASE".to_owned(),
        })?;
        let database = options.get_database().unwrap_or_default();
        let place = format!("mysql://{}:{}/{database}", options.get_host(), options.get_port());
        // Do not change how the author's SQL is read: `||` means what the server says.
        let options =
            options.pipes_as_concat(false).no_engine_substitution(false).disable_statement_logging();
        Ok(Self { source: Source::MySql(Box::new(options)), place })
    }

    /// The placeholder of the `number`-th value, counted from 1.
    ///
    /// ```
    /// # use tidemill_store::item::Database;
    /// assert_eq!(Database::connect("postgres://h/d").unwrap().placeholder(2), "$2");
    /// assert_eq!(Database::connect("mysql://h/d").unwrap().placeholder(2), "?");
    /// ```
    pub fn placeholder(&self, number: usize) -> String {
        match self.flavour() {
            Flavour::Postgres => format!("${number}"),
            Flavour::Sqlite | Flavour::MySql => "?".to_owned(),
        }
    }

    pub(crate) fn flavour(&self) -> Flavour {
        match self.source {
            Source::Postgres { .. } => Flavour::Postgres,
            Source::Sqlite(_) | Source::Shared(_) => Flavour::Sqlite,
            Source::MySql(_) => Flavour::MySql,
        }
    }

    pub(crate) async fn link(&self) -> Result<Link, ItemError> {
        match &self.source {
            Source::Postgres { options, is_pooled } => {
                let connection = self.in_time(options.connect()).await?;
                Ok(Link::Postgres { connection, is_pooled: *is_pooled })
            }
            Source::Sqlite(options) => Ok(Link::Sqlite(self.in_time(options.connect()).await?)),
            Source::MySql(options) => Ok(Link::MySql(self.in_time(options.connect()).await?)),
            Source::Shared(store) => Ok(Link::Shared(store.clone())),
        }
    }

    /// Refuses a database in memory: its only connection is held by the running step.
    pub(crate) async fn writing_link(&self) -> Result<Link, ItemError> {
        match &self.source {
            Source::Sqlite(options) => {
                let options = options.clone().pragma("query_only", "off");
                Ok(Link::Sqlite(self.in_time(options.connect()).await?))
            }
            Source::Shared(_) => Err(fatal(
                "a database in memory has no second connection to write by; let the statements run in the \
                 step's own transaction",
            )),
            Source::MySql(options) => {
                let mut connection = self.in_time(options.connect()).await?;
                // Without this a server may cut off or replace a value that does not fit, and report no error.
                let strict =
                    "set session sql_mode = concat_ws(',', nullif(@@sql_mode, ''), 'STRICT_ALL_TABLES')";
                sqlx::raw_sql(strict).execute(&mut connection).await.map_err(reading)?;
                Ok(Link::MySql(connection))
            }
            Source::Postgres { .. } => self.link().await,
        }
    }

    /// Refuses a database whose only connection a cursor would keep.
    pub(crate) async fn link_for_cursor(&self) -> Result<Link, ItemError> {
        match &self.source {
            Source::Shared(_) => Err(fatal(
                "a cursor would keep the only connection of a database in memory, and the step could not \
                 write; use a keyset or offset reader, or a database in a file",
            )),
            _ => self.link().await,
        }
    }

    /// The smallest and the greatest value of an integer column; `None` if no row has a value. `table` may be `schema.table`.
    #[crate::boxed]
    pub async fn bounds(&self, table: &str, column: &str) -> Result<Option<(i64, i64)>, ItemError> {
        let quote = self.flavour().quote();
        let (table, name) = (quoted_table(table, quote)?, quoted(column, quote)?);
        let query =
            SqlQuery::new(format!("select min({name}) as least, max({name}) as greatest from {table}"));
        let mut reader = CursorReader::new("bounds", self.clone(), query);
        reader.open(&ExecutionContext::new()).await?;
        let row = reader.read().await;
        reader.close().await;
        let Some(row) = row? else { return Ok(None) };
        match row.values() {
            [Value::Null, _] | [_, Value::Null] => Ok(None),
            [least, greatest] => Ok(Some((whole(least, column)?, whole(greatest, column)?))),
            _ => Ok(None),
        }
    }

    async fn in_time<C: Connection>(
        &self,
        connecting: impl Future<Output = Result<C, sqlx::Error>>,
    ) -> Result<C, ItemError> {
        match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
            Ok(connected) => connected.map_err(|error| {
                let cause = reading(error);
                let kind = cause.kind_in(tidemill_domain::item::Phase::Read);
                ItemError::new(kind, format!("cannot connect to {}: {}", self.place, cause.text()))
            }),
            Err(_) => Err(ItemError::new(
                ErrorKind::TRANSIENT,
                format!("{} did not answer within {} seconds", self.place, CONNECT_WITHIN.as_secs()),
            )),
        }
    }
}

/// Read-only, whatever the query says.
fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("query_only", "on")
        .disable_statement_logging()
}

/// Without user name and password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.place)
    }
}

fn whole(value: &Value, column: &str) -> Result<i64, ItemError> {
    let number = match value {
        Value::Long(number) => Some(*number),
        Value::Decimal(number) => number.to_string().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let text = format!("column {column:?} holds a {}; ranges need whole numbers", value.type_word());
        fatal(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in
            ["mysql://u:geheim@h/d", "mariadb://u:geheim@h:7/d", "postgres://u:geheim@h/d?password=geheim"]
        {
            let database = Database::connect(url).unwrap();
            assert!(!format!("{database} {database:?}").contains("geheim"));
        }
        for url in ["mysql://u:geheim@h:notaport/d", "oracle://u:geheim@h/d"] {
            let error = Database::connect(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
        }
    }

    #[test]
    fn the_documented_urls_are_understood() {
        for (url, place, flavour) in [
            ("mariadb://u@h/d", "mysql://h:3306/d", Flavour::MySql),
            ("mysql://u@h:7/d", "mysql://h:7/d", Flavour::MySql),
            ("postgres://u@h/d", "postgres://h:5432/d", Flavour::Postgres),
            ("sqlite:///var/lib/t.db", "sqlite:///var/lib/t.db", Flavour::Sqlite),
        ] {
            let database = Database::connect(url).unwrap();
            assert_eq!((database.to_string().as_str(), database.flavour()), (place, flavour));
        }
        assert!(Database::connect("sqlite::memory:").unwrap_err().to_string().contains("through its store"));
        assert!(
            Database::connect("oracle://h/d").unwrap_err().to_string().contains("mysql, mariadb, sqlite")
        );
    }
}
