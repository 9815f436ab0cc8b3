//! Writes rows into a table of the store's database, in the transaction of the chunk.

mod catalogue;
mod postgres;
mod sqlite;
mod statement;

pub use postgres::StagedRows;

use crate::item::failure::fatal;
use crate::item::identifier::{Quote, quoted};
use crate::statement::Database;
use crate::store::Store;
use crate::tx::Tx;
use crate::url::Dialect;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row, Value};

/// How rows are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Binary `copy`, the fastest for large chunks on PostgreSQL; on SQLite the same as [`Mode::Insert`].
    Copy,
    Insert,
    /// `insert`, or update of the other columns if the key exists. Of several rows with one key the last one counts.
    Upsert {
        /// The columns of a unique index.
        key: Vec<String>,
    },
    /// Deletes the rows whose columns equal the values that are pushed: the columns are the key. A row that does not exist
    /// is no error.
    Delete,
}

/// Writes rows into a table. Push rows one by one into a buffer; a flush writes them by one statement.
///
/// A value converts to another column type only if nothing is lost: a text from a file to a date, a long to an `int4`.
/// Otherwise [`push`](Self::push) fails, naming the column, and leaves the buffer unchanged.
///
/// ```
/// # use tidemill_store::{Store, item::{Mode, TableWriter}};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let store = Store::connect("sqlite::memory:").await.unwrap();
/// # let mut tx = store.begin().await.unwrap();
/// # let create = "create table payment (id integer primary key, amount text)";
/// # store_sql(&mut tx, create).await;
/// # tx.commit().await.unwrap();
/// let mut writer = TableWriter::new("payment").columns(["id", "amount"]).mode(Mode::Insert);
/// writer.open(&store).await.unwrap();
///
/// let mut tx = store.begin().await.unwrap();
/// writer.push(&[1.into(), "12.50".into()]).unwrap();
/// writer.push(&[2.into(), "7.00".into()]).unwrap();
/// writer.flush(&mut tx).await.unwrap();
/// tx.commit().await.unwrap();
/// # });
/// # async fn store_sql(tx: &mut tidemill_store::Tx, sql: &'static str) {
/// #     tidemill_store::sqlx::query(sql).execute(tx.sqlite().unwrap()).await.unwrap();
/// # }
/// ```
#[derive(Debug)]
pub struct TableWriter {
    table: String,
    columns: Vec<String>,
    mode: Mode,
    batch: Option<Batch>,
    /// Positions of the columns in the rows pushed last.
    mapping: Option<(Arc<[String]>, Vec<usize>)>,
}

#[derive(Debug)]
enum Batch {
    Postgres(postgres::PgBatch),
    Sqlite(sqlite::SqliteBatch),
}

impl TableWriter {
    /// Writes into `table`, or `schema.table`, by [`Mode::Copy`].
    pub fn new(table: impl Into<String>) -> Self {
        Self { table: table.into(), columns: Vec::new(), mode: Mode::Copy, batch: None, mapping: None }
    }

    /// The columns to write. Default: all that the table has and does not compute itself.
    #[must_use]
    pub fn columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Looks up the columns. The error for a missing table or column lists those that exist.
    #[crate::boxed]
    pub async fn open(&mut self, store: &Store) -> Result<(), ItemError> {
        let table = Target::parse(&self.table)?;
        let known = catalogue::columns(store, &table).await?;
        if self.columns.is_empty() {
            let written = known.iter().filter(|column| !column.is_computed);
            self.columns = written.map(|column| column.name.clone()).collect();
        }
        let chosen = self
            .columns
            .iter()
            .map(|name| catalogue::find(&known, name, store.dialect(), &self.table).cloned())
            .collect::<Result<Vec<_>, ItemError>>()?;
        let dialect = store.dialect();
        let key =
            key_indices(&self.mode, &self.columns, |one, other| catalogue::is_same(one, other, dialect))?;
        self.mapping = None;
        self.batch = Some(match store.dialect() {
            Dialect::Postgres => Batch::Postgres(postgres::PgBatch::new(&table, &chosen, &self.mode, key)?),
            Dialect::Sqlite => Batch::Sqlite(sqlite::SqliteBatch::new(&table, &chosen, &self.mode, key)?),
        });
        Ok(())
    }

    /// The columns written, in the order of [`push`](Self::push).
    pub fn column_names(&self) -> &[String] {
        &self.columns
    }

    /// Appends a row: a value for each column.
    pub fn push(&mut self, values: &[Value]) -> Result<(), ItemError> {
        if values.len() != self.columns.len() {
            return Err(fatal(format!(
                "a row of {} values was given for the {} columns of {}",
                values.len(),
                self.columns.len(),
                self.table
            )));
        }
        push(&mut self.batch, values.iter())
    }

    /// Appends a row by column names; ignores columns that are not written.
    pub fn push_row(&mut self, row: &Row) -> Result<(), ItemError> {
        // All rows of one source share their names, so this is looked up once.
        let indices = match &mut self.mapping {
            Some((names, indices)) if Arc::ptr_eq(names, row.columns()) => indices,
            mapping => {
                let indices =
                    self.columns.iter().map(|column| place_in(row, column)).collect::<Result<Vec<_>, _>>()?;
                &mut mapping.insert((Arc::clone(row.columns()), indices)).1
            }
        };
        let values = row.values();
        push(&mut self.batch, indices.iter().map(|index| &values[*index]))
    }

