//! Reading Parquet, Arrow and Avro files row by row.

use crate::open::{Batches, Opened, guarded, open, shrunk, unreadable};
use crate::value::{is_known, value};
use arrow_array::RecordBatch;
use arrow_schema::FieldRef;
use std::sync::Arc;
use tidemill_domain::item::{ColumnarFormat, ColumnarKind, FieldType, Row, Value};
use tidemill_engine::item::Source;
use tidemill_engine::item::reader::TableReader;
use tidemill_engine::item::reader::table::{Found, TableFormat};

/// Reads Parquet, Arrow and Avro files. Their first bytes tell the format.
///
/// Numbers, texts, days and times have their own types; lists, structs and maps are JSON. A timestamp with a zone is an
/// instant, to the microsecond; one without is a datetime. Its position is the number of the next row, so a restart reads on
/// with the row after the last committed chunk: at once in a Parquet file, in others after decoding what is before it.
///
/// ```
/// use tidemill_columnar::{Columnar, ColumnarReader};
/// use tidemill_domain::item::FieldType;
///
/// let columns = Columnar::default().column("id", None).column("amount", Some(FieldType::Double));
/// let reader = ColumnarReader::rows("orders", "in/orders.parquet").format(columns);
/// ```
pub type ColumnarReader<T> = TableReader<Columnar, T>;

/// What a [`ColumnarReader`] reads.
#[derive(Clone, Default, Debug)]
pub struct Columnar {
    /// All, if there are none.
    pub(crate) columns: Vec<(String, Option<FieldType>)>,
    pub(crate) only: Option<ColumnarKind>,
    pub(crate) group: Option<usize>,
    pub(crate) version: Option<String>,
}

impl Columnar {
    /// The columns of a format, and only files of its kind.
    pub fn of(format: &ColumnarFormat) -> Self {
        Self { columns: format.columns.clone(), only: Some(format.kind), ..Self::default() }
    }

    tidemill_domain::setters! {
        /// Reads only the columns that are named, in this order. A type is checked, and makes values of texts.
        pub fn column(self, name: impl Into<String>, kind: Option<FieldType>) {
            self.columns.push((name.into(), kind))
        }
        /// Reads only this row group of a Parquet file, or this record batch of an Arrow file, counted from 0.
        pub fn group(self, group: usize) { self.group = Some(group) }
        /// Refuses an object of another version: its row groups are others.
        pub fn version(self, version: impl Into<String>) { self.version = Some(version.into()) }
    }
}

/// An open file.
pub struct Table {
    names: Arc<[String]>,
    columns: Vec<Column>,
    batches: Batches,
    batch: Option<RecordBatch>,
    /// The number of the first row of the batch, or of the next batch if there is none.
    first: u64,
    rows: Option<u64>,
    before: u64,
}

struct Column {
    /// The index in a batch.
    array: usize,
    field: FieldRef,
    kind: Option<FieldType>,
}

impl TableFormat for Columnar {
    type Table = Table;

    fn open(&self, source: Source, from: u64) -> Result<Table, String> {
        let Opened { batches, first, rows, before } = guarded(|| open(&source, self, from))??;
        let schema = batches.schema();
        let column = |(name, kind): &(String, Option<FieldType>)| {
            let Some((array, field)) = schema.fields().find(name) else {
                let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(format!("it has no column {name:?}; it has {}", known.join(", ")));
            };
            if schema.fields().iter().filter(|field| field.name() == name).count() > 1 {
                return Err(format!(
                    "it has two columns {name:?}; rename one, or name the other columns to read"
                ));
            }
            match field.data_type() {
                known if is_known(known) => Ok(Column { array, field: field.clone(), kind: *kind }),
                other => {
                    Err(format!("column {name:?} has the type {other}; name the columns to read, without it"))
                }
            }
        };
        let chosen = match self.columns.is_empty() {
            true => schema.fields().iter().map(|field| (field.name().clone(), None)).collect(),
            false => self.columns.clone(),
        };
        let columns = chosen.iter().map(column).collect::<Result<Vec<_>, String>>()?;
        let names = chosen.into_iter().map(|(name, _)| name).collect();
        Ok(Table { names, columns, batches, batch: None, first, rows, before })
    }

    fn row(table: &mut Table, number: u64) -> Result<Found, String> {
        match table.go_to(number) {
            Err(fault) => Ok(Found::Damaged(fault)),
            Ok(None) => Ok(Found::End),
            Ok(Some(row)) => {
                let values = table.columns.iter().map(|Column { array, field, kind }| {
                    let found = match &table.batch {
                        Some(batch) => value(field, batch.column(*array), row),
                        None => Ok(Value::Null),
                    };
                    let fitted = found.and_then(|value| match kind {
                        Some(kind) => kind.fit(&value),
                        None => Ok(value),
                    });
                    fitted.map_err(|fault| format!("column {:?} {fault}", field.name()))
                });
                Ok(Found::Row(Row::new(table.names.clone(), values.collect::<Result<Vec<Value>, _>>()?)))
            }
        }
    }

    fn shown(table: &Table, number: u64) -> u64 {
        table.before + number + 1
    }

    fn count(table: &Table) -> Option<u64> {
        table.rows
    }
}

impl Table {
    /// The index of a row within the batch; none after the last row.
    fn go_to(&mut self, number: u64) -> Result<Option<usize>, String> {
        loop {
            let end = self.first + self.batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            if number < end {
                return Ok(usize::try_from(number - self.first).ok());
            }
            let next = guarded(|| self.batches.next())?;
            (self.first, self.batch) = (end, next.transpose().map_err(unreadable)?);
            if self.batch.is_none() {
                return match self.rows {
                    Some(rows) if rows != end => Err(unreadable("it has other rows than it declares")),
                    _ if number > end => Err(shrunk(end)),
                    _ => Ok(None),
                };
            }
        }
    }
}
