//! A reader that runs one statement and returns its rows one by one.

use crate::item::database::Database;
use crate::item::failure::reading;
use crate::item::feed::{Feed, Flow, Sink};
use crate::item::link::{Link, Plan};
use crate::item::position::{Count, counting_reader};
use crate::item::query::SqlQuery;
use crate::item::{mysql, postgres, sqlite};
use sqlx::Connection;
use tidemill_domain::item::{ItemError, Row};
use tidemill_domain::job::ExecutionContext;

/// Default number of rows per fetch.
const FETCH_SIZE: usize = 1_000;

/// Reads the rows of one statement: on PostgreSQL by a server-side cursor, elsewhere a few batches ahead at most.
///
/// A restart runs the statement again and skips the rows that were read before. That is correct only if the statement
/// has an order and those rows still exist; otherwise use a [`KeysetReader`](crate::item::KeysetReader).
#[derive(Debug)]
pub struct CursorReader {
    database: Database,
    query: SqlQuery,
    fetch_size: usize,
    is_counted: bool,
    total: Option<u64>,
    count: Count,
    flow: Flow,
}

counting_reader!(CursorReader);

impl CursorReader {
    /// `name` is the key of its saved position.
    pub fn new(name: &str, database: Database, query: SqlQuery) -> Self {
        let count = Count::new(name);
        Self {
            database,
            query,
            fetch_size: FETCH_SIZE,
            is_counted: false,
            total: None,
            count,
            flow: Flow::Idle,
        }
    }

    /// Rows per fetch.
    #[must_use]
    pub fn fetch_size(mut self, rows: usize) -> Self {
        self.fetch_size = rows.max(1);
        self
    }

    /// Runs the statement and skips to the saved position.
    pub async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.flow.close().await;
        self.count.load(context)?;
        self.start().await
    }

    #[crate::boxed]
    async fn start(&mut self) -> Result<(), ItemError> {
        let mut link = begun(self.database.link_for_cursor().await?).await?;
        let plan = link.prepare_query(&self.query).await?;
        self.count_if_wanted(&mut link).await?;
        let (query, skip, size) = (self.query.clone(), self.count.rows(), self.fetch_size);
        self.flow = Flow::Running(Feed::start(move |sink| run(link, plan, query, skip, size, sink)));
        Ok(())
    }
}

/// A PostgreSQL cursor needs a transaction. It may be idle between two chunks, and it locks no rows.
async fn begun(link: Link) -> Result<Link, ItemError> {
    let Link::Postgres { mut connection, is_pooled } = link else { return Ok(link) };
    let begin = "begin isolation level repeatable read read only; \
                 set local idle_in_transaction_session_timeout = 0";
    sqlx::raw_sql(begin).execute(&mut connection).await.map_err(reading)?;
    if is_pooled {
        postgres::deallocate(&mut connection).await?;
    }
    // From here on the transaction keeps its server connection.
    Ok(Link::Postgres { connection, is_pooled: false })
}

async fn run(
    link: Link,
    plan: Plan,
    query: SqlQuery,
    skip: u64,
    size: usize,
    sink: Sink,
) -> Result<(), ItemError> {
    let closed = match (link, plan) {
        (Link::Postgres { mut connection, .. }, Plan::Postgres(plan)) => {
            postgres::stream(&mut connection, &plan, query.text(), query.values(), skip, size, &sink).await?;
            connection.close().await
        }
        (Link::Sqlite(mut connection), Plan::Sqlite(plan)) => {
            sqlite::stream(&mut connection, &plan, query.values(), skip, size, &sink).await?;
            connection.close().await
        }
        (Link::MySql(mut connection), Plan::MySql(plan)) => {
            mysql::stream(&mut connection, &plan, query.values(), skip, size, &sink).await?;
            connection.close().await
        }
        _ => return Err(crate::item::failure::fatal("a query was prepared for another database")),
    };
    if closed.is_err() {
        tracing::debug!("the connection of a cursor did not close in order");
    }
    Ok(())
}
