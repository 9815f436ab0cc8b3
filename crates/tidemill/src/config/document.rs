//! Reading a TOML file into the layers, with the place of each value and of everything that is unknown.

use super::alias::{self, Alias};
use super::error::{ConfigError, excerpt};
use super::key::{self, Key, Kind};
use super::layer::{Form, Given, Layers};
use super::origin::Origin;
use super::secret::Secret;
use super::section::{self, Place};
use std::path::Path;
use tidemill_domain::nearest::nearest;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeString, DeTable, DeValue};

/// Lays the values of a file's content over what is there.
pub(super) fn read(path: &Path, bytes: &[u8], layers: &mut Layers) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let origin = Cursor::new(path, &valid).at(valid.len());
            let why = "the byte at this place is not UTF-8".to_owned();
            return layers.problems.push(ConfigError::BadSyntax { origin: Box::new(origin), why });
        }
    };
    match DeTable::parse(text) {
        Ok(table) => {
            let mut findings = Vec::new();
            walk(table.get_ref(), "", &mut findings);
            place(path, text, findings, layers);
        }
        Err(error) => {
            // The error itself holds the whole file, so only its place and its words are kept.
            let offset = error.span().map_or(0, |span| span.start);
            let origin = Box::new(Cursor::new(path, text).at(offset));
            layers.problems.push(ConfigError::BadSyntax { origin, why: error.message().to_owned() });
        }
    }
}

/// What stands at an offset of the file.
struct Finding {
    offset: usize,
    what: Found,
}

