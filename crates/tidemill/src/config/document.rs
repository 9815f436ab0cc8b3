//! Reading a TOML file into the layers, with the place of each value and of everything that is unknown.

use super::error::ConfigError;
use super::key::{self, Key};
use super::kind::Kind;
use super::layer::{Form, Given, Layers, Origin};
use super::place::{Alias, Place, name_rule, names_below, place};
use super::secret::Secret;
use std::path::Path;
use tidemill_domain::nearest::nearest;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

/// Adds the values of a file as the next layer.
pub(super) fn read(path: &Path, bytes: &[u8], layers: &mut Layers) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let origin = Cursor::new(path, &valid).at(valid.len());
            return layers.problems.push(ConfigError::bad_syntax(&origin, "this byte is not UTF-8"));
        }
    };
    match DeTable::parse(text) {
        Ok(table) => {
            let mut findings = Vec::new();
            walk(table.get_ref(), "", &mut findings);
            locate(path, text, findings, layers);
        }
        Err(error) => {
            // The error holds the whole file, which may have secrets, so only its place and message are kept.
            let offset = error.span().map_or(0, |span| span.start);
            let origin = Cursor::new(path, text).at(offset);
            layers.problems.push(ConfigError::bad_syntax(&origin, error.message()));
        }
    }
}

/// What a file has at a path.
struct Finding {
    offset: usize,
    path: String,
    content: Content,
}

enum Content {
    /// A value of a key, perhaps under an alias.
    Value(&'static Key, Option<&'static Alias>, Secret, Form),
    /// Why it is not allowed there, and the nearest name that is.
    Unknown(String, Option<String>),
}

fn walk(table: &DeTable<'_>, prefix: &str, findings: &mut Vec<Finding>) {
    for (name, value) in table {
        let path = join(prefix, name.get_ref());
        // A quoted name may be empty or contain dots; it is not the path that it looks like.
        let is_plain = !name.get_ref().is_empty() && !name.get_ref().contains('.');
        let content = match (place(&path), value.get_ref()) {
            _ if !is_plain => unknown_name(prefix, name.get_ref()),
            (Place::Table | Place::Section, DeValue::Table(inner)) => {
                walk(inner, &path, findings);
                continue;
            }
            (_, value) => content_of(prefix, name.get_ref(), value),
        };
        let is_value = matches!(content, Content::Value(..));
        let offset = if is_value { value.span().start } else { name.span().start };
        findings.push(Finding { offset, path, content });
    }
}

/// The value of a key, or why there can be no such value.
fn content_of(prefix: &str, name: &str, value: &DeValue<'_>) -> Content {
    let path = join(prefix, name);
    let why = match place(&path) {
        Place::Key(key, alias) => match text_of(key, alias, value) {
            Some((text, form)) => return Content::Value(key, alias, Secret::new(text), form),
            None => format!("{path} takes a single value: {}", key.kind.allowed()),
        },
        Place::Table => format!("{path} is a table with the keys {}", names_below(&path).join(", ")),
        Place::Section => format!("{path} holds one table per name, such as [{path}.NAME]"),
        Place::Nothing if matches!(place(prefix), Place::Section) => name_rule(prefix).to_owned(),
        Place::Nothing => return unknown_name(prefix, name),
    };
    Content::Unknown(why, None)
}

/// The text of a value; none for a table, and for a list in place of a single value.
fn text_of(key: &Key, alias: Option<&Alias>, value: &DeValue<'_>) -> Option<(String, Form)> {
    match (value, alias) {
        (DeValue::Array(items), _) if matches!(key.kind, Kind::Names | Kind::Command) => {
            Some((lines(items), Form::List))
        }
        (DeValue::Table(_) | DeValue::Array(_), _) => None,
        (value, Some(alias)) => Some(alias.translated(scalar(value))),
        (value, None) => Some(scalar(value)),
    }
}

/// The items of a list, one per line. Control characters are replaced: a line break would look like another item.
fn lines(items: &DeArray<'_>) -> String {
    let plain = |text: String| text.replace(char::is_control, "\u{fffd}");
    items.iter().map(|item| plain(scalar(item.get_ref()).0)).collect::<Vec<_>>().join("\n")
}

fn unknown_name(prefix: &str, name: &str) -> Content {
    let siblings = names_below(prefix);
    let why = match prefix {
        "" => format!("the top-level names are {}", siblings.join(", ")),
        _ => format!("the keys of {prefix} are {}", siblings.join(", ")),
    };
    let near = nearest(name, siblings).map(|sibling| join(prefix, sibling));
    // The right key in the wrong table is as frequent as a typing error.
    let elsewhere = || {
        let leaf = name.rsplit('.').next().unwrap_or(name);
        key::all().find(|key| key.leaf() == leaf).map(|key| key.path.to_owned())
    };
    Content::Unknown(why, near.or_else(elsewhere))
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// A scalar as the text that would mean the same in the environment.
fn scalar(value: &DeValue<'_>) -> (String, Form) {
    match value {
        DeValue::String(text) => (text.to_string(), Form::Quoted),
        DeValue::Integer(number) => (decimal(number), Form::Bare),
        DeValue::Float(number) => (number.as_str().to_owned(), Form::Bare),
        DeValue::Boolean(truth) => (truth.to_string(), Form::Bare),
        DeValue::Datetime(instant) => (instant.to_string(), Form::Bare),
        // Not a scalar. In a list, the name of the type is refused as a name.
        DeValue::Array(_) | DeValue::Table(_) => (value.type_str().to_owned(), Form::Bare),
    }
}

fn decimal(number: &DeInteger<'_>) -> String {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(value) => value.to_string(),
        Err(_) => number.to_string(),
    }
}

/// Gives each finding its line and column, in the order of the file.
fn locate(path: &Path, text: &str, mut findings: Vec<Finding>, layers: &mut Layers) {
    findings.sort_by_key(|finding| finding.offset);
    let mut cursor = Cursor::new(path, text);
    let mut aliased = Vec::new();
    for Finding { offset, path, content } in findings {
        let origin = cursor.at(offset);
        match content {
            Content::Value(key, alias, text, form) => {
                let given = Given { key, text, form, origin };
                match alias {
                    Some(alias) => aliased.push((alias, given)),
                    None => layers.give(path, given),
                }
            }
            Content::Unknown(why, nearest) => {
                layers.problems.push(ConfigError::unknown_key(&path, &origin, why, nearest));
            }
        }
    }
    // An alias is compared with the key, which may come later in the file.
    for (alias, given) in aliased {
        let path = given.key.path;
        match layers.values.get(path).and_then(|known| alias.clash(&given, known)) {
            Some(problem) => layers.problems.push(problem),
            None => layers.give(path.to_owned(), given),
        }
    }
}

/// Finds the line and column of growing offsets. It counts on from the last one, so many problems do not take long.
struct Cursor<'a> {
    path: &'a Path,
    text: &'a str,
    offset: usize,
    line: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        // A byte order mark is invisible, so it does not count as a column.
        let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { path, text, offset, line: 1, column: 1 }
    }

    fn at(&mut self, offset: usize) -> Origin {
        let passed = self.text.get(self.offset..offset).unwrap_or_default();
        self.offset = self.offset.max(offset);
        match passed.rfind('\n') {
            Some(last) => {
                self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
                self.column = passed[last + 1..].chars().count() + 1;
            }
            None => self.column += passed.chars().count(),
        }
        Origin::File { path: self.path.to_owned(), line: self.line, column: self.column }
    }
}
