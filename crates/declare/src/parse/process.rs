//! How a chunk step processes its rows: order, duplicates, rules, lookups, filter, map.

use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Key, Node};
use crate::model::{At, ColumnRule, LookupFile, OnMissing, ProcessFile, ReadFile, SortBy};
use tidemill_domain::item::{ColumnRules, ColumnType, Direction, Value};
use tidemill_domain::job::parameter::Pattern;

/// The limit of PostgreSQL tables.
const COLUMNS_MAX: usize = 1600;

tables! {
    PROCESS = "process" ["sort" "dedupe" "validate" "lookup" "filter" "map"]
        "process: { filter: \"row.amount != ''\", map: { id: \"int(row.id)\" } }";
    RULES = "the rules for a column" ["required" "type" "min" "max" "pattern" "one_of" "check" "message"]
        "{ required: true, type: decimal, min: 0 }";
    SORT = "sort" ["by" "order"]
        "sort: [account, { by: \"int(row.amount)\", order: desc }]";
    LOOKUP = "a lookup" ["read" "key" "match" "columns" "on_missing" "max_rows"]
        "{ read: { csv: { path: \"countries.csv\" } }, key: code, match: \"row.country\", columns: [name] }";
}

/// Rows of a lookup stay in memory while the step runs.
const LOOKUP_ROWS: usize = 100_000;
const LOOKUP_ROWS_MAX: u64 = 10_000_000;

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
        let sort = fields.get("sort").map_or(Some(Vec::new()), |node| self.sort(node));
        let dedupe = fields.get("dedupe").map_or(Some(Vec::new()), |node| self.texts(node, "dedupe"));
        let lookups = fields.get("lookup").map_or(Some(Vec::new()), |node| self.lookups(node));
        let validate = fields.get("validate").map_or(Some(Vec::new()), |node| self.validate(node));
        let filter = fields.get("filter").map_or(Some(None), |node| self.text(node, "filter").map(Some));
        let map = fields.get("map").map_or(Some(Vec::new()), |node| self.map(node));
        Some(ProcessFile {
            sort: sort?,
            dedupe: dedupe?,
            validate: validate?,
            lookups: lookups?,
            filter: filter?,
            map: map?,
        })
    }

    /// Columns such as `account` and `day desc`, and expressions such as `{ by: "int(row.amount)", order: desc }`.
    fn sort(&mut self, node: &Node) -> Option<Vec<(SortBy, Direction)>> {
        let items = match &node.content {
            Content::Map(_) => std::slice::from_ref(node),
            _ => self.items(node, "sort")?,
        };
        if items.is_empty() {
            self.wrong(node, "sort names nothing to sort by", format!("write it as {}", SORT.example));
            return None;
        }
        let words = Direction::ALL.map(|direction| (direction.as_str(), direction));
        all(items.iter().map(|item| {
            if let Content::Map(_) = &item.content {
                let fields = self.table(item, "sort", SORT)?;
                let order = fields.get("order");
                let order = order.map_or(Some(Direction::Ascending), |node| self.word(node, "order", &words));
                return Some((SortBy::Expression(self.required_text(&fields, "by")?), order?));
            }
            let text = self.text(item, "sort")?;
            let worded = words.iter().find_map(|(word, direction)| {
                let column = text.value.strip_suffix(*word)?;
                column.ends_with(' ').then(|| (column.trim_end().to_owned(), *direction))
            });
            let (value, direction) = worded.unwrap_or_else(|| (text.value.clone(), Direction::Ascending));
            Some((SortBy::Column(At { value, place: text.place }), direction))
        }))
    }

    fn lookups(&mut self, node: &Node) -> Option<Vec<LookupFile>> {
        let example = format!("lookup: {{ country: {} }}", LOOKUP.example);
        let entries = self.named(node, "lookup is a table by name", &example)?;
        all(entries.iter().map(|(key, value)| self.lookup(key, value)))
    }

    fn lookup(&mut self, name: &Key, node: &Node) -> Option<LookupFile> {
        let fields = self.table(node, &format!("the lookup {}", name.name), LOOKUP)?;
        let read = self.required(&fields, "read").and_then(|node| self.read(node));
        let key = self.required(&fields, "key").and_then(|node| self.texts(node, "key"));
        let matching = fields.get("match").map_or(Some(Vec::new()), |node| self.texts(node, "match"));
        let columns = self.required(&fields, "columns").and_then(|node| self.added_columns(node));
        let words = OnMissing::ALL.map(|word| (word.as_str(), word));
        let on_missing = match fields.get("on_missing") {
            // Without quotes, null is nothing.
            Some(Node { content: Content::Null, .. }) => Some(OnMissing::Null),
            Some(node) => self.word(node, "on_missing", &words),
            None => Some(OnMissing::Reject),
        };
        let max_rows = self.number_of(&fields, "max_rows", 1..=LOOKUP_ROWS_MAX).unwrap_or(LOOKUP_ROWS);
        let (key, matching) = (key?, matching?);
        if let (Some(node), true) = (fields.get("match"), matching.len() != key.len()) {
            let what = format!("key has {}, and match has {}", key.len(), matching.len());
            self.wrong(node, what, "write one expression for each column of key");
            return None;
        }
        let name = At { value: name.name.clone(), place: name.place };
        let (read, columns, on_missing) = (read?, columns?, on_missing?);
        if matches!(read.value, ReadFile::Kafka(_)) {
            self.wrong_at(read.place, "a topic cannot be a lookup", "read a table or a file");
            return None;
        }
        Some(LookupFile { name, read, key, matching, columns, on_missing, max_rows })
    }

    /// A list of columns of the lookup, or a table of new names and columns.
    fn added_columns(&mut self, node: &Node) -> Option<Columns> {
        if let Content::Map(entries) = &node.content {
            return all(entries.iter().map(|(key, value)| {
                let name = At { value: key.name.clone(), place: key.place };
                self.text(value, &key.name).map(|column| (name, column))
            }));
        }
        Some(self.texts(node, "columns")?.into_iter().map(|column| (column.clone(), column)).collect())
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
