//! Rows and values as JSON, and back.
//!
//! Types that JSON lacks become text without loss: exact decimals, ISO 8601 dates, hexadecimal bytes.

use super::{Row, Value};
use serde_json::{Map, Number, Value as Json};
use std::sync::Arc;

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
