//! The order of values: each has a key of bytes, and comparing keys compares the values.
//!
//! Numbers are compared by what they are worth, whatever their type. A value without content comes last. Values of other
//! types are ordered by type. No key is the beginning of another one, so keys can be put one after the other.

use super::Value;

crate::words! {
    /// The direction of a sort.
    pub enum Direction {
        Ascending = "asc",
        Descending = "desc",
    }
}

/// The key of every value begins with the number of its type.
mod tag {
    pub(super) const BOOL: u8 = 1;
    pub(super) const NUMBER: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const BYTES: u8 = 4;
    pub(super) const DATE: u8 = 5;
    pub(super) const TIME: u8 = 6;
    pub(super) const DATETIME: u8 = 7;
    pub(super) const INSTANT: u8 = 8;
    pub(super) const UUID: u8 = 9;
    pub(super) const JSON: u8 = 10;
    pub(super) const NULL: u8 = 255;
}

/// The signs of numbers. An infinite number has a sign and no digits.
const NEGATIVE: u8 = 0;
const ZERO: u8 = 1;
const POSITIVE: u8 = 2;
const NOT_A_NUMBER: u8 = 3;

impl Value {
    /// Adds the key of this value to `key`.
    ///
    /// ```
    /// # use tidemill_domain::item::{Direction, Value};
    /// let key = |value: Value| {
    ///     let mut key = Vec::new();
    ///     value.push_key(&mut key, Direction::Ascending);
    ///     key
    /// };
    /// assert!(key(Value::Long(9)) < key(Value::Double(9.5)));
    /// assert_eq!(key(Value::Long(9)), key(Value::Decimal("9.00".parse().unwrap())));
    /// assert!(key("b".into()) < key(Value::Null));
    /// ```
    pub fn push_key(&self, key: &mut Vec<u8>, direction: Direction) {
        let from = key.len();
        match self {
            Self::Null => key.push(tag::NULL),
            Self::Bool(value) => key.extend([tag::BOOL, u8::from(*value)]),
            Self::Long(value) => push_number(key, &value.to_string()),
            Self::Double(value) if value.is_nan() => key.extend([tag::NUMBER, NOT_A_NUMBER]),
            Self::Double(value) if value.is_infinite() => {
                let (sign, exponent) = if *value > 0.0 { (POSITIVE, [255; 4]) } else { (NEGATIVE, [0; 4]) };
                key.extend([tag::NUMBER, sign]);
                key.extend(exponent);
            }
            Self::Double(value) => push_number(key, &value.to_string()),
            Self::Decimal(value) => push_number(key, value.as_str()),
            Self::Text(value) => push_bytes(key, tag::TEXT, value.as_bytes()),
            Self::Bytes(value) => push_bytes(key, tag::BYTES, value),
            Self::Date(value) => push_bytes(key, tag::DATE, value.to_string().as_bytes()),
            Self::Time(value) => push_bytes(key, tag::TIME, value.to_string().as_bytes()),
            Self::DateTime(value) => push_bytes(key, tag::DATETIME, value.to_string().as_bytes()),
            Self::Instant(value) => {
                key.push(tag::INSTANT);
                key.extend((value.as_micros() ^ i64::MIN).to_be_bytes());
            }
            Self::Uuid(value) => push_bytes(key, tag::UUID, value.as_bytes()),
            Self::Json(value) => push_bytes(key, tag::JSON, value.to_string().as_bytes()),
        }
        if direction == Direction::Descending {
            key[from..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// Two zeros end the bytes; a zero among them is followed by 255.
fn push_bytes(key: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    key.push(tag);
    for byte in bytes {
        key.push(*byte);
        if *byte == 0 {
            key.push(255);
        }
    }
    key.extend([0, 0]);
}

/// The sign, the place of the point, and the digits without zeros at both ends. Of a negative number the last two are
/// inverted.
fn push_number(key: &mut Vec<u8>, decimal: &str) {
    let (sign, digits) = match decimal.strip_prefix('-') {
        Some(digits) => (NEGATIVE, digits),
        None => (POSITIVE, decimal),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let zeros = fraction.len() - fraction.trim_start_matches('0').len();
    let (point, fraction) = match whole {
        "" => (-i64::try_from(zeros).unwrap_or(i64::MAX), &fraction[zeros..]),
        whole => (i64::try_from(whole.len()).unwrap_or(i64::MAX), fraction),
    };
    let fraction = fraction.trim_end_matches('0');
    let whole = if fraction.is_empty() { whole.trim_end_matches('0') } else { whole };
    key.push(tag::NUMBER);
    if whole.is_empty() && fraction.is_empty() {
        key.push(ZERO);
        return;
    }
    key.push(sign);
    let from = key.len();
    // One less than the place of an infinite number.
    let point = point.clamp(i64::from(i32::MIN) + 1, i64::from(i32::MAX) - 1) as i32;
    key.extend((point ^ i32::MIN).to_be_bytes());
    key.extend(whole.bytes().chain(fraction.bytes()));
    key.push(0);
    if sign == NEGATIVE {
        key[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(values: &[Value], direction: Direction) -> Vec<u8> {
        let mut key = Vec::new();
        values.iter().for_each(|value| value.push_key(&mut key, direction));
        key
    }

    fn up(value: impl Into<Value>) -> Vec<u8> {
        key(&[value.into()], Direction::Ascending)
    }

    fn decimal(text: &str) -> Value {
        Value::Decimal(text.parse().unwrap())
    }

    #[test]
    fn numbers_are_compared_by_their_worth() {
        let ordered = [
            Value::Double(f64::NEG_INFINITY),
            decimal("-100000000000000000000"),
            Value::Long(-10),
            Value::Double(-9.5),
            Value::Long(-9),
            decimal("-0.001"),
            Value::Long(0),
            decimal("0.0009"),
            Value::Double(0.001),
            Value::Long(9),
            decimal("9.00001"),
            Value::Long(10),
            Value::Long(i64::MAX),
            decimal("9223372036854775807.1"),
            Value::Double(1e300),
            Value::Double(f64::INFINITY),
            Value::Double(f64::NAN),
            Value::Null,
        ];

        for pair in ordered.windows(2) {
            assert!(up(pair[0].clone()) < up(pair[1].clone()), "{pair:?}");
        }
        assert_eq!(up(Value::Long(100)), up(decimal("100.00")));
        assert_eq!(up(Value::Double(0.5)), up(decimal("0.50")));
        assert_eq!(up(Value::Double(-0.0)), up(Value::Long(0)));
    }

    #[test]
    fn days_and_times_are_compared_by_when_they_are() {
        let date = |text: &str| Value::Date(text.parse().unwrap());
        let time = |text: &str| Value::Time(text.parse().unwrap());

        assert!(up(date("2026-02-28")) < up(date("2026-11-01")));
        assert!(up(time("10:00:00")) < up(time("10:00:00.5")));
    }

    proptest! {
        #[test]
        fn whole_numbers_keep_their_order(a: i64, b: i64) {
            prop_assert_eq!(up(a).cmp(&up(b)), a.cmp(&b));
        }

        #[test]
        fn floating_point_numbers_keep_their_order(a in -1e12..1e12_f64, b in -1e-6..1e6_f64) {
            prop_assert_eq!(Some(up(a).cmp(&up(b))), a.partial_cmp(&b));
        }

        #[test]
        fn keys_in_a_row_are_compared_one_by_one(
            a in ("[a\\x00가]{0,4}", "[a\\x00가]{0,4}"),
            b in ("[a\\x00가]{0,4}", "[a\\x00가]{0,4}"),
        ) {
            let values = |pair: &(String, String)| [pair.0.as_str().into(), pair.1.as_str().into()];
            for (direction, expected) in
                [(Direction::Ascending, a.cmp(&b)), (Direction::Descending, b.cmp(&a))]
            {
                prop_assert_eq!(key(&values(&a), direction).cmp(&key(&values(&b), direction)), expected);
            }
        }
    }
}
