//! What comes out of a result: rows, and those that could not be understood.

use sqlx::{Column as _, Either, Statement};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row, Value};

/// A row, or one of which a value could not be understood.
pub(crate) type Item = Result<Row, Box<BadRow>>;

/// A row of which at least one value could not be understood. The others are there, so that a reader knows
/// where it is.
#[derive(Debug)]
pub(crate) struct BadRow {
    pub(crate) error: ItemError,
    pub(crate) row: Row,
}

/// Puts the row together. `decode` gives the value of each column by its number, or says what is wrong with
/// it.
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

/// A query as SQLite or MySQL understood it.
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

/// How many places a statement has for values.
pub(crate) fn places<T>(parameters: Option<Either<&[T], usize>>) -> usize {
    match parameters {
        Some(Either::Left(places)) => places.len(),
        Some(Either::Right(places)) => places,
        None => 0,
    }
}

/// A value of so many bytes. What is said in an error follows the name of the column.
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes.try_into().map_err(|_| format!("has a value of {} bytes where {N} were expected", bytes.len()))
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// A column whose type has no value of ours.
pub(crate) fn unsupported(name: &str, type_name: &str) -> ItemError {
    let text = format!(
        "column {name:?} is of type {type_name}, which cannot be read as it is; cast it to text in the query"
    );
    ItemError::new(ErrorKind::FATAL, text)
}
