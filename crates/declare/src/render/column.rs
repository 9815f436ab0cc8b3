//! The columns of a file, and their values.

use crate::diagnostic::{did_you_mean, excerpt};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    /// A text that must be parseable.
    Read(fn(&str) -> Result<(), String>),
    Truth,
    Number,
    Word(&'static [&'static str]),
    /// Words separated by spaces, or `any`.
    Words,
}

/// An empty list, which differs from a missing value.
pub(super) const ANY: &str = "any";

/// A column of a CSV file, and a key of a YAML file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) other_name: Option<&'static str>,
    pub(super) kind: Kind,
    pub(super) is_needed: bool,
}

pub(super) const fn needed(name: &'static str, kind: Kind) -> Column {
    Column { name, other_name: None, kind, is_needed: true }
}

pub(super) const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, other_name: None, kind, is_needed: false }
}

pub(super) fn find(columns: &'static [Column], name: &str) -> Option<&'static Column> {
    let name = name.trim();
    columns.iter().find(|column| column.name == name || column.other_name == Some(name))
}

/// Problem and fix for an unknown name.
pub(super) fn stranger(columns: &'static [Column], name: &str) -> (String, String) {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let what = format!("there is nothing called {:?}", excerpt(name));
    (what, did_you_mean(name, names.iter().copied(), || format!("the names are {}", names.join(", "))))
}

impl Kind {
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Text => Ok(json!(text)),
            Self::Read(read) => read(text).map(|()| json!(text)),
            Self::Truth => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" => Ok(json!(true)),
                "false" | "no" => Ok(json!(false)),
                _ => Err("write true or false".to_owned()),
            },
            Self::Number => {
                let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse::<u64>().ok().filter(|_| is_plain);
                number.map(|number| json!(number)).ok_or_else(|| "write a whole number".to_owned())
            }
            Self::Word(words) if words.contains(&text) => Ok(json!(text)),
            Self::Word(words) => Err(format!("write one of {}", words.join(", "))),
            Self::Words if text == ANY => Ok(json!([])),
            Self::Words => Ok(json!(text.split_whitespace().collect::<Vec<_>>())),
        }
    }

    pub(super) fn read_list(self, items: &[String]) -> Result<Value, String> {
        match self {
            Self::Words => Ok(json!(items)),
            _ => Err("write a single value".to_owned()),
        }
    }
}

pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(words) if words.is_empty() => ANY.to_owned(),
        Value::Array(words) => words.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
