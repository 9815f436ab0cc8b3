//! Values in PostgreSQL's binary form, for `copy` and bound parameters. Conversions to another type lose nothing.

use super::kind::PgKind;
use super::{numeric, text};
use crate::item::calendar::{DAYS_TO_2000, MICROS_TO_2000, days_of_date, micros_of_datetime, micros_of_time};
use crate::item::position::bytes_of_hex;
use jiff::civil::{Date, DateTime, Time};
use std::fmt::Write;
use std::io::Write as _;
use tidemill_domain::item::Value;
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoded {
    /// Its bytes were appended.
    Bytes,
    /// Nothing was appended.
    Null,
}

/// Appends the binary form. Errors continue the column's name, and leave garbage at the end of the buffer.
#[inline]
pub(crate) fn encode(kind: PgKind, value: &Value, buffer: &mut Vec<u8>) -> Result<Encoded, String> {
    match (kind, value) {
        (_, Value::Null) => return Ok(Encoded::Null),
        // The common case of each kind first; conversions are below.
        (PgKind::Int8, Value::Long(value)) => put(buffer, value.to_be_bytes()),
        (PgKind::Bool, Value::Bool(value)) => put(buffer, [u8::from(*value)]),
        (PgKind::Float8, Value::Double(value)) => put(buffer, value.to_be_bytes()),
        (PgKind::Numeric, Value::Decimal(value)) => numeric::encode(value, buffer)?,
        (PgKind::Text | PgKind::Bpchar, Value::Text(value)) => put_text(value, buffer)?,
        (PgKind::Bytea, Value::Bytes(value)) => put(buffer, value),
        (PgKind::Uuid, Value::Uuid(value)) => put(buffer, value.as_bytes()),
        (PgKind::Timestamptz, Value::Instant(value)) => {
            put(buffer, since_2000(value.as_micros())?.to_be_bytes());
        }
        (PgKind::Date, Value::Date(value)) => put_date(*value, buffer)?,
        (PgKind::Time, Value::Time(value)) => put_time(*value, buffer)?,
        (PgKind::Timestamp, Value::DateTime(value)) => put_datetime(*value, buffer)?,
        (kind, value) => convert(kind, value, buffer).ok_or_else(|| refusal(kind, value))??,
    }
    Ok(Encoded::Bytes)
}

/// Lossless conversions; `None` if there is none.
fn convert(kind: PgKind, value: &Value, buffer: &mut Vec<u8>) -> Option<Result<(), String>> {
    match kind {
        PgKind::Bool => put(buffer, [u8::from(bool_in(value)?)]),
        PgKind::Int2 => put(buffer, i16::try_from(long_in(value)?).ok()?.to_be_bytes()),
        PgKind::Int4 => put(buffer, i32::try_from(long_in(value)?).ok()?.to_be_bytes()),
        PgKind::Oid => put(buffer, u32::try_from(long_in(value)?).ok()?.to_be_bytes()),
        PgKind::Int8 => put(buffer, long_in(value)?.to_be_bytes()),
        PgKind::Float4 => put(buffer, float_in(value)?.to_be_bytes()),
        PgKind::Float8 => put(buffer, double_in(value)?.to_be_bytes()),
        PgKind::Numeric => {
            let decimal = match value {
                Value::Long(value) => value.to_string().parse().ok()?,
                Value::Text(value) => text::parsed(value)?,
                _ => return None,
            };
            return Some(numeric::encode(&decimal, buffer));
        }
        // Bytes have no text form, and a text that looks like bytes would read back as another value.
        PgKind::Text | PgKind::Bpchar if !matches!(value, Value::Bytes(_)) => {
            write!(Text(buffer), "{value}").ok()?;
        }
        PgKind::Text | PgKind::Bpchar => return None,
        PgKind::Bytea => match value {
            Value::Text(value) => put(buffer, bytes_of_hex(value.strip_prefix("\\x").unwrap_or(value))?),
            _ => return None,
        },
        PgKind::Date => match value {
            Value::Text(value) => return Some(put_date(text::date_of(value)?, buffer)),
            _ => return None,
        },
        PgKind::Time => match value {
            Value::Text(value) => return Some(put_time(text::time_of(value)?, buffer)),
            _ => return None,
        },
        PgKind::Timestamp => match value {
            Value::Text(value) => return Some(put_datetime(text::datetime_of(value)?, buffer)),
            Value::Date(value) => return Some(put_datetime(value.at(0, 0, 0, 0), buffer)),
            _ => return None,
        },
        PgKind::Timestamptz => match value {
            Value::Text(value) => match since_2000(text::parsed::<Timestamp>(value)?.as_micros()) {
                Ok(micros) => put(buffer, micros.to_be_bytes()),
                Err(why) => return Some(Err(why)),
            },
            _ => return None,
        },
        PgKind::Uuid => match value {
            Value::Text(value) => put(buffer, text::parsed::<uuid::Uuid>(value)?.as_bytes()),
            _ => return None,
        },
        PgKind::Json => put_json(value, buffer)?,
        PgKind::Jsonb => {
            // The version of the binary form.
            buffer.push(1);
            put_json(value, buffer)?;
        }
    }
    Some(Ok(()))
}

