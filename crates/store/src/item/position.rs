//! A reader's saved position: values with their types, so that they come back exactly.
//!
//! A value is stored as an object with one member, named by its type: `{"long":7}`, `{"decimal":"12.50"}`,
//! `{"bytes":"00ff"}`. Doubles are texts, because JSON has neither infinity nor NaN.

use crate::item::failure::fatal;
use crate::item::link::Link;
use crate::item::query::SqlQuery;
use serde_json::{Map, Value as Json, json};
use std::str::FromStr;
use tidemill_domain::item::{ItemError, Value};
use tidemill_domain::job::ExecutionContext;

/// Rows returned so far, saved as `<name>.read.count`.
#[derive(Debug)]
pub(crate) struct Count {
    key: String,
    rows: u64,
}

impl Count {
    pub(crate) fn new(name: &str) -> Self {
        Self { key: format!("{name}.read.count"), rows: 0 }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    #[inline]
    pub(crate) fn increase(&mut self) {
        self.rows += 1;
    }

    /// Zero if nothing was saved.
    pub(crate) fn load(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.rows = match context.get(&self.key) {
            None => 0,
            Some(saved) => saved.as_u64().ok_or_else(|| {
                fatal(format!("{:?} in the execution context is {saved}, no number of rows", self.key))
            })?,
        };
        Ok(())
    }

    pub(crate) fn save(&self, context: &mut ExecutionContext) {
        context.put(&self.key, self.rows);
    }
}

/// The methods that all readers share.
macro_rules! reader {
    ($reader:ident) => {
        impl $reader {
            /// Counts all rows when it opens, for the progress bar.
            #[must_use]
            pub fn count_total(mut self) -> Self {
                self.is_counted = true;
                self
            }

            /// The number of rows, if they were counted.
            pub fn total(&self) -> Option<u64> {
                self.total
            }

            /// Ends the statement and its connection.
            pub async fn close(&mut self) {
                self.flow.close().await;
            }

            async fn count_if_wanted(&mut self, link: &mut Link) -> Result<(), ItemError> {
                if self.is_counted && self.total.is_none() {
                    self.total = $crate::item::position::count_total(link, &self.query).await?;
                }
                Ok(())
            }
        }
    };
}
pub(crate) use reader;

/// The methods of readers whose position is a number of rows.
macro_rules! counting_reader {
    ($reader:ident) => {
        $crate::item::position::reader!($reader);

        impl $reader {
            /// The next row; `None` at the end.
            #[inline]
            pub async fn read(&mut self) -> Result<Option<Row>, ItemError> {
                if matches!(self.flow, Flow::Idle) {
                    self.start().await?;
                }
                match self.flow.next().await? {
                    Some(item) => {
                        self.count.increase();
                        item.map(Some).map_err(|bad| bad.error)
                    }
                    None => Ok(None),
                }
            }

            /// Saves how many rows were returned.
            pub fn update(&mut self, context: &mut ExecutionContext) {
                self.count.save(context);
            }
        }
    };
}
pub(crate) use counting_reader;

pub(crate) async fn count_total(link: &mut Link, query: &SqlQuery) -> Result<Option<u64>, ItemError> {
    let total = link.scalar(&query.counting(), query.values()).await?;
    Ok(total.and_then(|total| u64::try_from(total).ok()))
}

/// Key values by column name.
pub(crate) fn to_json(names: &[String], values: &[Value]) -> Json {
    let members = names.iter().zip(values).map(|(name, value)| (name.clone(), value_to_json(value)));
    Json::Object(members.collect::<Map<_, _>>())
}

/// `None` if the columns differ or the format is not ours.
pub(crate) fn from_json(names: &[String], stored: &Json) -> Option<Vec<Value>> {
    let members = stored.as_object().filter(|members| members.len() == names.len())?;
    names.iter().map(|name| value_from_json(members.get(name)?)).collect()
}

/// The value with its type, so that it comes back exactly.
pub fn value_to_json(value: &Value) -> Json {
    let content = match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Long(value) => json!(value),
        Value::Json(value) => value.clone(),
        value => Json::String(value.to_string()),
    };
    json!({ value.type_word(): content })
}

/// `None` if the format is not ours.
pub fn value_from_json(stored: &Json) -> Option<Value> {
    let (word, content) = stored.as_object().filter(|members| members.len() == 1)?.iter().next()?;
    let text = || content.as_str();
    Some(match word.as_str() {
        "null" => Value::Null,
        "bool" => Value::Bool(content.as_bool()?),
        "long" => Value::Long(content.as_i64()?),
        "double" => Value::Double(parsed(text()?)?),
        "decimal" => Value::Decimal(parsed(text()?)?),
        "text" => Value::Text(text()?.to_owned()),
        "bytes" => Value::Bytes(bytes_of_hex(text()?)?),
        "date" => Value::Date(parsed(text()?)?),
        "time" => Value::Time(parsed(text()?)?),
        "datetime" => Value::DateTime(parsed(text()?)?),
        "instant" => Value::Instant(parsed(text()?)?),
        "uuid" => Value::Uuid(parsed(text()?)?),
        "json" => Value::Json(content.clone()),
        _ => return None,
    })
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

pub(crate) fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidemill_domain::time::Timestamp;
    use uuid::Uuid;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("k{number}")).collect()
    }

    #[test]
    fn values_of_every_type_come_back_exactly() {
        let values = vec![
            Value::Bool(true),
            Value::Long(i64::MIN),
            Value::Double(0.1),
            Value::Double(f64::NEG_INFINITY),
            Value::Double(f64::MIN_POSITIVE),
            Value::Decimal("-12345678901234567890.0100".parse().unwrap()),
            Value::Text("가 \" \\ \u{1}".into()),
            Value::Bytes(vec![0, 255, 16]),
            Value::Date("2026-02-28".parse().unwrap()),
            Value::Time("23:59:59.000001".parse().unwrap()),
            Value::DateTime("2026-02-28T00:00:00.5".parse().unwrap()),
            Value::Instant(Timestamp::from_micros(-1)),
            Value::Uuid(Uuid::from_u128(7)),
            Value::Json(json!({"a": [1, null]})),
        ];
        let names = names(values.len());

        let text = to_json(&names, &values).to_string();

        let stored: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(from_json(&names, &stored), Some(values));
    }

    #[test]
    fn what_is_not_of_these_columns_is_refused() {
        let two = names(2);
        let stored = to_json(&two, &[Value::Long(1), Value::Long(2)]);

        assert!(from_json(&two, &stored).is_some());
        for other in [json!(7), json!({"k0": {"long": 1}}), json!({"k0": {"long": 1}, "x": {"long": 2}})] {
            assert_eq!(from_json(&two, &other), None, "{other}");
        }
        for wrong in [
            json!({"long": "x"}),
            json!({"bytes": "0g"}),
            json!({"new": 1}),
            json!({"a": 1, "b": 2}),
            json!(1),
        ] {
            assert_eq!(value_from_json(&wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back_from_their_hexadecimal_form(bytes: Vec<u8>) {
            prop_assert_eq!(bytes_of_hex(&Value::Bytes(bytes.clone()).to_string()), Some(bytes));
        }

        #[test]
        fn any_text_is_hexadecimal_or_refused(text in ".{0,12}") {
            let _answer = bytes_of_hex(&text);
        }
    }
}
