//! A value of a row: what databases and files can hold.

use crate::time::Timestamp;
use std::fmt;
use uuid::Uuid;

#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Long(i64),
    Double(f64),
    /// Exact at any length.
    Decimal(Decimal),
    Text(String),
    Bytes(Vec<u8>),
    Date(jiff::civil::Date),
    Time(jiff::civil::Time),
    /// A date and a time of day without a zone.
    DateTime(jiff::civil::DateTime),
    Instant(Timestamp),
    Uuid(Uuid),
    Json(serde_json::Value),
}

crate::newtype::named!(Value, type_word {
    Null = "null", Bool = "bool", Long = "long", Double = "double", Decimal = "decimal", Text = "text", Bytes = "bytes",
    Date = "date", Time = "time", DateTime = "datetime", Instant = "instant", Uuid = "uuid", Json = "json",
});

impl Value {
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// As in a text file: null is empty, bytes are hexadecimal.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Bool(value) => value.fmt(f),
            Self::Long(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
            Self::Decimal(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
            Self::Bytes(value) => value.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Date(value) => value.fmt(f),
            Self::Time(value) => value.fmt(f),
            Self::DateTime(value) => value.fmt(f),
            Self::Instant(value) => value.fmt(f),
            Self::Uuid(value) => value.fmt(f),
            Self::Json(value) => value.fmt(f),
        }
    }
}

crate::newtype::conversions! {
    Value:
    Bool(bool),
    Long(i64), Long(i32), Long(u32), Long(i16), Long(u8),
    Double(f64), Double(f32),
    Decimal(Decimal),
    Text(String), Text(&str),
    Bytes(Vec<u8>), Bytes(&[u8]),
    Date(jiff::civil::Date),
    Time(jiff::civil::Time),
    DateTime(jiff::civil::DateTime),
    Instant(Timestamp),
    Uuid(Uuid),
    Json(serde_json::Value),
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A decimal number of any length, kept digit by digit: amounts of money are never rounded.
///
/// ```
/// # use tidemill_domain::item::Decimal;
/// let amount: Decimal = "-0012.50".parse().unwrap();
/// assert_eq!(amount.to_string(), "-12.50");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Decimal(String);

impl Decimal {
    /// An optional minus, digits, and optionally a point and digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(text: &str) -> Option<Self> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let is_zero = whole == "0" && fraction.bytes().all(|byte| byte == b'0');
        let sign = if is_zero { "" } else { sign };
        let point = if fraction.is_empty() { "" } else { "." };
        Some(Self(format!("{sign}{whole}{point}{fraction}")))
    }
}

crate::newtype::display!(Decimal, decimal => "{}", decimal.0);
crate::newtype::parsed!(
    Decimal, Decimal::read, NotADecimal(text): "{0:?} is not a decimal number such as -12.50"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_kept_digit_by_digit() {
        for (text, kept) in [
            ("0", "0"),
            ("-0.00", "0.00"),
            ("+7", "7"),
            (".5", "0.5"),
            ("1.", "1"),
            ("00123.4500", "123.4500"),
        ] {
            assert_eq!(text.parse::<Decimal>().unwrap().as_str(), kept, "{text}");
        }
        for wrong in ["", "-", ".", "1e5", "1,5", " 1", "0x1", "1.2.3", "٣"] {
            assert!(wrong.parse::<Decimal>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_decimal_reads_back_as_itself(text in "-?[0-9]{1,40}(\\.[0-9]{1,40})?") {
            let once: Decimal = text.parse().unwrap();
            prop_assert_eq!(once.as_str().parse::<Decimal>().unwrap(), once);
        }
    }
}
