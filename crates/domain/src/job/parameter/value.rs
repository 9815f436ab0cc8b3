//! The value of a parameter: its type, its stored text, and its text in the key.

use super::java;
use jiff::civil::{Date, DateTime, Time};
use std::str::FromStr;

/// The types that Spring Batch stores.
#[derive(Clone, PartialEq, Debug)]
pub enum ParameterValue {
    Text(String),
    Long(i64),
    Double(f64),
    Date(Date),
    Time(Time),
    /// A date and a time of day without a zone.
    DateTime(DateTime),
}

impl ParameterValue {
    pub const fn kind(&self) -> ParameterType {
        match self {
            Self::Text(_) => ParameterType::Text,
            Self::Long(_) => ParameterType::Long,
            Self::Double(_) => ParameterType::Double,
            Self::Date(_) => ParameterType::Date,
            Self::Time(_) => ParameterType::Time,
            Self::DateTime(_) => ParameterType::DateTime,
        }
    }

    /// The text of Java's `toString()`, which is part of the instance's key. Doubles are those of Java 19 and later, with the
    /// shortest text; older versions write a few longer, such as 1.9999999999999998E23 for 2.0E23.
    pub fn java_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Long(number) => number.to_string(),
            Self::Double(number) => java::double(*number),
            Self::Date(date) => java::date(*date),
            Self::Time(time) => java::short_time(*time),
            Self::DateTime(both) => format!("{}T{}", java::date(both.date()), java::short_time(both.time())),
        }
    }

    pub fn stored_text(&self) -> String {
        match self {
            // `ISO_LOCAL_TIME`: always with seconds, and a fraction without trailing zeros.
            Self::Time(time) => time.to_string(),
            Self::DateTime(both) => format!("{}T{}", java::date(both.date()), both.time()),
            Self::Text(_) | Self::Long(_) | Self::Double(_) | Self::Date(_) => self.java_text(),
        }
    }

    /// Reads a stored value; `class` is a Java class or a word of ours.
    pub fn from_stored(class: &str, text: &str) -> Result<Self, BadValue> {
        class.parse::<ParameterType>()?.read(text)
    }
}

crate::newtype::display!(ParameterValue, value => "{}", value.stored_text());

crate::newtype::conversions! {
    ParameterValue:
    Text(String), Text(&str),
    Long(i64), Long(i32), Long(u32),
    Double(f64),
    Date(Date), Time(Time), DateTime(DateTime),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParameterType {
    Text,
    Long,
    Double,
    Date,
    Time,
    DateTime,
}

impl ParameterType {
    pub const ALL: [Self; 6] = [Self::Text, Self::Long, Self::Double, Self::Date, Self::Time, Self::DateTime];

    pub const fn as_str(self) -> &'static str {
        self.texts().0
    }

    /// The Java class that names it in the database.
    pub const fn java_class(self) -> &'static str {
        self.texts().1
    }

    /// The word, the Java class, and a description for messages.
    const fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Text => ("string", "java.lang.String", "a string"),
            Self::Long => ("long", "java.lang.Long", "a long (a whole number of 64 bits)"),
            Self::Double => ("double", "java.lang.Double", "a double (such as 1.5 or 1.0E-5)"),
            Self::Date => ("date", "java.time.LocalDate", "a date (such as 2026-01-31)"),
            Self::Time => ("time", "java.time.LocalTime", "a time (such as 23:59:00)"),
            Self::DateTime => {
                ("datetime", "java.time.LocalDateTime", "a datetime (such as 2026-01-31T23:59:00)")
            }
        }
    }

    pub fn read(self, text: &str) -> Result<ParameterValue, BadValue> {
        let value = match self {
            Self::Text => Some(ParameterValue::Text(text.to_owned())),
            Self::Long => text.parse().ok().map(ParameterValue::Long),
            Self::Double => java::read_double(text).map(ParameterValue::Double),
            Self::Date => java::read_date(text).map(ParameterValue::Date),
            Self::Time => java::read_time(text).map(ParameterValue::Time),
            Self::DateTime => java::read_date_time(text).map(ParameterValue::DateTime),
        };
        value.ok_or(BadValue::NotOfType { wanted: self })
    }
}

crate::newtype::display!(ParameterType, kind => "{}", kind.texts().2);

/// Accepts our words and the Java classes, exactly as they are written.
impl FromStr for ParameterType {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let is_meant = |kind: &Self| kind.as_str() == text || kind.java_class() == text;
        Self::ALL.into_iter().find(is_meant).ok_or_else(|| BadValue::UnknownType { word: text.to_owned() })
    }
}

/// The messages do not contain the text, which may be a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadValue {
    #[error("unknown parameter type {word:?}; use string, long, double, date, time or datetime")]
    UnknownType { word: String },
    #[error("the value is not {wanted}")]
    NotOfType { wanted: ParameterType },
}