enum Found {
    Value { key: &'static Key, text: Secret, form: Form },
    Field { path: String, key: &'static Key, text: Secret, form: Form },
    Aliased { alias: &'static Alias, text: Secret, form: Form },
    Unknown { name: String, why: String, nearest: Option<String> },
}

fn walk(table: &DeTable<'_>, prefix: &str, findings: &mut Vec<Finding>) {
    for (name, value) in table {
        let path = join(prefix, name.get_ref());
        let below = key::names_below(&path);
        // A quoted name may be empty or have dots of its own; it is not the path that it looks like.
        let is_one_name = !name.get_ref().is_empty() && !name.get_ref().contains('.');
        if is_one_name && let Some(place) = section::place(&path) {
            walk_section(place, prefix, name, value, findings);
            continue;
        }
        if is_one_name && (alias::is_table(&path) || alias::find(&path).is_some()) {
            walk_alias(&path, name, value, findings);
            continue;
        }
        match (value.get_ref(), key::find(&path)) {
            (DeValue::Table(inner), _)
                if is_one_name && (!below.is_empty() || section::is_above_one(&path)) =>
            {
                walk(inner, &path, findings);
            }
            (DeValue::Table(_) | DeValue::Array(_), Some(key)) if is_one_name => {
                let why = format!("{} takes a single value: {}", key.path, key.kind.allowed());
                findings.push(unknown(name.span().start, &path, why, None));
            }
            (value_of_key, Some(key)) if is_one_name => {
                let (text, form) = scalar(value_of_key);
                let what = Found::Value { key, text: Secret::new(text), form };
                findings.push(Finding { offset: value.span().start, what });
            }
            (_, None) if is_one_name && !below.is_empty() => {
                let why = format!("{path} is a table with the keys {}", below.join(", "));
                findings.push(unknown(name.span().start, &path, why, None));
            }
            _ => findings.push(stranger(name.span().start, prefix, name.get_ref())),
        }
    }
}

/// A name that the document has for something of ours, or a table above it.
fn walk_alias(
    path: &str,
    name: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    findings: &mut Vec<Finding>,
) {
    match (value.get_ref(), alias::find(path)) {
        (DeValue::Table(inner), None) => walk(inner, path, findings),
        (_, None) => {
            let why = format!("{path} is a table with the keys {}", alias::names_below(path).join(", "));
            findings.push(unknown(name.span().start, path, why, None));
        }
        (DeValue::Table(_) | DeValue::Array(_), Some(alias)) => {
            let why = format!("{path} takes a single value: {}", alias.key().kind.allowed());
            findings.push(unknown(name.span().start, path, why, None));
        }
        (value_of_key, Some(alias)) => {
            let (text, form) = scalar(value_of_key);
            let (text, form) = alias.translated(text, form);
            let what = Found::Aliased { alias, text: Secret::new(text), form };
            findings.push(Finding { offset: value.span().start, what });
        }
    }
}

/// A name of which the sections know.
fn walk_section(
    place: Place,
    prefix: &str,
    name: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    findings: &mut Vec<Finding>,
) {
    let (offset, path) = (name.span().start, join(prefix, name.get_ref()));
    match (value.get_ref(), place) {
        (DeValue::Table(inner), Place::Group | Place::Names(_) | Place::Entry(_)) => {
            walk(inner, &path, findings);
        }
        (DeValue::Array(items), Place::Field(key)) if matches!(key.kind, Kind::Names | Kind::Command) => {
            let what = Found::Field { path, key, text: Secret::new(lines(items)), form: Form::List };
            findings.push(Finding { offset: value.span().start, what });
        }
        (DeValue::Table(_) | DeValue::Array(_), Place::Field(key)) => {
            let why = format!("{path} takes a single value: {}", key.kind.allowed());
            findings.push(unknown(offset, &path, why, None));
        }
        (value_of_key, Place::Field(key)) => {
            let (text, form) = scalar(value_of_key);
            let what = Found::Field { path, key, text: Secret::new(text), form };
            findings.push(Finding { offset: value.span().start, what });
        }
        (_, Place::Names(_)) => {
            let why = format!("{path} holds one table for each name, such as [{path}.NAME]");
            findings.push(unknown(offset, &path, why, None));
        }
        (_, Place::Group | Place::Entry(_)) => {
            let why = format!("{path} is a table with the keys {}", section::names_below(&path).join(", "));
            findings.push(unknown(offset, &path, why, None));
        }
        (_, Place::Nothing) => match section::place(prefix) {
            Some(Place::Names(section)) => {
                findings.push(unknown(offset, &path, section.naming.rule().to_owned(), None));
            }
            _ => findings.push(stranger(offset, prefix, name.get_ref())),
        },
    }
}

/// The items of a list, one per line. A control character would pretend to be another item or worse.
fn lines(items: &DeArray<'_>) -> String {
    let plain = |text: String| text.replace(char::is_control, "\u{fffd}");
    items.iter().map(|item| plain(scalar(item.get_ref()).0)).collect::<Vec<_>>().join("\n")
}

/// A name that does not exist below `prefix`.
fn stranger(offset: usize, prefix: &str, name: &str) -> Finding {
    let mut siblings = key::names_below(prefix);
    siblings.extend(section::names_below(prefix));
    siblings.extend(alias::names_below(prefix));
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
    unknown(offset, &join(prefix, name), why, near.or_else(elsewhere))
}

fn unknown(offset: usize, name: &str, why: String, nearest: Option<String>) -> Finding {
    Finding { offset, what: Found::Unknown { name: excerpt(name), why, nearest } }
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
fn place(path: &Path, text: &str, mut findings: Vec<Finding>, layers: &mut Layers) {
    findings.sort_by_key(|finding| finding.offset);
    let mut cursor = Cursor::new(path, text);
    let mut aliased = Vec::new();
    for Finding { offset, what } in findings {
        let origin = cursor.at(offset);
        match what {
            Found::Value { key, text, form } => layers.give(Given { key, text, form, origin }),
            Found::Field { path, key, text, form } => {
                layers.give_field(path, Given { key, text, form, origin });
            }
            Found::Aliased { alias, text, form } => {
                aliased.push((alias, Given { key: alias.key(), text, form, origin }));
            }
            Found::Unknown { name, why, nearest } => {
                layers.problems.push(ConfigError::UnknownKey {
                    name,
                    origin: Box::new(origin),
                    why,
                    nearest,
                });
            }
        }
    }
    // Only now is it known what else the file says.
    for (alias, given) in aliased {
        match layers.values.get(alias.key().path).and_then(|known| alias.clash(&given, known)) {
            Some(problem) => layers.problems.push(problem),
            None => layers.give(given),
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
