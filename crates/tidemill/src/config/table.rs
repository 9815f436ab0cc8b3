//! Reading one named table of a section: its keys, checked, with their defaults below them.

use super::check::{self, Checked};
use super::error::ConfigError;
use super::layer::Given;
use super::load::{SectionValue, text_of};
use super::origin::Origin;
use super::secret::Secret;
use super::section::Section;
use super::sources::Sources;
use std::collections::BTreeMap;

/// The checked keys of one named table, by the last part of their path.
pub(super) type Entry = BTreeMap<&'static str, (Checked, Origin)>;

/// The names that somebody used in a section.
pub(super) fn names(section: &Section, given: &BTreeMap<String, Given>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for path in given.keys() {
        let below = path.strip_prefix(section.path).and_then(|rest| rest.strip_prefix('.'));
        if let Some((name, _)) = below.and_then(|rest| rest.split_once('.'))
            && names.last().is_none_or(|last| last != name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Lays what was given over `entry`, and both over the defaults of the keys; nothing when a value is not allowed.
pub(super) fn entry(
    section: &Section,
    name: &str,
    mut entry: Entry,
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> Option<Entry> {
    let mut is_sound = true;
    for key in section.fields {
        let path = format!("{}.{name}.{}", section.path, key.leaf());
        match (given.get(&path), key.default) {
            (Some(given), _) => match settle_field(given, &path, sources) {
                Ok(value) => {
                    // The other threshold of a shipped rule is covered too.
                    if matches!(key.leaf(), "above" | "below") {
                        entry.retain(|leaf, (_, origin)| {
                            !matches!(*leaf, "above" | "below") || *origin != Origin::Default
                        });
                    }
                    entry.insert(key.leaf(), (value, given.origin.clone()));
                }
                Err(problem) => {
                    problems.push(problem);
                    is_sound = false;
                }
            },
            (None, Some(default)) if !entry.contains_key(key.leaf()) => {
                let value = check::check(key, default, super::layer::Form::Plain);
                let value = value.expect("the default of a key is allowed by its kind");
                entry.insert(key.leaf(), (value, Origin::Default));
            }
            (None, _) => {}
        }
    }
    is_sound.then_some(entry)
}

fn settle_field(given: &Given, path: &str, sources: &Sources) -> Result<Checked, ConfigError> {
    let text = text_of(given, sources).map_err(|problem| at(problem, path))?;
    check::check(given.key, text.expose(), given.form).map_err(|refusal| ConfigError::BadValue {
        name: path.to_owned(),
        origin: Box::new(given.origin.clone()),
        value: refusal.value,
        why: refusal.why,
        fix: refusal.fix.replace(given.key.path, path),
    })
}

/// A problem that names the template of a key, with the whole path instead.
fn at(problem: ConfigError, path: &str) -> ConfigError {
    match problem {
        ConfigError::BadValue { origin, value, why, fix, .. } => {
            ConfigError::BadValue { name: path.to_owned(), origin, value, why, fix }
        }
        other => other,
    }
}

pub(super) fn shown(section: &Section, name: &str, entry: &Entry) -> Vec<SectionValue> {
    let fields = section.fields.iter();
    fields
        .filter_map(|key| entry.get(key.leaf()).map(|(value, origin)| (key, value, origin)))
        .map(|(key, value, origin)| SectionValue {
            path: format!("{}.{name}.{}", section.path, key.leaf()),
            shown: check::shown(key, value),
            origin: origin.clone(),
        })
        .collect()
}

/// Where the first key of a named table stands, for what is wrong with the table as a whole.
pub(super) fn first_origin(section: &Section, name: &str, given: &BTreeMap<String, Given>) -> Origin {
    let prefix = format!("{}.{name}.", section.path);
    let origins = given.iter().filter(|(path, _)| path.starts_with(&prefix)).map(|(_, given)| &given.origin);
    origins.min().cloned().unwrap_or(Origin::Default)
}

/// What is wrong with a table, or with one key of it.
pub(super) fn refuse(
    path: String,
    origin: &Origin,
    value: Option<&str>,
    why: String,
    fix: String,
) -> ConfigError {
    let value = value.map(super::error::excerpt);
    ConfigError::BadValue { name: path, origin: Box::new(origin.clone()), value, why, fix }
}

pub(super) fn word<T: std::str::FromStr>(entry: &Entry, leaf: &str) -> T {
    let word = match entry.get(leaf) {
        Some((Checked::Word(word), _)) => word.parse().ok(),
        _ => None,
    };
    word.expect("a word has a default and was checked against the names of its type")
}

pub(super) fn duration(entry: &Entry, leaf: &str) -> std::time::Duration {
    let duration = match entry.get(leaf) {
        Some((Checked::Duration(duration), _)) => Some(*duration),
        _ => None,
    };
    duration.expect("a duration has a default and was checked by its kind")
}

pub(super) fn truth(entry: &Entry, leaf: &str) -> bool {
    matches!(entry.get(leaf), Some((Checked::Truth(true), _)))
}

pub(super) fn list<'a>(entry: &'a Entry, leaf: &str) -> &'a [String] {
    match entry.get(leaf) {
        Some((Checked::Names(names), _)) => names,
        _ => &[],
    }
}

/// The secret of a key, if it was given.
pub(super) fn secret(entry: &Entry, leaf: &str) -> Option<Secret> {
    match entry.get(leaf) {
        Some((Checked::Secret(secret), _)) => Some(secret.clone()),
        _ => None,
    }
}

/// The text of a key, if it was given.
pub(super) fn text(entry: &Entry, leaf: &str) -> Option<String> {
    match entry.get(leaf) {
        Some((Checked::Text(text), _)) => Some(text.clone()),
        _ => None,
    }
}
