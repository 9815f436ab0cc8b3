//! Rows of a result, and rows that could not be decoded.

use sqlx::{Column as _, Either, Statement};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row, Value};

pub(crate) type Item = Result<Row, Box<BadRow>>;

/// A row with a value that could not be decoded. It keeps the other values, so that a reader knows its position.
#[derive(Debug)]
pub(crate) struct BadRow {
    pub(crate) error: ItemError,
    pub(crate) row: Row,
}

/// `decode` returns the value of a column by its index, or what is wrong with it.
#[inline]
pub(crate) fn assemble(
    names: &Arc<[String]>,
    mut decode: impl FnMut(usize) -> Result<Value, String>,
) -> Item {
    let mut values = Vec::with_capacity(names.len());
    let mut wrong: Option<String> = None;
    for (index, name) in names.iter().enumerate() {
        match decode(index) {
            Ok(value) => values.push(value),
            Err(why) => {
                values.push(Value::Null);
                wrong.get_or_insert_with(|| format!("column {name:?} {why}"));
            }
        }
    }
    let row = Row::new(Arc::clone(names), values);
    match wrong {
        None => Ok(row),
        Some(text) => Err(Box::new(BadRow { error: ItemError::new(ErrorKind::READ, text), row })),
    }
}

/// A query that SQLite or MySQL has prepared.
pub(crate) struct Plan<S> {
    pub(crate) statement: S,
    pub(crate) names: Arc<[String]>,
}

impl<S: Statement> Plan<S> {
    pub(crate) fn new(statement: S) -> Self {
        let names = statement.columns().iter().map(|column| column.name().to_owned()).collect();
        Self { statement, names }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn places(&self) -> usize {
        places(self.statement.parameters())
    }
}

/// The number of placeholders.
pub(crate) fn places<T>(parameters: Option<Either<&[T], usize>>) -> usize {
    match parameters {
        Some(Either::Left(places)) => places.len(),
        Some(Either::Right(places)) => places,
        None => 0,
    }
}

/// Errors read as a continuation of the column's name.
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes.try_into().map_err(|_| format!("has a value of {} bytes where {N} were expected", bytes.len()))
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

pub(crate) fn unsupported(name: &str, type_name: &str) -> ItemError {
    let text = format!(
        "column {name:?} is of type {type_name}, which cannot be read as it is; cast it to text in the query"
    );
    ItemError::new(ErrorKind::FATAL, text)
}
