//! MySQL's types that rows can hold, and how to decode their binary form.

use crate::item::calendar::micros_of_datetime;
use crate::item::row::{array, text};
use jiff::civil::{Date, DateTime, Time};
use sqlx::mysql::MySqlTypeInfo;
use sqlx::{MySql, Type, TypeInfo};
use tidemill_domain::item::Value;
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MyKind {
    /// Signed, of any width.
    Integer,
    Unsigned,
    Float,
    Double,
    Decimal,
    Text,
    Bytes,
    /// Most significant first.
    Bit,
    Json,
    Date,
    Time,
    DateTime,
    Instant,
    Null,
}

impl MyKind {
    /// `None` if rows cannot hold it.
    pub(super) fn of(info: &MySqlTypeInfo) -> Option<Self> {
        Some(match info.name() {
            // Booleans are `tinyint(1)`, and so are small numbers: only the author can tell.
            "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" => Self::Integer,
            "TINYINT UNSIGNED" | "SMALLINT UNSIGNED" | "MEDIUMINT UNSIGNED" | "INT UNSIGNED"
            | "BIGINT UNSIGNED" | "YEAR" => Self::Unsigned,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "DECIMAL" => Self::Decimal,
            "BIT" => Self::Bit,
            "JSON" => Self::Json,
            "DATE" => Self::Date,
            "TIME" => Self::Time,
            "DATETIME" => Self::DateTime,
            "TIMESTAMP" => Self::Instant,
            "NULL" => Self::Null,
            "ENUM" | "SET" => Self::Text,
            "GEOMETRY" => return None,
            // The name alone does not tell texts with a binary collation from bytes.
            _ if <str as Type<MySql>>::compatible(info) => Self::Text,
            _ => Self::Bytes,
        })
    }

    /// Errors read as a continuation of the column's name.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<Value, String> {
        Ok(match self {
            Self::Integer => Value::Long(signed(bytes)?),
            Self::Unsigned => unsigned(little_endian(bytes)?)?,
            Self::Bit => unsigned(big_endian(bytes)?)?,
            Self::Float => Value::Double(f32::from_le_bytes(array(bytes)?).into()),
            Self::Double => Value::Double(f64::from_le_bytes(array(bytes)?)),
            Self::Decimal => {
                let parsed = text(bytes)?.parse();
                Value::Decimal(parsed.map_err(|error| format!("is not understood: {error}"))?)
            }
            Self::Text => Value::Text(text(bytes)?.to_owned()),
            Self::Bytes => Value::Bytes(bytes.to_vec()),
            Self::Json => {
                let parsed = serde_json::from_slice(bytes);
                Value::Json(parsed.map_err(|error| format!("is not JSON: {error}"))?)
            }
            Self::Date => Value::Date(datetime(bytes)?.date()),
            Self::Time => Value::Time(time(bytes)?),
            Self::DateTime => Value::DateTime(datetime(bytes)?),
            Self::Instant => {
                let micros =
                    micros_of_datetime(datetime(bytes)?).ok_or("has an instant finer than a microsecond")?;
                Value::Instant(Timestamp::from_micros(micros))
            }
            Self::Null => Value::Null,
        })
    }
}

fn signed(bytes: &[u8]) -> Result<i64, String> {
    Ok(match bytes.len() {
        1 => i8::from_le_bytes(array(bytes)?).into(),
        2 => i16::from_le_bytes(array(bytes)?).into(),
        4 => i32::from_le_bytes(array(bytes)?).into(),
        _ => i64::from_le_bytes(array(bytes)?),
    })
}

fn little_endian(bytes: &[u8]) -> Result<u64, String> {
    Ok(match bytes.len() {
        1 => u8::from_le_bytes(array(bytes)?).into(),
        2 => u16::from_le_bytes(array(bytes)?).into(),
        4 => u32::from_le_bytes(array(bytes)?).into(),
        _ => u64::from_le_bytes(array(bytes)?),
    })
}

