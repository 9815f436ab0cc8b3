//! Writing by the author's own statement, with values of the item.

use crate::job::{ChunkScope, Delivery, ItemStream, ItemWriter};
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Row};
use tidemill_store::item::{Database, Mode, SqlQuery};

/// Runs a statement for each item, in the chunk's transaction: exactly once, unless it names another database.
///
/// ```
/// use tidemill_engine::item::StatementWriter;
/// use tidemill_engine::item::sql::SqlQuery;
///
/// let writer = StatementWriter::new(|order: &i64| {
///     Ok(SqlQuery::new("update orders set state = 'paid' where id = $1").bind(*order).must_change())
/// });
/// # let _typed: Box<dyn std::any::Any> = Box::new(writer);
/// ```
#[derive(Clone, Debug)]
pub struct StatementWriter<F> {
    statement: F,
    database: Option<Database>,
}

/// Makes a statement of a row.
pub type OfRow = Box<dyn FnMut(&Row) -> Result<SqlQuery, ItemError> + Send>;

impl<F> StatementWriter<F> {
    /// Runs the statement that `statement` makes of an item.
    pub fn new<T>(statement: F) -> Self
    where
        F: FnMut(&T) -> Result<SqlQuery, ItemError> + Send + 'static,
    {
        Self { statement, database: None }
    }

    tidemill_domain::setters! {
        /// Runs them on another database, the items of a chunk in one transaction: at least once, because that commits
        /// before the chunk does.
        #[must_use]
        pub fn on(self, database: Database) { self.database = Some(database) }
    }
}

impl StatementWriter<OfRow> {
    /// Writes rows into a table of another database, a statement for each: at least once. Columns are matched by name. With
    /// [`Mode::Upsert`] or [`Mode::Delete`], a chunk that is written again changes nothing. [`Mode::Copy`] inserts.
    ///
    /// ```
    /// use tidemill_engine::item::StatementWriter;
    /// use tidemill_engine::item::sql::{Database, Mode};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let shop = Database::connect("mysql://writer@shop.example/orders").unwrap();
    /// let mode = Mode::Upsert { key: vec!["id".to_owned()] };
    /// let writer = StatementWriter::table(shop, "orders", ["id", "state"], &mode)?;
    /// # let _typed: Box<dyn std::any::Any> = Box::new(writer);
    /// # Ok::<(), tidemill_domain::item::ItemError>(())
    /// # }).unwrap();
    /// ```
    pub fn table<C: Into<String>>(
        database: Database,
        table: &str,
        columns: impl IntoIterator<Item = C>,
        mode: &Mode,
    ) -> Result<Self, ItemError> {
        let columns: Arc<[String]> = columns.into_iter().map(Into::into).collect();
        let text = database.row_statement(table, &columns, mode)?;
        let statement = move |row: &Row| {
            columns.iter().try_fold(SqlQuery::new(&*text), |query, column| {
                Ok(query.bind(row.value(column).map_err(ItemError::fatal)?.clone()))
            })
        };
        Ok(Self { statement: Box::new(statement), database: Some(database) })
    }
}

impl<F: Send + 'static> ItemStream for StatementWriter<F> {}

impl<T, F> ItemWriter<T> for StatementWriter<F>
where
    T: Sync,
    F: FnMut(&T) -> Result<SqlQuery, ItemError> + Send + 'static,
{
    async fn write(&mut self, items: &[T], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let statements = items.iter().map(&mut self.statement).collect::<Result<Vec<_>, _>>()?;
        match &self.database {
            None => chunk.tx().await?.run_statements(&statements).await?,
            Some(database) => database.run_statements(&statements).await?,
        };
        Ok(())
    }

    fn delivery(&self) -> Delivery {
        match self.database {
            None => Delivery::ExactlyOnce,
            Some(_) => Delivery::AtLeastOnce,
        }
    }
}
