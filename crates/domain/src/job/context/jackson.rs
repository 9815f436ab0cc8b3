//! The form in which Spring Batch stores a context with its Jackson serializer: JSON with the names of classes.
//!
//! Such as `{"@class":"java.util.HashMap","orders.read.count":60,"total":["java.lang.Long",180]}`. It is only read.

use crate::time::Timestamp;
use serde_json::{Map, Value};

/// The member that names the class of an object.
const CLASS: &str = "@class";

pub(super) fn is_so(stored: &Value) -> bool {
    stored.get(CLASS).is_some()
}

/// Why it cannot be read is the end of a sentence, and names the key.
pub(super) fn decode(stored: Value) -> Result<Map<String, Value>, String> {
    let Value::Object(members) = stored else { return Err("it is no object".to_owned()) };
    let mut values = Map::new();
    for (key, stored) in members.into_iter().filter(|(key, _)| key != CLASS) {
        let value =
            value(stored).map_err(|class| format!("{key:?} is a {class}, which only Java can read"))?;
        values.insert(key, value);
    }
    Ok(values)
}

/// The error is the class that has no JSON value.
fn value(stored: Value) -> Result<Value, String> {
    match stored {
        Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::String(class), content]) => of_class(class, content),
            _ => Err("list without a class".to_owned()),
        },
        Value::Object(mut members) => {
            let class = members.shift_remove(CLASS);
            let class = class.as_ref().and_then(Value::as_str).unwrap_or("map without a class");
            if !(class.starts_with("java.util.") && class.ends_with("Map")) {
                return Err(class.to_owned());
            }
            let inner = members.into_iter().map(|(key, stored)| Ok((key, value(stored)?)));
            Ok(Value::Object(inner.collect::<Result<_, String>>()?))
        }
        plain => Ok(plain),
    }
}

fn of_class(class: String, content: Value) -> Result<Value, String> {
    match (class.as_str(), content) {
        ("java.util.Date" | "java.sql.Timestamp", Value::Number(millis)) => {
            let micros = millis.as_i64().and_then(|millis| millis.checked_mul(1_000)).ok_or(class)?;
            Ok(Timestamp::from_micros(micros).to_string().into())
        }
        ("java.math.BigInteger" | "java.math.BigDecimal", Value::Number(number))
            if !is_exact(&class, &number) =>
        {
            Err(class)
        }
        (_, content @ (Value::Number(_) | Value::String(_)))
            if class.starts_with("java.lang.")
                || class.starts_with("java.math.")
                || class == "java.util.UUID" =>
        {
            Ok(content)
        }
        (_, Value::Array(items)) if class.starts_with("java.util.") => {
            Ok(items.into_iter().map(value).collect::<Result<Vec<_>, _>>()?.into())
        }
        _ => Err(class),
    }
}

/// Whether nothing was lost when the number was read. A double has 15 digits.
fn is_exact(class: &str, number: &serde_json::Number) -> bool {
    let digits = || number.to_string().bytes().filter(u8::is_ascii_digit).count();
    number.is_i64() || number.is_u64() || (class.ends_with("Decimal") && digits() <= 15)
}
