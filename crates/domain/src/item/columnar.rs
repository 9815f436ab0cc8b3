//! Files with typed columns, as a job describes them: the format, how it is packed, and the types of the columns.

use super::{ColumnType, Decimal, Value, is_missing};
use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// Most digits of a decimal number.
pub const DIGITS_MAX: u8 = 38;

crate::words! {
    /// A format of files with typed columns.
    pub enum ColumnarKind {
        /// Apache Parquet.
        Parquet = "parquet",
        /// The file format of Apache Arrow, also called Feather; when reading also its stream format.
        Arrow = "arrow",
        /// Object container files of Apache Avro.
        Avro = "avro",
    }

    /// How the columns of a file are packed.
    pub enum Codec {
        /// Not packed.
        None = "none",
        /// Snappy.
        Snappy = "snappy",
        /// Gzip, which only Parquet has.
        Gzip = "gzip",
        /// Deflate, which only Avro has.
        Deflate = "deflate",
        /// Zstandard.
        Zstd = "zstd",
    }
}

impl ColumnarKind {
    /// What a writer can pack with. The first one is the default.
    pub const fn codecs(self) -> &'static [Codec] {
        match self {
            Self::Parquet => &[Codec::Snappy, Codec::None, Codec::Gzip, Codec::Zstd],
            Self::Arrow => &[Codec::None, Codec::Zstd],
            Self::Avro => &[Codec::None, Codec::Deflate, Codec::Snappy, Codec::Zstd],
        }
    }

    /// Whether a file can have a column of this name. Avro has letters, digits and underscores of ASCII, not a digit first.
    pub fn accepts(self, name: &str) -> bool {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        self != Self::Avro
            || name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
                && name.bytes().next().is_some_and(is_letter)
    }
}

/// What a file has, or what is read of it.
///
/// ```
/// use tidemill_domain::item::{Codec, ColumnarFormat, ColumnarKind, FieldType};
///
/// let format = ColumnarFormat::new(ColumnarKind::Parquet)
///     .column("id", FieldType::Long)
///     .column("amount", FieldType::Decimal { digits: 18, scale: 2 })
///     .codec(Codec::Zstd);
/// assert_eq!(format.refusal(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnarFormat {
    pub kind: ColumnarKind,
    /// A writer needs them with their types. For a reader none means all, and the types are optional.
    pub columns: Vec<(String, Option<FieldType>)>,
    /// For a writer; none means the default of the kind.
    pub codec: Option<Codec>,
    /// For a writer: most rows of a row group of Parquet or a record batch of Arrow.
    pub group_rows: Option<usize>,
}

impl ColumnarFormat {
    pub const fn new(kind: ColumnarKind) -> Self {
        Self { kind, columns: Vec::new(), codec: None, group_rows: None }
    }

    crate::setters! {
        /// Adds a column.
        pub fn column(self, name: impl Into<String>, kind: FieldType) {
            self.columns.push((name.into(), Some(kind)))
        }
        /// How the columns are packed.
        pub fn codec(self, codec: Codec) { self.codec = Some(codec) }
        /// Most rows of a row group.
        pub fn group_rows(self, rows: usize) { self.group_rows = Some(rows.max(1)) }
    }

    /// Why it cannot be written.
    pub fn refusal(&self) -> Option<String> {
        let Self { kind, columns, codec, .. } = self;
        if columns.is_empty() {
            return Some(format!("a file of {kind} needs its columns and their types"));
        }
        if let Some(codec) = codec.filter(|codec| !kind.codecs().contains(codec)) {
            let codecs: Vec<&str> = kind.codecs().iter().map(|codec| codec.as_str()).collect();
            return Some(format!("{kind} cannot be packed with {codec}; there are {}", codecs.join(", ")));
        }
        columns.iter().enumerate().find_map(|(index, (name, _))| {
            if !kind.accepts(name) {
                return Some(format!("{name:?} cannot be the name of a field of Avro"));
            }
            let is_twice = columns[..index].iter().any(|(other, _)| other == name);
            is_twice.then(|| format!("two columns are named {name:?}"))
        })
    }
}

