//! Reading a TOML file into the layers, with the place of each value and of everything that is unknown.

use super::error::ConfigError;
use super::key::{self, Key, Kind};
use super::layer::{Form, Given, Layers};
use super::origin::Origin;
use super::place::{Alias, Place, keys_below, names_below, place, section_at};
use super::secret::Secret;
use std::path::Path;
use tidemill_domain::nearest::nearest;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

/// Lays the values of a file's content over what is there.
pub(super) fn read(path: &Path, bytes: &[u8], layers: &mut Layers) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let origin = Cursor::new(path, &valid).at(valid.len());
            let why = "the byte at this place is not UTF-8";
            return layers.problems.push(ConfigError::bad_syntax(&origin, why));
        }
    };
    match DeTable::parse(text) {
        Ok(table) => {
            let mut findings = Vec::new();
            walk(table.get_ref(), "", &mut findings);
            locate(path, text, findings, layers);
        }
        Err(error) => {
            // The error itself holds the whole file, so only its place and its words are kept.
            let offset = error.span().map_or(0, |span| span.start);
            let origin = Cursor::new(path, text).at(offset);
            layers.problems.push(ConfigError::bad_syntax(&origin, error.message()));
        }
    }
}

/// What stands at a path, and where that is in the file.
struct Finding {
    offset: usize,
    path: String,
    content: Content,
}

enum Content {
    /// The alias is there when the value stands under another name of its key.
    Value {
        key: &'static Key,
        alias: Option<&'static Alias>,
        text: Secret,
        form: Form,
    },
    Unknown {
        why: String,
        nearest: Option<String>,
    },
}

fn walk(table: &DeTable<'_>, prefix: &str, findings: &mut Vec<Finding>) {
    for (name, value) in table {
        let (offset, path) = (name.span().start, join(prefix, name.get_ref()));
        // A quoted name may be empty or have dots of its own; it is not the path that it looks like.
        if name.get_ref().is_empty() || name.get_ref().contains('.') {
            findings.push(stranger(offset, prefix, name.get_ref()));
            continue;
        }
        match (place(&path), value.get_ref()) {
            (Place::Key(key, alias), _) => findings.push(value_of(key, alias, offset, path, value)),
            (Place::Table | Place::Section, DeValue::Table(inner)) => walk(inner, &path, findings),
            (Place::Table, _) => {
                let why = format!("{path} is a table with the keys {}", keys_below(&path).join(", "));
                findings.push(unknown(offset, path, why));
            }
            (Place::Section, _) => {
                let why = format!("{path} holds one table for each name, such as [{path}.NAME]");
                findings.push(unknown(offset, path, why));
            }
            (Place::Nothing, _) => findings.push(match section_at(prefix) {
                Some(section) => unknown(offset, path, section.naming.rule().to_owned()),
                None => stranger(offset, prefix, name.get_ref()),
            }),
        }
    }
}

/// The value of a key, or that something else stands there. `offset` is that of its name.
fn value_of(
    key: &'static Key,
    alias: Option<&'static Alias>,
    offset: usize,
    path: String,
    value: &Spanned<DeValue<'_>>,
) -> Finding {
    let (text, form) = match value.get_ref() {
        DeValue::Array(items) if matches!(key.kind, Kind::Names | Kind::Command) => {
            (lines(items), Form::List)
        }
        DeValue::Table(_) | DeValue::Array(_) => {
            let why = format!("{path} takes a single value: {}", key.kind.allowed());
            return unknown(offset, path, why);
        }
        value => scalar(value),
    };
    let (text, form) = match alias {
        Some(alias) => alias.translated(text, form),
        None => (text, form),
    };
    let content = Content::Value { key, alias, text: Secret::new(text), form };
    Finding { offset: value.span().start, path, content }
}

/// The items of a list, one per line. A control character would pretend to be another item or worse.
fn lines(items: &DeArray<'_>) -> String {
    let plain = |text: String| text.replace(char::is_control, "\u{fffd}");
    items.iter().map(|item| plain(scalar(item.get_ref()).0)).collect::<Vec<_>>().join("\n")
}

/// A name that does not exist below `prefix`.
fn stranger(offset: usize, prefix: &str, name: &str) -> Finding {
    let siblings = names_below(prefix);
    let why = match prefix {
        "" => format!("the names at the top are {}", siblings.join(", ")),
        _ => format!("the keys of {prefix} are {}", siblings.join(", ")),
    };
    let near = nearest(name, siblings).map(|sibling| join(prefix, sibling));
    // The right key in the wrong table is as frequent as a slip of the finger.
    let elsewhere = || {
        let leaf = name.rsplit('.').next().unwrap_or(name);
        key::all().find(|key| key.leaf() == leaf).map(|key| key.path.to_owned())
    };
    let content = Content::Unknown { why, nearest: near.or_else(elsewhere) };
    Finding { offset, path: join(prefix, name), content }
}

fn unknown(offset: usize, path: String, why: String) -> Finding {
    Finding { offset, path, content: Content::Unknown { why, nearest: None } }
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
        // Not scalars; the caller has sorted them out.
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
            Content::Value { key, alias, text, form } => {
                let given = Given { key, text, form, origin };
                match alias {
                    Some(alias) => aliased.push((alias, given)),
                    None => layers.give(path, given),
                }
            }
            Content::Unknown { why, nearest } => {
                layers.problems.push(ConfigError::unknown_key(&path, &origin, why, nearest));
            }
        }
    }
    // Only now is it known what else the file says.
    for (alias, given) in aliased {
        let path = given.key.path;
        match layers.values.get(path).and_then(|known| alias.clash(&given, known)) {
            Some(problem) => layers.problems.push(problem),
            None => layers.give(path.to_owned(), given),
        }
    }
}

/// Counts lines and characters up to growing offsets, so that a file with many problems is read once, not
/// once for each of them.
struct Cursor<'a> {
    path: &'a Path,
    text: &'a str,
    offset: usize,
    line: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        // A byte order mark is not a character that anybody sees.
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
