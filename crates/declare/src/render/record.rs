//! An unchecked record of a file: a row of CSV, or a table of YAML.

use super::{Column, column};
use crate::Source;
use crate::diagnostic::{Diagnostic, excerpt};
use crate::model::Place;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

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
        let Some(column) = column::find(columns, &cell.name) else {
            let (what, fix) = column::stranger(columns, &cell.name);
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
        let is_there = record
            .cells
            .iter()
            .any(|cell| column::find(columns, &cell.name).is_some_and(|found| found.name == column.name));
        if !is_there {
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
        Content::List(items) => column.kind.read_list(items),
        Content::Other(word) => Err(format!("it is {word}")),
    }
}

impl Record {
    /// The place of a column, or of the record if it does not have it.
    pub(super) fn at(&self, columns: &'static [Column], name: &str) -> (Place, usize) {
        let is_it = |cell: &&Cell| column::find(columns, &cell.name).is_some_and(|found| found.name == name);
        self.cells.iter().find(is_it).map_or((self.place, usize::MAX), |cell| (cell.place, cell.chars))
    }
}