/// The type of a column. Times are exact to the microsecond.
///
/// ```
/// # use tidemill_domain::item::FieldType;
/// assert_eq!("decimal(18,2)".parse(), Ok(FieldType::Decimal { digits: 18, scale: 2 }));
/// assert_eq!("long".parse(), Ok(FieldType::Long));
/// assert!("decimal(2,18)".parse::<FieldType>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    Bool,
    /// A whole number of 32 bits.
    Int,
    Long,
    /// A floating-point number of 32 bits.
    Float,
    Double,
    Decimal {
        /// At most [`DIGITS_MAX`].
        digits: u8,
        /// How many of them are after the point.
        scale: u8,
    },
    Text,
    Bytes,
    Date,
    Time,
    /// A day and a time without a zone.
    DateTime,
    Instant,
    /// Written as text.
    Uuid,
    /// Written as text.
    Json,
}

/// The types without digits, as they are written.
const WORDS: [(&str, FieldType); 13] = [
    ("bool", FieldType::Bool),
    ("int", FieldType::Int),
    ("long", FieldType::Long),
    ("float", FieldType::Float),
    ("double", FieldType::Double),
    ("text", FieldType::Text),
    ("bytes", FieldType::Bytes),
    ("date", FieldType::Date),
    ("time", FieldType::Time),
    ("datetime", FieldType::DateTime),
    ("instant", FieldType::Instant),
    ("uuid", FieldType::Uuid),
    ("json", FieldType::Json),
];

/// A text that names no type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not the type of a column; there are {words} and decimal(18,2)", words = WORDS.map(|(word, _)| word).join(", "))]
pub struct BadFieldType(String);

impl FromStr for FieldType {
    type Err = BadFieldType;

    fn from_str(text: &str) -> Result<Self, BadFieldType> {
        if let Some((_, found)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*found);
        }
        let decimal = || {
            let (digits, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (digits, scale): (u8, u8) = (digits.trim().parse().ok()?, scale.trim().parse().ok()?);
            let is_possible = (1..=DIGITS_MAX).contains(&digits) && scale <= digits;
            is_possible.then_some(Self::Decimal { digits, scale })
        };
        decimal().ok_or_else(|| BadFieldType(text.to_owned()))
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal { digits, scale } => write!(f, "decimal({digits},{scale})"),
            simple => f.write_str(WORDS.iter().find(|(_, kind)| kind == simple).map_or("", |(word, _)| word)),
        }
    }
}

impl FieldType {
    /// The value as this type, or why not, to be put after the name of the column. An empty text is null, except as a text.
    /// Nothing is rounded, except numbers to `float`. The reason does not show the value, which may be secret.
    pub fn fit(self, value: &Value) -> Result<Value, String> {
        let of = |kind: ColumnType| kind.read(value);
        let fitted = match self {
            Self::Text if value.is_null() => Some(Value::Null),
            Self::Text => match value {
                Value::Bytes(_) => None,
                value => Some(Value::Text(value.to_string())),
            },
            _ if is_missing(value) => Some(Value::Null),
            Self::Bool => of(ColumnType::Bool),
            Self::Int => of(ColumnType::Long)
                .filter(|number| matches!(number, Value::Long(number) if i32::try_from(*number).is_ok())),
            Self::Long => of(ColumnType::Long),
            Self::Float | Self::Double => of(ColumnType::Double),
            Self::Decimal { digits, scale } => match of(ColumnType::Decimal) {
                Some(Value::Decimal(number)) => Some(Value::Decimal(scaled(&number, digits, scale)?)),
                _ => None,
            },
            Self::Bytes => Some(value.clone()).filter(|value| matches!(value, Value::Bytes(_))),
            Self::Date => of(ColumnType::Date),
            Self::Time => of(ColumnType::Time)
                .filter(|time| matches!(time, Value::Time(time) if time.nanosecond() == 0)),
            Self::DateTime => of(ColumnType::DateTime)
                .filter(|moment| matches!(moment, Value::DateTime(moment) if moment.nanosecond() == 0)),
            Self::Instant => match value {
                Value::Text(text) => text
                    .parse::<jiff::Timestamp>()
                    .ok()
                    .filter(|instant| instant.subsec_nanosecond() % 1000 == 0)
                    .map(|instant| Value::Instant(Timestamp::from_micros(instant.as_microsecond()))),
                value => Some(value.clone()).filter(|value| matches!(value, Value::Instant(_))),
            },
            Self::Uuid => of(ColumnType::Uuid),
            Self::Json => match value {
                Value::Text(text) => serde_json::from_str(text).ok().map(Value::Json),
                value => Some(Value::Json(value.to_json())),
            },
        };
        fitted.ok_or_else(|| format!("is {} and does not fit into {self}", value.type_word()))
    }
}

