//! Conversion between our values and those of CEL.
//!
//! Types that CEL does not have become text, so that nothing is lost: decimals, dates and times (ISO 8601), UUIDs.

use cel::common::types::{CelBool, CelBytes, CelDouble, CelInt, CelNull, CelString, CelTimestamp};
use cel::common::value::CowVal;
use chrono::DateTime;
use serde_json::Number;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tidemill_domain::item::Value;
use tidemill_domain::time::Timestamp;

const JSON_DEPTH_MAX: usize = 32;

/// Borrows text and bytes.
pub(super) fn to_cel<'b, 'v>(value: &'v Value) -> CowVal<'b, 'v> {
    match value {
        Value::Null => CowVal::owned(CelNull),
        Value::Bool(value) => CowVal::owned(CelBool::from(*value)),
        Value::Long(value) => CowVal::owned(CelInt::from(*value)),
        Value::Double(value) => CowVal::owned(CelDouble::from(*value)),
        Value::Decimal(value) => CowVal::owned(CelString::from(value.as_str())),
        Value::Text(value) => CowVal::owned(CelString::from(value.as_str())),
        Value::Bytes(value) => CowVal::owned(CelBytes::from(value.as_slice())),
        Value::Instant(value) => instant(*value),
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Uuid(_) => {
            CowVal::owned(CelString::from(value.to_string()))
        }
        Value::Json(value) => {
            json_value(value, 0).try_into().map_or_else(|_| CowVal::owned(CelNull), CowVal::Owned)
        }
    }
}

fn instant<'b, 'v>(value: Timestamp) -> CowVal<'b, 'v> {
    match DateTime::from_timestamp_micros(value.as_micros()) {
        Some(instant) => CowVal::owned(CelTimestamp::from(instant.fixed_offset())),
        // Beyond the years that the chrono crate supports.
        None => CowVal::owned(CelString::from(value.to_string())),
    }
}

fn json_value(value: &serde_json::Value, depth: usize) -> cel::Value {
    match value {
        serde_json::Value::Null => cel::Value::Null,
        serde_json::Value::Bool(value) => cel::Value::Bool(*value),
        serde_json::Value::Number(number) => {
            let whole =
                number.as_i64().map(cel::Value::Int).or_else(|| number.as_u64().map(cel::Value::UInt));
            whole.unwrap_or_else(|| number.as_f64().map_or(cel::Value::Null, cel::Value::Float))
        }
        serde_json::Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        // A deeper document becomes its text.
        nested if depth >= JSON_DEPTH_MAX => cel::Value::String(Arc::new(nested.to_string())),
        serde_json::Value::Array(values) => {
            cel::Value::List(Arc::new(values.iter().map(|value| json_value(value, depth + 1)).collect()))
        }
        serde_json::Value::Object(values) => {
            let entries = values.iter().map(|(key, value)| (key.clone(), json_value(value, depth + 1)));
            cel::Value::from(entries.collect::<HashMap<_, _>>())
        }
    }
}

/// Lists and maps become JSON.
pub(super) fn from_cel(value: cel::Value) -> Result<Value, String> {
    Ok(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(value) => Value::Bool(value),
        cel::Value::Int(value) => Value::Long(value),
        cel::Value::UInt(value) => {
            Value::Long(i64::try_from(value).map_err(|_| format!("{value} is too large for a whole number"))?)
        }
        cel::Value::Float(value) => Value::Double(value),
        cel::Value::String(value) => Value::Text(Arc::unwrap_or_clone(value)),
        cel::Value::Bytes(value) => Value::Bytes(Arc::unwrap_or_clone(value)),
        cel::Value::Timestamp(value) => Value::Instant(Timestamp::from_micros(value.timestamp_micros())),
        value @ (cel::Value::List(_) | cel::Value::Map(_)) => Value::Json(to_json(&value)?),
        other => return Err(format!("it is {}, which no column can hold", type_word(&other))),
    })
}

fn to_json(value: &cel::Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        cel::Value::Null => serde_json::Value::Null,
        cel::Value::Bool(value) => (*value).into(),
        cel::Value::Int(value) => (*value).into(),
        cel::Value::UInt(value) => (*value).into(),
        cel::Value::Float(value) => Number::from_f64(*value).map_or(serde_json::Value::Null, Into::into),
        cel::Value::String(value) => value.as_str().into(),
        cel::Value::Timestamp(value) => Timestamp::from_micros(value.timestamp_micros()).to_string().into(),
        cel::Value::List(values) => values.iter().map(to_json).collect::<Result<Vec<_>, _>>()?.into(),
        cel::Value::Map(map) => {
            // CEL maps have no order; the output must not change from run to run.
            let sorted: BTreeMap<_, _> =
                map.map.iter().map(|(key, value)| (key.to_string(), value)).collect();
            let entries = sorted.into_iter().map(|(key, value)| Ok((key, to_json(value)?)));
            serde_json::Value::Object(entries.collect::<Result<_, String>>()?)
        }
        other => return Err(format!("JSON has no {}", type_word(other))),
    })
}

/// The CEL name of a type.
pub(super) fn type_word(value: &cel::Value) -> &'static str {
    match value {
        cel::Value::List(_) => "list",
        cel::Value::Map(_) => "map",
        cel::Value::Int(_) => "int",
        cel::Value::UInt(_) => "uint",
        cel::Value::Float(_) => "double",
        cel::Value::String(_) => "string",
        cel::Value::Bytes(_) => "bytes",
        cel::Value::Bool(_) => "bool",
        cel::Value::Duration(_) => "duration",
        cel::Value::Timestamp(_) => "timestamp",
        cel::Value::Null => "null",
        cel::Value::Function(..) | cel::Value::Opaque(_) | cel::Value::Struct(_) => "something else",
    }
}