/// For the author: what the column accepts, and what it was given.
fn refusal(kind: PgKind, value: &Value) -> String {
    let wanted = match kind {
        PgKind::Bool => "a truth value",
        PgKind::Int2 => "a whole number of 16 bits",
        PgKind::Int4 => "a whole number of 32 bits",
        PgKind::Int8 => "a whole number of 64 bits",
        PgKind::Oid => "a whole number of 32 bits without a sign",
        PgKind::Float4 => "a number that fits a real without loss",
        PgKind::Float8 => "a number that fits a double without loss",
        PgKind::Numeric => "a decimal number such as -12.50",
        PgKind::Text | PgKind::Bpchar => "text",
        PgKind::Bytea => "bytes, or their hexadecimal form",
        PgKind::Date => "a day such as 2026-11-15",
        PgKind::Time => "a time such as 12:30:00",
        PgKind::Timestamp => "a day and time without an offset such as 2026-11-15T12:30:00",
        PgKind::Timestamptz => "an instant such as 2026-11-15T12:30:00Z",
        PgKind::Uuid => "a UUID",
        PgKind::Json | PgKind::Jsonb => "JSON",
    };
    let shown: String = value.to_string().chars().take(64).collect();
    format!("takes {wanted}, and {shown:?} ({}) is not", value.type_word())
}

fn put(buffer: &mut Vec<u8>, bytes: impl AsRef<[u8]>) {
    buffer.extend_from_slice(bytes.as_ref());
}

/// The server would reject NUL, and with it the whole batch; here the row is known.
fn put_text(text: &str, buffer: &mut Vec<u8>) -> Result<(), String> {
    if text.as_bytes().contains(&0) {
        return Err("has a NUL character, which PostgreSQL cannot store in a text".into());
    }
    put(buffer, text);
    Ok(())
}

fn put_date(date: Date, buffer: &mut Vec<u8>) -> Result<(), String> {
    let days =
        i32::try_from(days_of_date(date) - DAYS_TO_2000).map_err(|_| "lies too far away".to_owned())?;
    put(buffer, days.to_be_bytes());
    Ok(())
}

const TOO_FINE: &str = "has a time finer than a microsecond, which PostgreSQL cannot store";

fn put_time(time: Time, buffer: &mut Vec<u8>) -> Result<(), String> {
    put(buffer, micros_of_time(time).ok_or(TOO_FINE)?.to_be_bytes());
    Ok(())
}

fn put_datetime(datetime: DateTime, buffer: &mut Vec<u8>) -> Result<(), String> {
    let micros = since_2000(micros_of_datetime(datetime).ok_or(TOO_FINE)?)?;
    put(buffer, micros.to_be_bytes());
    Ok(())
}

fn since_2000(micros: i64) -> Result<i64, String> {
    micros.checked_sub(MICROS_TO_2000).ok_or_else(|| "is an instant that lies too far away".to_owned())
}

fn put_json(value: &Value, buffer: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Json(value) => write!(buffer, "{value}").ok(),
        Value::Text(value) => {
            serde_json::from_str::<serde_json::Value>(value).ok()?;
            put(buffer, value);
            Some(())
        }
        _ => None,
    }
}

fn bool_in(value: &Value) -> Option<bool> {
    match value {
        Value::Text(value) => text::bool_of(value),
        Value::Long(0) => Some(false),
        Value::Long(1) => Some(true),
        _ => None,
    }
}

fn long_in(value: &Value) -> Option<i64> {
    match value {
        Value::Long(value) => Some(*value),
        Value::Text(value) => text::parsed(value),
        Value::Decimal(value) => text::long_of_decimal(value),
        _ => None,
    }
}

fn double_in(value: &Value) -> Option<f64> {
    match value {
        // Above this, not every integer is a double.
        Value::Long(value) if value.unsigned_abs() <= 1 << 53 => Some(*value as f64),
        Value::Text(value) => text::parsed(value),
        _ => None,
    }
}

