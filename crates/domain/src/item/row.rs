//! A row: named values. The item of jobs that have no type of their own.

use super::value::{Decimal, Value};
use crate::time::Timestamp;
use serde_json::{Map, Number, Value as Json};
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
    Json, "json": Value::Json(value) => Some(value.clone());
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

// As JSON, and back. Types that JSON lacks become text without loss: exact decimals, ISO 8601 dates, hexadecimal bytes.
impl Value {
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => (*value).into(),
            Self::Long(value) => (*value).into(),
            // JSON has no infinity.
            Self::Double(value) => {
                Number::from_f64(*value).map_or_else(|| self.to_string().into(), Json::from)
            }
            Self::Json(value) => value.clone(),
            Self::Text(value) => value.as_str().into(),
            other => other.to_string().into(),
        }
    }

    /// As a value of an execution context. A whole decimal, such as the sum of numbers on PostgreSQL, becomes a number.
    pub fn to_context(&self) -> Json {
        let whole = match self {
            Self::Decimal(decimal) => decimal.to_string().parse::<i64>().ok(),
            _ => None,
        };
        whole.map_or_else(|| self.to_json(), Json::from)
    }

    /// Lists and objects stay JSON; a whole number beyond 64 bits becomes a decimal.
    pub fn from_json(value: Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::String(value) => Self::Text(value),
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), _, _) => Self::Long(value),
                (None, Some(value), _) => value.to_string().parse().map_or(Self::Null, Self::Decimal),
                (None, None, value) => value.into(),
            },
            nested @ (Json::Array(_) | Json::Object(_)) => Self::Json(nested),
        }
    }
}

impl Row {
    pub fn to_json(&self) -> Json {
        let entries = self.columns().iter().zip(self.values());
        Json::Object(entries.map(|(name, value)| (name.clone(), value.to_json())).collect())
    }

    /// A row from a JSON object. `names` are those of the previous row, which are shared if they are the same.
    pub fn from_json(object: Map<String, Json>, names: &mut Arc<[String]>) -> Self {
        if !names.iter().eq(object.keys()) {
            *names = object.keys().cloned().collect();
        }
        Self::new(names.clone(), object.into_iter().map(|(_, value)| Value::from_json(value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_lost_on_the_way_to_json() {
        for (value, expected) in [
            (Value::Null, json!(null)),
            (Value::Double(f64::INFINITY), json!("inf")),
            (Value::Decimal("12345678901234567890.25".parse().unwrap()), json!("12345678901234567890.25")),
            (Value::Bytes(vec![1, 255]), json!("01ff")),
            (Value::Date("2026-11-15".parse().unwrap()), json!("2026-11-15")),
            (Value::Json(json!({ "a": [1] })), json!({ "a": [1] })),
        ] {
            assert_eq!(value.to_json(), expected, "{value:?}");
        }
    }

    #[test]
    fn rows_of_one_source_share_their_names() {
        let mut names: Arc<[String]> = Arc::new([]);
        let object = |text: &str| serde_json::from_str(text).unwrap();

        let first = Row::from_json(object(r#"{"b":1,"a":18446744073709551615}"#), &mut names);
        let second = Row::from_json(object(r#"{"b":2.5,"a":[1]}"#), &mut names);
        let third = Row::from_json(object(r#"{"a":"x"}"#), &mut names);

        assert!(Arc::ptr_eq(first.columns(), second.columns()));
        assert_eq!(first.value("a"), Ok(&Value::Decimal("18446744073709551615".parse().unwrap())));
        assert_eq!(second.values(), [Value::Double(2.5), Value::Json(json!([1]))]);
        assert_eq!(third.columns().as_ref(), ["a"]);
    }

    #[test]
    fn a_row_is_an_object() {
        use crate::item::{Row, Value};
        let row = Row::new(["id".to_owned(), "name".to_owned()].into(), vec![7.into(), Value::Null]);
        assert_eq!(row.to_json().to_string(), r#"{"id":7,"name":null}"#);
    }
}
