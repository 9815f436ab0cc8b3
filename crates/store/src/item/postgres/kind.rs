//! PostgreSQL's types that rows can hold, and how to decode their binary form.

use super::numeric;
use crate::item::calendar::{DAYS_TO_2000, MICROS_TO_2000, date_of_days, datetime_of_micros, time_of_micros};
use crate::item::row::{array, text};
use sqlx::TypeInfo;
use sqlx::postgres::{PgTypeInfo, PgTypeKind};
use tidemill_domain::item::Value;
use tidemill_domain::time::Timestamp;
use uuid::Uuid;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PgKind {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Numeric,
    /// Everything sent as text, also names and enums.
    Text,
    /// Padded to its length.
    Bpchar,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Uuid,
    Json,
    Jsonb,
}

impl PgKind {
    /// `None` if rows cannot hold it.
    pub(crate) fn of(info: &PgTypeInfo) -> Option<Self> {
        match info.kind() {
            PgTypeKind::Enum(_) => Some(Self::Text),
            PgTypeKind::Domain(base) => Self::of(base),
            PgTypeKind::Simple | PgTypeKind::Pseudo => Self::named(info.name()),
            _ => None,
        }
    }

    /// By the name in the catalogue. The driver uses its own names for some.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "bool" => Self::Bool,
            "int2" => Self::Int2,
            "int4" => Self::Int4,
            "int8" => Self::Int8,
            "oid" => Self::Oid,
            "float4" => Self::Float4,
            "float8" => Self::Float8,
            "numeric" => Self::Numeric,
            "text" | "varchar" | "name" | "char" | "\"char\"" | "unknown" | "citext" | "xml" => Self::Text,
            "bpchar" => Self::Bpchar,
            "bytea" => Self::Bytea,
            "date" => Self::Date,
            "time" => Self::Time,
            "timestamp" => Self::Timestamp,
            "timestamptz" => Self::Timestamptz,
            "uuid" => Self::Uuid,
            "json" => Self::Json,
            "jsonb" => Self::Jsonb,
            _ => return None,
        })
    }

    /// Errors read as a continuation of the column's name.
    #[inline]
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Value, String> {
        Ok(match self {
            Self::Bool => Value::Bool(array::<1>(bytes)? != [0]),
            Self::Int2 => Value::Long(i16::from_be_bytes(array(bytes)?).into()),
            Self::Int4 => Value::Long(i32::from_be_bytes(array(bytes)?).into()),
            Self::Int8 => Value::Long(i64::from_be_bytes(array(bytes)?)),
            Self::Oid => Value::Long(u32::from_be_bytes(array(bytes)?).into()),
            Self::Float4 => Value::Double(f32::from_be_bytes(array(bytes)?).into()),
            Self::Float8 => Value::Double(f64::from_be_bytes(array(bytes)?)),
            Self::Numeric => Value::Decimal(numeric::decode(bytes)?),
            Self::Text | Self::Bpchar => Value::Text(text(bytes)?.to_owned()),
            Self::Bytea => Value::Bytes(bytes.to_vec()),
            Self::Date => date(i32::from_be_bytes(array(bytes)?))?,
            Self::Time => time(i64::from_be_bytes(array(bytes)?))?,
            Self::Timestamp => timestamp(i64::from_be_bytes(array(bytes)?))?,
            Self::Timestamptz => instant(i64::from_be_bytes(array(bytes)?))?,
            Self::Uuid => Value::Uuid(Uuid::from_bytes(array(bytes)?)),
            Self::Json => json(bytes)?,
            Self::Jsonb => match bytes.split_first() {
                Some((1, rest)) => json(rest)?,
                _ => return Err("has a jsonb value of an unknown version".into()),
            },
        })
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map(Value::Json).map_err(|error| format!("is not JSON: {error}"))
}

const TOO_FAR: &str = "is a date that lies too far away; filter it or cast it to text in the query";

fn infinite(what: &str) -> String {
    format!("is an infinite {what}; filter it or cast it to text in the query")
}

fn date(days: i32) -> Result<Value, String> {
    if days == i32::MIN || days == i32::MAX {
        return Err(infinite("date"));
    }
    date_of_days(i64::from(days) + DAYS_TO_2000).map(Value::Date).ok_or_else(|| TOO_FAR.to_owned())
}

fn time(micros: i64) -> Result<Value, String> {
    time_of_micros(micros)
        .map(Value::Time)
        .ok_or_else(|| "is the time 24:00, which is no time of day; cast it to text in the query".to_owned())
}

fn timestamp(micros: i64) -> Result<Value, String> {
    let micros = since_1970(micros)?;
    datetime_of_micros(micros).map(Value::DateTime).ok_or_else(|| TOO_FAR.to_owned())
}

fn instant(micros: i64) -> Result<Value, String> {
    since_1970(micros).map(|micros| Value::Instant(Timestamp::from_micros(micros)))
}

fn since_1970(micros: i64) -> Result<i64, String> {
    if micros == i64::MIN || micros == i64::MAX {
        return Err(infinite("timestamp"));
    }
    micros.checked_add(MICROS_TO_2000).ok_or_else(|| TOO_FAR.to_owned())
}
