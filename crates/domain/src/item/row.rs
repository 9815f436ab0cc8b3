//! A row: named values. The item of jobs that have no type of their own.

use super::value::{Decimal, Value};
use crate::time::Timestamp;
use std::sync::Arc;
use uuid::Uuid;

/// Named values, in order. All rows of one source share the names.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

crate::getters!(Row { &columns: Arc<[String]>, &values: [Value] });

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RowError {
    #[error("there is no column {column:?}; there are {known}")]
    NoSuchColumn { column: String, known: String },
    #[error("column {column:?} is {found}, not {wanted}")]
    WrongType { column: String, found: &'static str, wanted: &'static str },
}

impl Row {
    /// Extra values are dropped, missing ones are null.
    pub fn new(columns: Arc<[String]>, mut values: Vec<Value>) -> Self {
        values.resize(columns.len(), Value::Null);
        Self { columns, values }
    }

    pub fn value(&self, column: &str) -> Result<&Value, RowError> {
        match self.columns.iter().position(|name| name == column) {
            Some(index) => Ok(&self.values[index]),
            None => Err(RowError::NoSuchColumn { column: column.to_owned(), known: self.columns.join(", ") }),
        }
    }

    /// The value of this column as a Rust type.
    ///
    /// ```
    /// # use tidemill_domain::item::{Row, Value};
    /// let row = Row::new(["id".to_owned(), "name".to_owned()].into(), vec![7.into(), Value::Null]);
    /// assert_eq!(row.get::<i64>("id"), Ok(7));
    /// assert_eq!(row.get::<Option<String>>("name"), Ok(None));
    /// assert!(row.get::<String>("id").is_err());
    /// ```
    pub fn get<T: FromValue>(&self, column: &str) -> Result<T, RowError> {
        let value = self.value(column)?;
        T::from_value(value).ok_or_else(|| RowError::WrongType {
            column: column.to_owned(),
            found: value.type_word(),
            wanted: T::WORD,
        })
    }
}

/// A Rust type that a value converts to without loss.
pub trait FromValue: Sized {
    /// The type's name in messages.
    const WORD: &'static str;

    /// None if the value has another type.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty, $word:literal: $($pattern:pat => $result:expr),+;)+) => {
        $(impl FromValue for $type {
            const WORD: &'static str = $word;

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $($pattern => $result,)+
                    _ => None,
                }
            }
        })+
    };
}

from_value! {
    bool, "bool": Value::Bool(value) => Some(*value);
    i64, "long": Value::Long(value) => Some(*value);
    i32, "a 32-bit long": Value::Long(value) => Self::try_from(*value).ok();
    f64, "double": Value::Double(value) => Some(*value);
    Decimal, "decimal":
        Value::Decimal(value) => Some(value.clone()),
        Value::Long(value) => value.to_string().parse().ok();
    String, "text": Value::Text(value) => Some(value.clone());
    Vec<u8>, "bytes": Value::Bytes(value) => Some(value.clone());
    jiff::civil::Date, "date": Value::Date(value) => Some(*value);
    jiff::civil::Time, "time": Value::Time(value) => Some(*value);
    jiff::civil::DateTime, "datetime": Value::DateTime(value) => Some(*value);
    Timestamp, "instant": Value::Instant(value) => Some(*value);
    Uuid, "uuid": Value::Uuid(value) => Some(*value);
    serde_json::Value, "json": Value::Json(value) => Some(value.clone());
}

impl<T: FromValue> FromValue for Option<T> {
    const WORD: &'static str = T::WORD;

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
