//! YAML: a list of tables, one for each record.

use super::record::{Cell, Content as CellContent, Record};
use crate::document::{Content, Key, Node, Remedies};
use crate::{Diagnostic, Diagnostics, Source, document};
use serde_json::{Map, Value};
use std::fmt::Write as _;

const REMEDIES: Remedies = Remedies {
    empty: "write a list: `- composition: NAME` and so on",
    large: "divide it, or import CSV",
    deep: "write a list of plain tables",
    second: "put all of it into one list",
};

pub(super) fn read(source: &Source) -> Result<Vec<Record>, Diagnostics> {
    let (root, mut problems) = document::read(source, REMEDIES);
    let wrong = |node: &Node, what: &str| {
        let what = format!("{what}, and this is {}", node.type_words());
        Diagnostic::at(source, node.place, node.chars, what, REMEDIES.empty)
    };
    let items = match &root {
        Some(Node { content: Content::List(items), .. }) => items.as_slice(),
        other => {
            problems.extend(other.iter().map(|root| wrong(root, "the file is a list of tables")));
            &[]
        }
    };
    let mut records = Vec::new();
    for item in items {
        match &item.content {
            Content::Map(entries) => {
                records.push(Record { place: item.place, cells: entries.iter().filter_map(cell).collect() });
            }
            _ => problems.push(wrong(item, "each item is a table")),
        }
    }
    Diagnostics::of(problems).map_or(Ok(records), Err)
}

/// Leaves out keys without a value.
fn cell((key, node): &(Key, Node)) -> Option<Cell> {
    let content = match &node.content {
        Content::Null => return None,
        Content::Scalar(text) => CellContent::Text(text.clone()),
        Content::List(items) => {
            let text = |item: &Node| match &item.content {
                Content::Scalar(text) => Some(text.clone()),
                _ => None,
            };
            let texts = items.iter().map(text).collect::<Option<Vec<_>>>();
            texts.map_or(CellContent::Other("a list of more than texts"), CellContent::List)
        }
        Content::Map(_) => CellContent::Other("a table"),
    };
    Some(Cell { name: key.name.clone(), place: node.place, chars: node.chars, content })
}

/// Quotes every text, so that none is taken for another type.
pub(super) fn write(objects: &[Map<String, Value>]) -> String {
    let mut text = String::new();
    for object in objects {
        for (index, (name, value)) in object.iter().enumerate() {
            let head = if index == 0 { "- " } else { "  " };
            let _infallible = writeln!(text, "{head}{name}: {}", shown(value));
        }
    }
    if text.is_empty() { "[]\n".to_owned() } else { text }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Escapes what an editor would not show, or would take for a line end.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            _ if letter.is_control()
                || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                let _infallible = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
