//! How a chunk step processes its rows: rules, filter, map.

use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Key, Node};
use crate::model::{At, ColumnRule, ProcessFile};
use tidemill_domain::item::{ColumnRules, ColumnType, Value};
use tidemill_domain::job::parameter::Pattern;

/// The limit of PostgreSQL tables.
const COLUMNS_MAX: usize = 1600;

tables! {
    PROCESS = "process" ["validate" "filter" "map"]
        "process: { filter: \"row.amount != ''\", map: { id: \"int(row.id)\" } }";
    RULES = "the rules for a column" ["required" "type" "min" "max" "pattern" "one_of" "check" "message"]
        "{ required: true, type: decimal, min: 0 }";
}

const VALIDATE_EXAMPLE: &str = "validate: { amount: { required: true, type: decimal, min: 0 } }";

/// Our types, and common other names for them.
const OTHER_TYPES: &[(&str, &[&str])] = &[
    ("long", &["int", "integer", "bigint"]),
    ("decimal", &["number", "numeric", "money"]),
    ("double", &["float", "real"]),
    ("bool", &["boolean"]),
    ("datetime", &["timestamp"]),
];

type Columns = Vec<(At<String>, At<String>)>;

impl Reader<'_> {
    pub(super) fn process(&mut self, node: &Node) -> Option<ProcessFile> {
        let fields = self.table(node, "process", PROCESS)?;
        if fields.entries.is_empty() {
            let fix = "take it out; items are then written as read";
            self.wrong(node, "process says nothing", fix);
        }
        let validate = fields.get("validate").map_or(Some(Vec::new()), |node| self.validate(node));
        let filter = fields.get("filter").map_or(Some(None), |node| self.text(node, "filter").map(Some));
        let map = fields.get("map").map_or(Some(Vec::new()), |node| self.map(node));
        Some(ProcessFile { validate: validate?, filter: filter?, map: map? })
    }

    fn validate(&mut self, node: &Node) -> Option<Vec<ColumnRule>> {
        let entries = self.named(node, "validate is a table of columns and their rules", VALIDATE_EXAMPLE)?;
        if entries.is_empty() {
            self.wrong(
                node,
                "validate has no column",
                format!("write it as {VALIDATE_EXAMPLE}, or take it out"),
            );
            return None;
        }
        all(entries.iter().map(|(key, value)| self.rules(key, value)))
    }

    fn rules(&mut self, key: &Key, node: &Node) -> Option<ColumnRule> {
        let column = At { value: key.name.clone(), place: key.place };
        // `id: required` is short for `id: { required: true }`.
        if matches!(&node.content, Content::Scalar(text) if text == "required") {
            let rules = ColumnRules { is_required: true, ..ColumnRules::default() };
            return Some(ColumnRule { column, rules, check: None, message: None });
        }
        let fields = self.table(node, &format!("the rules for {}", key.name), RULES)?;
        if fields.entries.is_empty() {
            let fix = format!("write it as {}: {}, or take it out", key.name, RULES.example);
            self.wrong(node, "there is no rule for this column", fix);
        }
        let is_required = self.truth_of(&fields, "required", Truth::No);
        let kind = fields.get("type").map_or(Some(None), |node| self.column_type(node).map(Some));
        let pattern = fields.get("pattern").map_or(Some(None), |node| self.pattern(node).map(Some));
        let one_of = fields.get("one_of").map_or(Some(Vec::new()), |node| self.texts(node, "one_of"));
        let check = fields.get("check").map_or(Some(None), |node| self.text(node, "check").map(Some));
        let message = self.text_of(&fields, "message").map(|text| text.value);
        if let (Some(key), None) = (fields.key("message"), fields.key("check")) {
            let what = "message is the reason if check is false, and there is no check";
            self.wrong_key(key, what, None, "add check with an expression, or take message out");
        }
        let kind = kind?;
        let (min, max) = (self.bound(&fields, "min", kind), self.bound(&fields, "max", kind));
        let one_of = one_of?.into_iter().map(|text| text.value).collect();
        let rules = ColumnRules { is_required, kind, min: min?, max: max?, pattern: pattern?, one_of };
        Some(ColumnRule { column, rules, check: check?, message })
    }

    fn column_type(&mut self, node: &Node) -> Option<ColumnType> {
        let words = ColumnType::ALL.map(|kind| (kind.as_str(), kind));
        self.word_or(node, "type", &words, OTHER_TYPES)
    }

    fn bound(&mut self, fields: &Fields<'_>, name: &str, kind: Option<ColumnType>) -> Option<Option<Value>> {
        let Some(node) = fields.get(name) else { return Some(None) };
        let text = self.text(node, name)?;
        let Some(kind) = kind.filter(|kind| !matches!(kind, ColumnType::Bool | ColumnType::Uuid)) else {
            let what = format!("{name} compares numbers, days or times, and the type does not say which");
            self.wrong(node, what, "add type: decimal, long, double, date, time or datetime");
            return None;
        };
        let bound = kind.read(&text.value.as_str().into());
        if bound.is_none() {
            self.wrong(node, format!("{name} is not of the type {kind}"), "correct the value, or the type");
        }
        bound.map(Some)
    }

    pub(super) fn pattern(&mut self, node: &Node) -> Option<Pattern> {
        match Pattern::new(&self.text(node, "pattern")?.value) {
            Ok(pattern) => Some(pattern),
            Err(bad) => {
                let fix = "write a regular expression that the whole value has to match, such as [a-z0-9_-]+";
                self.wrong(node, format!("this pattern cannot be used: {bad}"), fix);
                None
            }
        }
    }

    fn map(&mut self, node: &Node) -> Option<Columns> {
        let example = "map: { id: \"int(row.id)\", name: \"row.name\" }";
        let entries = self.named(node, "map is a table of columns and expressions", example)?;
        if entries.is_empty() {
            self.wrong(node, "map has no column", format!("write it as {example}, or take it out"));
            return None;
        }
        if entries.len() > COLUMNS_MAX {
            let what = format!("map has more than {COLUMNS_MAX} columns");
            let fix = "leave out what is not needed; without map an item is written as it was read";
            self.wrong(node, what, fix);
            return None;
        }
        all(entries.iter().map(|(key, value)| {
            if key.name.is_empty() {
                self.wrong_key(key, "a column without a name", None, "name the column");
            }
            let text = self.text(value, &key.name).filter(|_| !key.name.is_empty())?;
            Some((At { value: key.name.clone(), place: key.place }, text))
        }))
    }
}
