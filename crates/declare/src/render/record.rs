//! An unchecked record of a file (a row of CSV, or a table of YAML), and the columns that it may have.

use crate::Source;
use crate::diagnostic::{Diagnostic, did_you_mean, excerpt};
use crate::model::Place;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::str::FromStr;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) place: Place,
    pub(super) cells: Vec<Cell>,
}

/// Empty values are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) chars: usize,
    pub(super) content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Text(String),
    List(Vec<String>),
    Other(&'static str),
}

/// Returns none and adds to `problems` if something is wrong.
pub(super) fn read<T: DeserializeOwned>(
    record: &Record,
    columns: &'static [Column],
    source: &Source,
    problems: &mut Vec<Diagnostic>,
) -> Option<T> {
    let before = problems.len();
    let mut fields = Map::new();
    for cell in &record.cells {
        let mut bad = |what: String, fix: String| {
            problems.push(Diagnostic::at(source, cell.place, cell.chars, what, fix));
        };
        let Some(column) = find(columns, &cell.name) else {
            let (what, fix) = stranger(columns, &cell.name);
            bad(what, fix);
            continue;
        };
        match value(column, &cell.content) {
            Err(why) => bad(format!("{}: {why}", column.name), format!("correct {}", column.name)),
            Ok(_) if fields.contains_key(column.name) => {
                bad(format!("{} is there twice", column.name), "take one of them out".to_owned());
            }
            Ok(value) => {
                fields.insert(column.name.to_owned(), value);
            }
        }
    }
    for column in columns.iter().filter(|column| column.is_needed) {
        if record.cell(columns, column.name).is_none() {
            let what = format!("{} is missing", column.name);
            let fix = format!("add {}", column.name);
            problems.push(Diagnostic::at(source, record.place, usize::MAX, what, fix));
        }
    }
    if problems.len() > before {
        return None;
    }
    match serde_json::from_value(Value::Object(fields)) {
        Ok(read) => Some(read),
        // The columns have checked every value, so this is a number that is far too large.
        Err(error) => {
            let what = excerpt(&error.to_string());
            problems.push(Diagnostic::at(source, record.place, usize::MAX, what, "correct the value"));
            None
        }
    }
}

fn value(column: &Column, content: &Content) -> Result<Value, String> {
    match content {
        Content::Text(text) if text.contains('\0') => Err("it has a NUL character".to_owned()),
        Content::Text(text) => column.kind.read(text),
        Content::List(items) if matches!(column.kind, Kind::Words | Kind::Texts) => Ok(json!(items)),
        Content::List(_) => Err("write a single value".to_owned()),
        Content::Other(word) => Err(format!("it is {word}")),
    }
}

impl Record {
    fn cell(&self, columns: &'static [Column], name: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| find(columns, &cell.name).is_some_and(|found| found.name == name))
    }

    /// The place of a column, or of the record if it does not have it.
    pub(super) fn at(&self, columns: &'static [Column], name: &str) -> (Place, usize) {
        self.cell(columns, name).map_or((self.place, usize::MAX), |cell| (cell.place, cell.chars))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    Read(fn(&str) -> Result<(), String>),
    Truth,
    Number,
    Word(&'static [&'static str]),
    /// Words separated by spaces, or `any`.
    Words,
    /// Texts separated by semicolons.
    Texts,
}

/// An empty list, which differs from a missing value.
const ANY: &str = "any";

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

/// For a text that must be one of this type.
pub(super) const fn parsed<T: FromStr<Err: Display>>() -> Kind {
    Kind::Read(|text| text.parse::<T>().map(drop).map_err(|error| error.to_string()))
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
    fn read(self, text: &str) -> Result<Value, String> {
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
            Self::Texts => Ok(json!(text.split(';').map(str::trim).collect::<Vec<_>>())),
        }
    }
}

pub(super) fn cell(kind: Kind, value: &Value) -> String {
    let joined = |texts: &[Value], between: &str| {
        texts.iter().map(|text| cell(Kind::Text, text)).collect::<Vec<_>>().join(between)
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(texts) if matches!(kind, Kind::Texts) => joined(texts, "; "),
        Value::Array(words) if words.is_empty() => ANY.to_owned(),
        Value::Array(words) => joined(words, " "),
        other => other.to_string(),
    }
}
