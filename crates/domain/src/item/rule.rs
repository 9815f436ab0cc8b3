//! Rules for the values of a column: required, type, bounds, pattern, accepted values.

use super::{Direction, Value};
use crate::job::parameter::Pattern;
use std::str::FromStr;

crate::words! {
    /// What a value has to be, or a text has to be readable as.
    pub enum ColumnType {
        Long = "long",
        Double = "double",
        Decimal = "decimal",
        Bool = "bool",
        Date = "date",
        Time = "time",
        DateTime = "datetime",
        Uuid = "uuid",
    }
}

impl ColumnType {
    /// The value as this type; none if it is not of this type. Nothing is rounded.
    pub fn read(self, value: &Value) -> Option<Value> {
        let text = match value {
            Value::Text(text) => text.clone(),
            Value::Null | Value::Json(_) | Value::Bytes(_) => return None,
            // Values of the same type, and whole numbers among the numbers, are read from their text.
            _ => value.to_string(),
        };
        match self {
            Self::Long => parsed::<i64>(&text),
            Self::Double => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Into::into),
            Self::Decimal => text.parse().ok().map(Value::Decimal),
            Self::Bool => parsed::<bool>(&text),
            // `2026-11-15T10:00` is a day and more.
            Self::Date => parsed::<jiff::civil::Date>(&text).filter(|day| day.to_string() == text),
            Self::Time => parsed::<jiff::civil::Time>(&text).filter(|_| !text.contains('-')),
            // An instant is read as its time in UTC; a day alone has no time.
            Self::DateTime => parsed::<jiff::civil::DateTime>(text.strip_suffix('Z').unwrap_or(&text))
                .filter(|_| text.contains(':') && !text.contains('+')),
            Self::Uuid => text.parse().ok().map(Value::Uuid),
        }
    }

    /// With an article, for messages.
    const fn noun(self) -> &'static str {
        match self {
            Self::Long => "a whole number",
            Self::Double => "a number",
            Self::Decimal => "a decimal number",
            Self::Bool => "true or false",
            Self::Date => "a day such as 2026-11-15",
            Self::Time => "a time such as 09:30:00",
            Self::DateTime => "a day and time such as 2026-11-15T09:30:00",
            Self::Uuid => "a UUID",
        }
    }
}

/// The rules for a column. A missing value, which is null or an empty text, breaks only `is_required`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ColumnRules {
    pub is_required: bool,
    pub kind: Option<ColumnType>,
    /// Of the type `kind`.
    pub min: Option<Value>,
    pub max: Option<Value>,
    pub pattern: Option<Pattern>,
    /// Empty accepts all.
    pub one_of: Vec<String>,
}

impl ColumnRules {
    /// What is wrong with a value, to be put after the name of its column. It does not show the value, which may be
    /// secret.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        if is_missing(value) {
            return if self.is_required { Err("has no value".to_owned()) } else { Ok(()) };
        }
        if let Some(kind) = self.kind {
            let Some(read) = kind.read(value) else { return Err(format!("is not {}", kind.noun())) };
            if let Some(min) = self.min.as_ref().filter(|min| key(&read) < key(min)) {
                return Err(format!("is less than {min}"));
            }
            if let Some(max) = self.max.as_ref().filter(|max| key(&read) > key(max)) {
                return Err(format!("is greater than {max}"));
            }
        }
        if self.pattern.is_none() && self.one_of.is_empty() {
            return Ok(());
        }
        let text = value.to_string();
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.matches(&text)) {
            return Err("does not match the pattern".to_owned());
        }
        if !self.one_of.is_empty() && !self.one_of.contains(&text) {
            return Err(format!("is none of {}", self.one_of.join(", ")));
        }
        Ok(())
    }
}

fn parsed<T: FromStr + Into<Value>>(text: &str) -> Option<Value> {
    text.parse::<T>().ok().map(Into::into)
}

/// Null, or an empty text.
pub fn is_missing(value: &Value) -> bool {
    value.is_null() || matches!(value, Value::Text(text) if text.is_empty())
}

fn key(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    value.push_key(&mut key, Direction::Ascending);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    fn typed(kind: ColumnType) -> ColumnRules {
        ColumnRules { kind: Some(kind), ..ColumnRules::default() }
    }

    #[test]
    fn texts_and_values_of_the_type_are_accepted() {
        for (kind, good, bad) in [
            (ColumnType::Long, vec!["7".into(), Value::Long(-7)], vec!["7.0", "x", "1e3"]),
            (ColumnType::Decimal, vec!["7.10".into(), Value::Long(7), Value::Double(0.5)], vec!["7,1", "x"]),
            (ColumnType::Double, vec!["1e3".into(), Value::Double(0.5)], vec!["x"]),
            (ColumnType::Bool, vec!["true".into(), false.into()], vec!["1", "yes"]),
            (
                ColumnType::Date,
                vec!["2026-02-28".into()],
                vec!["2026-02-29", "28.02.2026", "2026-02-28T10:00"],
            ),
            (ColumnType::Time, vec!["09:30:00".into()], vec!["25:00:00", "2026-02-28"]),
            (
                ColumnType::DateTime,
                vec![
                    "2026-02-28T09:30:00".into(),
                    "2026-02-28 09:30".into(),
                    Timestamp::from_micros(0).into(),
                ],
                vec!["2026-02-28", "09:30"],
            ),
        ] {
            for value in good {
                assert_eq!(typed(kind).check(&value), Ok(()), "{kind} {value:?}");
            }
            for text in bad {
                assert!(typed(kind).check(&text.into()).is_err(), "{kind} {text:?}");
            }
        }
    }

    #[test]
    fn bounds_belong_to_the_range() {
        let rules = ColumnRules { min: Some(0.into()), max: Some(10.into()), ..typed(ColumnType::Decimal) };

        for (text, expected) in [("0", true), ("10.00", true), ("-0.01", false), ("10.01", false)] {
            assert_eq!(rules.check(&text.into()).is_ok(), expected, "{text}");
        }
        assert_eq!(rules.check(&"11".into()), Err("is greater than 10".to_owned()));
    }

    #[test]
    fn a_missing_value_breaks_only_the_rule_that_requires_it() {
        let optional = ColumnRules { one_of: vec!["a".into()], ..typed(ColumnType::Long) };
        let required = ColumnRules { is_required: true, ..optional.clone() };

        for missing in [Value::Null, "".into()] {
            assert_eq!(optional.check(&missing), Ok(()));
            assert_eq!(required.check(&missing), Err("has no value".to_owned()));
        }
    }

    #[test]
    fn a_reason_never_shows_the_value() {
        let pattern = Some(Pattern::new("[0-9]+").unwrap());
        let one_of = vec!["KR".to_owned(), "US".to_owned()];

        let rules = ColumnRules { pattern, ..ColumnRules::default() };
        assert_eq!(rules.check(&"secret".into()), Err("does not match the pattern".to_owned()));
        let rules = ColumnRules { one_of, ..ColumnRules::default() };
        assert_eq!(rules.check(&"secret".into()), Err("is none of KR, US".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_is_judged(text in ".{0,20}", index in 0..ColumnType::ALL.len()) {
            let _answer = typed(ColumnType::ALL[index]).check(&text.as_str().into());
        }

        #[test]
        fn what_is_read_as_a_type_is_of_that_type(number: i64) {
            for kind in [ColumnType::Long, ColumnType::Decimal] {
                let read = kind.read(&number.to_string().as_str().into()).unwrap();
                prop_assert_eq!(kind.read(&read), Some(read));
            }
        }
    }
}