/// With exactly so many digits after the point.
fn scaled(number: &Decimal, digits: u8, scale: u8) -> Result<Decimal, String> {
    let (whole, fraction) = number.as_str().split_once('.').unwrap_or((number.as_str(), ""));
    let scale = usize::from(scale);
    if fraction.trim_end_matches('0').len() > scale {
        return Err(format!("has more than {scale} digits after the point"));
    }
    let room = usize::from(digits) - scale;
    if whole.trim_start_matches(['-', '0']).len() > room {
        return Err(format!("has more than {room} digits before the point"));
    }
    let text = format!("{whole}.{:0<scale$.scale$}", fraction);
    Ok(text.parse().expect("the digits of a decimal number are one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_type_is_read_as_it_is_shown() {
        let decimal = FieldType::Decimal { digits: 18, scale: 2 };
        for kind in WORDS.iter().map(|(_, kind)| *kind).chain([decimal]) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for wrong in ["", "money", "decimal", "decimal(39,2)", "decimal(0,0)", "decimal(2,3)", "Long"] {
            assert!(wrong.parse::<FieldType>().unwrap_err().to_string().contains("decimal(18,2)"), "{wrong}");
        }
    }

    #[test]
    fn values_that_would_be_changed_are_refused() {
        let decimal = FieldType::Decimal { digits: 5, scale: 2 };
        for (kind, good, bad) in [
            (FieldType::Int, vec!["7".into(), Value::Long(-7)], vec![Value::Long(1 << 40), "x".into()]),
            (
                decimal,
                vec!["1.5".into(), Value::Long(999), "1.500".into()],
                vec!["1.501".into(), "1000".into()],
            ),
            (FieldType::Date, vec!["2026-11-18".into()], vec!["18.11.2026".into()]),
            (FieldType::Instant, vec!["2026-11-18T01:02:03.000004Z".into()], vec!["2026-11-18T01:02".into()]),
            (FieldType::Bytes, vec![vec![1_u8].into()], vec!["text".into()]),
            (FieldType::Json, vec!["{}".into(), Value::Long(1)], vec!["{".into()]),
        ] {
            for value in good {
                assert!(kind.fit(&value).is_ok(), "{kind}: {value:?}");
            }
            for value in bad {
                assert!(kind.fit(&value).is_err(), "{kind}: {value:?}");
            }
            assert_eq!((kind.fit(&Value::Null), kind.fit(&"".into())), (Ok(Value::Null), Ok(Value::Null)));
        }
        assert_eq!(decimal.fit(&"-1.5".into()).unwrap().to_string(), "-1.50");
    }

    proptest! {
        #[test]
        fn a_decimal_that_fits_keeps_its_value(text in "-?[0-9]{1,6}(\\.[0-9]{1,4})?") {
            let number: Decimal = text.parse().unwrap();
            if let Ok(fitted) = scaled(&number, 6, 3) {
                prop_assert_eq!(fitted.as_str().parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
            }
        }
    }
}
