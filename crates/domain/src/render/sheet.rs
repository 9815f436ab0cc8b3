//! Orders of renders from a table: each row becomes one render.
//!
//! A column is a part of the order, such as `priority`, or a field of the data, such as `Slot 1 - name`. A map gives
//! columns with other names their target. An empty cell is left out, so it never hides a default.

use super::field::Field;
use super::{BroadcastDate, LABEL_CHARS_MAX};
use crate::error_chain::listed;
use crate::nearest::did_you_mean;
use crate::time::Timestamp;
use crate::words::plural;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// Rows below the header.
pub const ROWS_MAX: usize = 1_000;
/// Of the header, and of the map.
pub const COLUMNS_MAX: usize = 1_000;
/// Of a row: without its mapping, each cell would be one.
const PROBLEMS_MAX: usize = 20;
/// Of the names of all columns.
const NAMES_CHARS_MAX: usize = 300;
/// Of the whole table.
pub const BYTES_MAX: usize = 1_000_000;

crate::words! {
    /// A part of an order that is not in the data.
    #[derive(Hash)]
    pub enum Part {
        Composition = "composition" or "composition_id",
        CueItem = "cue_item" or "cue_item_id",
        Priority = "priority",
        Deadline = "deadline",
        BroadcastDate = "broadcast_date" or "date",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Part(Part),
    Field(Field),
    /// The column is left out.
    Nothing,
}

impl Target {
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "" => Some(Self::Nothing),
            text => text.parse().map(Self::Part).or_else(|_| text.parse().map(Self::Field)).ok(),
        }
    }
}

crate::newtype::display!(Target {
    Self::Part(part) => "{part}";
    Self::Field(field) => "{field}";
    Self::Nothing => "nothing";
});

/// A row of a table; the header is one too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SheetRow {
    /// The line of the file in which it begins, from 1.
    pub line: usize,
    pub cells: Vec<String>,
}

/// The order of one render. As defaults it holds what rows leave out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SheetOrder {
    pub composition: Option<String>,
    pub cue_item: Option<String>,
    pub priority: i32,
    pub deadline: Option<Timestamp>,
    pub broadcast_date: Option<BroadcastDate>,
    /// The `gfx_data`.
    pub data: Value,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SheetProblem {
    pub line: usize,
    /// The name in the header, if it is about one column.
    pub column: Option<String>,
    pub why: String,
}

impl SheetProblem {
    pub fn new(line: usize, column: Option<&str>, why: impl Into<String>) -> Self {
        Self { line, column: column.map(str::to_owned), why: why.into() }
    }
}

impl Display for SheetProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = &self.column {
            write!(f, ", column {column:?}")?;
        }
        write!(f, ": {}", self.why)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", listed(problems, "; "))]
pub struct BadSheet {
    pub problems: Vec<SheetProblem>,
}

crate::code::coded!(BadSheet, BadRenderSheet);

impl BadSheet {
    pub fn one(line: usize, why: impl Into<String>) -> Self {
        Self { problems: vec![SheetProblem::new(line, None, why)] }
    }

    pub const fn fix(&self) -> &'static str {
        "correct the table and submit it again; nothing was ordered"
    }
}

/// The columns of a table, each with its name and its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns(Vec<(String, Target)>);

impl Columns {
    /// The columns of a header. `map` has targets by the names of columns; an empty target leaves a column out.
    pub fn of(header: &SheetRow, map: &BTreeMap<String, String>) -> Result<Self, BadSheet> {
        // More take long to compare, and their problems fill the memory.
        let count = header.cells.len().max(map.len());
        if count > COLUMNS_MAX {
            let why = format!("the table or its map has {count} columns; {COLUMNS_MAX} are allowed");
            return Err(BadSheet::one(header.line, why));
        }
        let names: Vec<&str> = header.cells.iter().map(|name| name.trim()).collect();
        let bad = |name: &str, why: String| SheetProblem::new(header.line, Some(name), why);
        let mut problems = Vec::new();
        for name in map.keys().filter(|name| !names.contains(&name.trim())).take(PROBLEMS_MAX) {
            let why = format!(
                "the map names this column, and the header has none like it; {}",
                known(name, &names)
            );
            problems.push(bad(name, why));
        }
        let mut columns: Vec<(String, Target)> = Vec::with_capacity(names.len());
        for name in names {
            let mapped = map.iter().find(|(column, _)| column.trim() == name).map(|(_, target)| target);
            // The column beside the last cell, or between two: spreadsheets leave them empty.
            let target = if name.is_empty() {
                Some(Target::Nothing)
            } else {
                Target::read(mapped.map_or(name, |to| to))
            };
            match target {
                None => problems.push(bad(name, unknown(name, mapped))),
                Some(target) => {
                    let is_used = target != Target::Nothing;
                    if let Some((other, _)) = columns.iter().find(|(_, other)| is_used && *other == target) {
                        problems.push(bad(name, format!("the column {other:?} is {target} too")));
                    }
                    columns.push((name.to_owned(), target));
                }
            }
        }
        if problems.is_empty() { Ok(Self(columns)) } else { Err(BadSheet { problems }) }
    }

