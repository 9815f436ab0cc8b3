//! Readers and writers of database tables, as parts of a step.
//!
//! ```
//! use tidemill_engine::item::sql::{Database, KeysetReader, SqlQuery, SqlWriter};
//! use tidemill_engine::job::{Job, Step};
//!
//! let job = Job::new("copy").step(
//!     Step::chunk("all", 1000)
//!         .reader_with(|scope| {
//!             let query = SqlQuery::new("select id, name from source");
//!             Ok(KeysetReader::new("source", Database::of(scope.store()), query, ["id"], 1000))
//!         })
//!         .writer_with(|scope| Ok(SqlWriter::rows(scope.store(), "target", ["id", "name"])))
//!         .build(),
//! );
//! assert!(job.check().is_ok());
//! ```

use crate::job::{ChunkScope, Delivery, ItemReader, ItemStream, ItemWriter};
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::Store;
use tidemill_store::item::TableWriter;

pub use tidemill_store::item::{CursorReader, Database, KeysetReader, Mode, OffsetReader, SqlQuery};

macro_rules! reader {
    ($($reader:ty: $has_fixed_order:literal),+) => {
        $(impl ItemStream for $reader {
            async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
                Self::open(self, context).await
            }

            fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
                Self::update(self, context);
                Ok(())
            }

            async fn close(&mut self, _: bool) -> Result<(), ItemError> {
                Self::close(self).await;
                Ok(())
            }
        }

        impl ItemReader for $reader {
            type Item = Row;

            async fn read(&mut self) -> Result<Option<Row>, ItemError> {
                Self::read(self).await
            }

            fn total(&self) -> Option<u64> {
                Self::total(self)
            }

            fn has_fixed_order(&self) -> bool {
                $has_fixed_order
            }
        })+
    };
}

reader!(CursorReader: true, KeysetReader: false, OffsetReader: true);

/// Writes items into a table of the job's own database, in the chunk's transaction: exactly once.
#[derive(Debug)]
pub struct SqlWriter<F> {
    store: Store,
    table: TableWriter,
    values: F,
}

/// Provides the column values of an item.
pub trait Values<T>: Send + 'static {
    /// Adds the values of `item` to the table's buffer.
    fn push(&mut self, table: &mut TableWriter, item: &T) -> Result<(), ItemError>;
}

impl<T, F: FnMut(&T) -> Vec<Value> + Send + 'static> Values<T> for F {
    fn push(&mut self, table: &mut TableWriter, item: &T) -> Result<(), ItemError> {
        table.push(&self(item))
    }
}

/// Takes the values of a row by column name.
#[derive(Clone, Copy, Debug)]
pub struct OfRow;

impl Values<Row> for OfRow {
    fn push(&mut self, table: &mut TableWriter, row: &Row) -> Result<(), ItemError> {
        table.push_row(row)
    }
}

impl SqlWriter<OfRow> {
    /// Writes rows; columns are matched by name.
    pub fn rows<C: Into<String>>(
        store: &Store,
        table: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        Self::new(store, table, columns, OfRow)
    }
}

impl<F> SqlWriter<F> {
    /// Writes items into these columns of `table`; `values` returns the values of an item, in the same order.
    pub fn new<C: Into<String>>(
        store: &Store,
        table: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
        values: F,
    ) -> Self {
        let table = TableWriter::new(table).columns(columns);
        Self { store: store.clone(), table, values }
    }

    tidemill_domain::setters! {
        /// How rows are written; [`Mode::Copy`] by default.
        #[must_use]
        pub fn mode(self, mode: Mode) { self.table = self.table.mode(mode) }
    }
}

impl<F: Send + 'static> ItemStream for SqlWriter<F> {
    async fn open(&mut self, _: &ExecutionContext) -> Result<(), ItemError> {
        self.table.open(&self.store).await
    }
}

impl<T: Sync, F: Values<T>> ItemWriter<T> for SqlWriter<F> {
    async fn write(&mut self, items: &[T], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        self.table.clear();
        for item in items {
            self.values.push(&mut self.table, item)?;
        }
        chunk.flush(&mut self.table).await
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.table.clear();
        Ok(())
    }

    fn is_concurrent(&self) -> bool {
        true
    }

    fn staged_tables(&self) -> Option<usize> {
        Some(1)
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }
}