fn float_in(value: &Value) -> Option<f32> {
    match value {
        Value::Double(value) => {
            let float = *value as f32;
            (f64::from(float) == *value || value.is_nan()).then_some(float)
        }
        Value::Long(value) if value.unsigned_abs() <= 1 << 24 => Some(*value as f32),
        Value::Text(value) => text::parsed(value),
        _ => None,
    }
}

/// Formats straight into a byte buffer.
struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(kind: PgKind, value: &Value) -> Result<Value, String> {
        let mut buffer = Vec::new();
        match encode(kind, value, &mut buffer)? {
            Encoded::Null => Ok(Value::Null),
            Encoded::Bytes => kind.decode(&buffer),
        }
    }

    fn check(kind: PgKind, given: impl Into<Value>, kept: impl Into<Value>) {
        assert_eq!(there_and_back(kind, &given.into()), Ok(kept.into()), "{kind:?}");
    }

    fn refused(kind: PgKind, given: impl Into<Value>) {
        let given = given.into();
        assert!(there_and_back(kind, &given).is_err(), "{kind:?} {given:?}");
    }

    #[test]
    fn texts_become_what_the_column_holds() {
        check(PgKind::Int4, " 42 ", 42);
        check(PgKind::Bool, "t", true);
        check(PgKind::Float8, "0.1", 0.1);
        check(PgKind::Numeric, "12.50", Value::Decimal("12.50".parse().unwrap()));
        check(PgKind::Date, "2026-11-15", Value::Date("2026-11-15".parse().unwrap()));
        check(PgKind::Time, "12:30", Value::Time("12:30:00".parse().unwrap()));
        check(
            PgKind::Timestamp,
            "2026-11-15 12:30:00",
            Value::DateTime("2026-11-15T12:30:00".parse().unwrap()),
        );
        check(PgKind::Timestamptz, "1970-01-01T01:00:00+01:00", Value::Instant(Timestamp::EPOCH));
        check(PgKind::Bytea, "\\x00ff", Value::Bytes(vec![0, 255]));
        check(PgKind::Jsonb, "[1]", Value::Json(serde_json::json!([1])));
        check(PgKind::Uuid, "00000000-0000-0000-0000-000000000007", Value::Uuid(uuid::Uuid::from_u128(7)));
    }

    #[test]
    fn nothing_is_rounded_cut_or_guessed() {
        refused(PgKind::Int4, i64::from(i32::MAX) + 1);
        refused(PgKind::Int2, 40_000);
        refused(PgKind::Int8, 1.0);
        refused(PgKind::Int8, "1.5");
        refused(PgKind::Float8, (1_i64 << 53) + 1);
        refused(PgKind::Float4, 0.1);
        refused(PgKind::Numeric, 0.1);
        refused(PgKind::Numeric, "1e5");
        refused(PgKind::Text, vec![1_u8]);
        refused(PgKind::Text, "a\0b");
        refused(PgKind::Date, "2026-11-15T10:00:00");
        refused(PgKind::Timestamptz, Value::DateTime("2026-11-15T12:30:00".parse().unwrap()));
        refused(PgKind::Time, Value::Time("12:30:00.000000001".parse().unwrap()));
        refused(PgKind::Json, "{");
        refused(PgKind::Uuid, "x");
        check(PgKind::Float4, 0.5, 0.5);
        check(PgKind::Int8, Value::Decimal("7.0".parse().unwrap()), 7);
    }

    #[test]
    fn a_refusal_says_what_is_taken_and_what_was_given() {
        let error = there_and_back(PgKind::Date, &"yesterday".into()).unwrap_err();

        assert!(error.contains("a day such as") && error.contains("\"yesterday\" (text)"), "{error}");
    }

    proptest! {
        #[test]
        fn whole_numbers_arrive_or_are_refused(number: i64) {
            for kind in [PgKind::Int2, PgKind::Int4, PgKind::Int8] {
                if let Ok(value) = there_and_back(kind, &number.into()) {
                    prop_assert_eq!(value, Value::Long(number));
                }
            }
            prop_assert_eq!(there_and_back(PgKind::Int8, &number.into()), Ok(Value::Long(number)));
        }

        #[test]
        fn any_text_is_taken_or_refused_by_every_kind(text in ".{0,20}") {
            for kind in [PgKind::Bool, PgKind::Int4, PgKind::Numeric, PgKind::Date, PgKind::Time,
                PgKind::Timestamp, PgKind::Timestamptz, PgKind::Uuid, PgKind::Jsonb, PgKind::Bytea, PgKind::Float4] {
                let _answer = there_and_back(kind, &text.as_str().into());
            }
            prop_assert_eq!(there_and_back(PgKind::Text, &text.as_str().into()).is_ok(), !text.contains('\0'));
        }
    }
}