fn big_endian(bytes: &[u8]) -> Result<u64, String> {
    if bytes.len() > 8 {
        return Err("has more than 64 bits".into());
    }
    Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// A number beyond a long becomes a decimal, so that nothing is lost.
fn unsigned(number: u64) -> Result<Value, String> {
    match i64::try_from(number) {
        Ok(number) => Ok(Value::Long(number)),
        Err(_) => number.to_string().parse().map(Value::Decimal).map_err(|_| "is not understood".to_owned()),
    }
}

const ZERO_DATE: &str = "is a date with a zero in it, such as 0000-00-00, which is no day; filter it, use \
                         nullif, or cast it to char in the query";

/// A length, and then the non-zero parts: year, month, day; hour, minute, second; microseconds.
fn datetime(bytes: &[u8]) -> Result<DateTime, String> {
    let rest = bytes.get(1..).unwrap_or_default();
    let Some((day, rest)) = rest.split_at_checked(4) else { return Err(ZERO_DATE.into()) };
    let part = |value: u8| i8::try_from(value).map_err(|_| ZERO_DATE.to_owned());
    let year = i16::try_from(u16::from_le_bytes([day[0], day[1]])).map_err(|_| ZERO_DATE.to_owned())?;
    let date = Date::new(year, part(day[2])?, part(day[3])?).map_err(|_| ZERO_DATE.to_owned())?;
    Ok(DateTime::from_parts(date, clock(rest)?))
}

/// A length, a sign, days, and then as a time of day.
fn time(bytes: &[u8]) -> Result<Time, String> {
    const NO_TIME: &str = "is a duration and no time of day; cast it to char in the query";
    let rest = bytes.get(1..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(Time::midnight());
    }
    match rest.split_at_checked(5) {
        Some(([0, 0, 0, 0, 0], rest)) => clock(rest),
        _ => Err(NO_TIME.into()),
    }
}

fn clock(bytes: &[u8]) -> Result<Time, String> {
    let no = || "has a time that is not understood".to_owned();
    let Some((parts, rest)) = bytes.split_at_checked(3) else {
        return if bytes.is_empty() { Ok(Time::midnight()) } else { Err(no()) };
    };
    let micros = if rest.is_empty() { 0 } else { i32::from_le_bytes(array(rest)?) };
    let part = |value: u8| i8::try_from(value).map_err(|_| no());
    let nanos = micros.checked_mul(1_000).ok_or_else(no)?;
    Time::new(part(parts[0])?, part(parts[1])?, part(parts[2])?, nanos).map_err(|_| no())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_all_their_lengths() {
        let day = [4, 0xEA, 0x07, 11, 15];
        let second = [7, 0xEA, 0x07, 11, 15, 12, 30, 59];
        let micro = [11, 0xEA, 0x07, 11, 15, 12, 30, 59, 1, 0, 0, 0];

        assert_eq!(datetime(&day).unwrap().to_string(), "2026-11-15T00:00:00");
        assert_eq!(datetime(&second).unwrap().to_string(), "2026-11-15T12:30:59");
        assert_eq!(datetime(&micro).unwrap().to_string(), "2026-11-15T12:30:59.000001");
        assert_eq!(time(&[0]).unwrap(), Time::midnight());
        assert_eq!(time(&[8, 0, 0, 0, 0, 0, 1, 2, 3]).unwrap().to_string(), "01:02:03");
    }

    #[test]
    fn what_is_no_day_or_no_time_of_day_is_refused() {
        assert!(datetime(&[0]).unwrap_err().contains("0000-00-00"));
        assert!(datetime(&[4, 0xEA, 0x07, 0, 15]).is_err());
        assert!(time(&[8, 1, 0, 0, 0, 0, 1, 2, 3]).unwrap_err().contains("duration"));
        assert!(time(&[8, 0, 1, 0, 0, 0, 1, 2, 3]).unwrap_err().contains("duration"));
    }

    #[test]
    fn what_does_not_fit_a_long_is_a_decimal() {
        assert_eq!(unsigned(7), Ok(Value::Long(7)));
        assert_eq!(unsigned(u64::MAX), Ok(Value::Decimal("18446744073709551615".parse().unwrap())));
        assert_eq!(MyKind::Bit.decode(&[1, 2]), Ok(Value::Long(258)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_understood_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            for kind in [MyKind::Integer, MyKind::Unsigned, MyKind::Bit, MyKind::Date, MyKind::Time,
                MyKind::DateTime, MyKind::Instant, MyKind::Decimal, MyKind::Float] {
                let _answer = kind.decode(&bytes);
            }
        }
    }
}