    /// Rows in the buffer.
    pub fn len(&self) -> usize {
        match &self.batch {
            Some(Batch::Postgres(batch)) => batch.len(),
            Some(Batch::Sqlite(batch)) => batch.len(),
            None => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the buffer, which is empty afterwards, also after an error.
    #[crate::boxed]
    pub async fn flush(&mut self, tx: &mut Tx) -> Result<(), ItemError> {
        let written = match (&mut self.batch, tx.database()) {
            (Some(Batch::Postgres(batch)), Database::Postgres(connection)) => batch.flush(connection).await,
            (Some(Batch::Sqlite(batch)), Database::Sqlite(connection)) => batch.flush(connection).await,
            (Some(_), _) => Err(fatal("the writer of a table was opened for another database")),
            (None, _) => Err(not_open()),
        };
        self.clear();
        written
    }

    /// Takes the rows of the buffer, to write them together with others. None if they have to be [flushed](Self::flush).
    pub fn stage(&mut self) -> Option<StagedRows> {
        match &mut self.batch {
            Some(Batch::Postgres(batch)) => batch.stage(),
            Some(Batch::Sqlite(_)) | None => None,
        }
    }

    /// Empties the buffer, for a chunk that is rolled back.
    pub fn clear(&mut self) {
        match &mut self.batch {
            Some(Batch::Postgres(batch)) => batch.clear(),
            Some(Batch::Sqlite(batch)) => batch.clear(),
            None => {}
        }
    }
}

/// Positions of the key columns; `None` without upsert.
fn key_indices(
    mode: &Mode,
    columns: &[String],
    is_same: impl Fn(&str, &str) -> bool,
) -> Result<Option<Vec<usize>>, ItemError> {
    let Mode::Upsert { key } = mode else { return Ok(None) };
    if key.is_empty() {
        return Err(fatal("an upsert needs at least one key column"));
    }
    let index = |name: &String| {
        columns.iter().position(|column| is_same(column, name)).ok_or_else(|| {
            fatal(format!(
                "the key column {name:?} is not among the columns that are written: {}",
                columns.join(", ")
            ))
        })
    };
    key.iter().map(index).collect::<Result<_, _>>().map(Some)
}

fn push<'a>(batch: &mut Option<Batch>, values: impl Iterator<Item = &'a Value>) -> Result<(), ItemError> {
    match batch {
        Some(Batch::Postgres(batch)) => batch.push(values),
        Some(Batch::Sqlite(batch)) => batch.push(values),
        None => Err(not_open()),
    }
}

fn place_in(row: &Row, column: &str) -> Result<usize, ItemError> {
    let found = row.columns().iter().position(|name| name == column);
    found.ok_or_else(|| {
        fatal(format!(
            "the rows have no column {column:?} for the table; they have {}",
            row.columns().join(", ")
        ))
    })
}

fn not_open() -> ItemError {
    fatal("the writer of a table was used before it was opened")
}

fn refused(column: &str, why: &str) -> ItemError {
    ItemError::new(ErrorKind::PARSE, format!("column {column:?} {why}"))
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Target {
    schema: Option<String>,
    table: String,
    quoted: String,
}

impl Target {
    fn parse(text: &str) -> Result<Self, ItemError> {
        let (schema, table) = match text.split_once('.') {
            Some((schema, table)) => (Some(schema), table),
            None => (None, text),
        };
        let table_quoted = quoted(table, Quote::Double)?;
        let quoted = match schema {
            Some(schema) => format!("{}.{table_quoted}", quoted(schema, Quote::Double)?),
            None => table_quoted,
        };
        Ok(Self { schema: schema.map(str::to_owned), table: table.to_owned(), quoted })
    }
}

/// The clause that turns an `insert` into an upsert.
fn on_conflict(columns: &[String], key: &[usize]) -> String {
    let keys: Vec<&str> = key.iter().map(|index| columns[*index].as_str()).collect();
    let changes: Vec<String> = columns
        .iter()
        .enumerate()
        .filter(|(index, _)| !key.contains(index))
        .map(|(_, column)| format!("{column} = excluded.{column}"))
        .collect();
    let action =
        if changes.is_empty() { "nothing".to_owned() } else { format!("update\nset {}", changes.join(", ")) };
    format!("\non conflict ({}) do {action}", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_quoted_apart_from_its_table() {
        let target = Target::parse("a\"b.c").unwrap();

        assert_eq!(target.quoted, "\"a\"\"b\".\"c\"");
        assert!(Target::parse("").is_err());
        assert!(Target::parse(".t").is_err());
    }

    #[test]
    fn where_all_columns_are_keys_there_is_nothing_to_change() {
        let columns = ["\"a\"".to_owned(), "\"b\"".to_owned()];

        assert_eq!(on_conflict(&columns, &[1, 0]), "\non conflict (\"b\", \"a\") do nothing");
        assert_eq!(
            on_conflict(&columns, &[0]),
            "\non conflict (\"a\") do update\nset \"b\" = excluded.\"b\""
        );
    }
}