    /// The order of a row, or everything that is wrong with it.
    pub fn order(&self, row: &SheetRow, defaults: &SheetOrder) -> Result<SheetOrder, Vec<SheetProblem>> {
        if row.cells.len() != self.0.len() {
            let (cells, columns) = (row.cells.len(), self.0.len());
            let why = format!(
                "the row has {cells} cells and the header {columns}; put a text that contains the separator into quotes"
            );
            return Err(vec![SheetProblem::new(row.line, None, why)]);
        }
        let (mut order, mut data, mut problems) = (defaults.clone(), Data::default(), Vec::new());
        for ((name, target), cell) in self.0.iter().zip(&row.cells) {
            let text = cell.trim();
            if text.is_empty() {
                continue;
            }
            let set = match target {
                // Whoever left out the name would miss the text in the film.
                Target::Nothing if name.is_empty() => {
                    let start: String = text.chars().take(80).collect();
                    Err(format!(
                        "the column of {start:?} has no name; name it in the header, or empty its cells"
                    ))
                }
                Target::Nothing => Ok(()),
                Target::Field(field) => {
                    data.set(field, cell);
                    Ok(())
                }
                Target::Part(part) => set(&mut order, *part, text),
            };
            if let Err(why) = set {
                let column = Some(name.as_str()).filter(|name| !name.is_empty());
                problems.push(SheetProblem::new(row.line, column, why));
            }
        }
        order.data = data.document();
        if problems.is_empty() { Ok(order) } else { Err(problems) }
    }

    /// The column of a field.
    pub fn name_of(&self, field: &Field) -> Option<&str> {
        let is_it = |target: &Target| matches!(target, Target::Field(other) if other == field);
        self.0.iter().find(|(_, target)| is_it(target)).map(|(name, _)| &**name)
    }
}

fn known(name: &str, names: &[&str]) -> String {
    let all: String = names.join(", ").chars().take(NAMES_CHARS_MAX).collect();
    format!("{}the columns are {all}", did_you_mean(name, names))
}

/// The first problems of a row, and how many more it has.
pub fn first_problems(mut problems: Vec<SheetProblem>) -> Vec<SheetProblem> {
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    problems.truncate(PROBLEMS_MAX);
    let line = problems.first().map(|problem| problem.line).filter(|_| more > 0);
    let rest = || format!("and {}", plural(more, "more problem", "more problems"));
    problems.extend(line.map(|line| SheetProblem::new(line, None, rest())));
    problems
}

fn unknown(name: &str, mapped: Option<&String>) -> String {
    let targets =
        "Slot 1 - name, Single - name, Flag 1, composition, cue_item, priority, deadline or broadcast_date";
    match mapped {
        Some(target) => {
            format!("{target:?} is not a target; {}use {targets}", did_you_mean(target, Part::NAMES))
        }
        None => format!(
            "it is not a field; {}name it {targets}, map it (\"{name}=Slot 1 - name\"), or leave it out (\"{name}=\")",
            did_you_mean(name, Part::NAMES)
        ),
    }
}

fn set(order: &mut SheetOrder, part: Part, text: &str) -> Result<(), String> {
    let label = || match text.chars().count() {
        0..=LABEL_CHARS_MAX => Ok(Some(text.to_owned())),
        count => Err(format!("the text has {count} characters; {LABEL_CHARS_MAX} are allowed")),
    };
    match part {
        Part::Composition => order.composition = label()?,
        Part::CueItem => order.cue_item = label()?,
        Part::Priority => {
            let whole = |_| format!("{text:?} is not a whole number from {} to {}", i32::MIN, i32::MAX);
            order.priority = text.parse().map_err(whole)?;
        }
        Part::Deadline => {
            let time = |_| format!("{text:?} is not a time; use the form 2026-11-15T18:00:00Z");
            order.deadline = Some(text.parse().map_err(time)?);
        }
        Part::BroadcastDate => {
            let date = |_| format!("{text:?} is not a date; use the form 2026-11-15");
            order.broadcast_date = Some(text.parse().map_err(date)?);
        }
    }
    Ok(())
}

/// The `gfx_data` of a row, as its cells fill it.
#[derive(Default)]
struct Data {
    slots: BTreeMap<u16, Map<String, Value>>,
    single_fields: Map<String, Value>,
    flag_fields: Map<String, Value>,
}

impl Data {
    fn set(&mut self, field: &Field, cell: &str) {
        let (fields, name) = match field {
            Field::Slot { number, name } => (self.slots.entry(*number).or_default(), name.clone()),
            Field::Single { name } => (&mut self.single_fields, name.clone()),
            Field::Flag { number } => (&mut self.flag_fields, number.to_string()),
        };
        fields.insert(name, json!(cell));
    }

    fn document(self) -> Value {
        let slot = |(number, fields)| json!({ "slot_number": number, "fields": fields });
        let slots: Vec<Value> = self.slots.into_iter().map(slot).collect();
        let parts = [
            ("slots", !slots.is_empty(), json!(slots)),
            ("single_fields", !self.single_fields.is_empty(), json!(self.single_fields)),
            ("flag_fields", !self.flag_fields.is_empty(), json!(self.flag_fields)),
        ];
        let filled = parts.into_iter().filter(|(_, is_filled, _)| *is_filled);
        Value::Object(filled.map(|(name, _, part)| (name.to_owned(), part)).collect())
    }
}

#[cfg(test)]
mod tests;
