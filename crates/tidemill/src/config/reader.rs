//! Reading tables: each key checked, with its default below it.

use super::env;
use super::error::ConfigError;
use super::key::Table;
use super::layer::{Given, Origin, Reference};
use super::load::Value;
use super::secret::Secret;
use super::sources::{Sources, read_secret};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Reads tables from what all layers gave. Collects the problems, and the values as they are shown.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) given: &'a BTreeMap<String, Given>,
    pub(super) sources: &'a Sources,
    pub(super) problems: Vec<ConfigError>,
    pub(super) shown: Vec<Value>,
}

/// Defaults of one table in place of the declared ones, by the last part of their path.
pub(super) type Defaults = BTreeMap<&'static str, String>;

impl Reader<'_> {
    /// A table with a fixed path. After a problem, it has the default in place of the bad value.
    pub(super) fn table<T: Table>(&mut self) -> T {
        let (table, _) = self.read("", &Defaults::new());
        table.expect("a key with a fixed path is optional or has a default")
    }

    /// What `make` makes of each table of a type, in the order of their names.
    pub(super) fn named<T: Table, U>(
        &mut self,
        mut make: impl FnMut(&Entry, T) -> Result<U, ConfigError>,
    ) -> Vec<U> {
        let names = self.names::<T>();
        names.iter().filter_map(|name| self.named_one(name, &Defaults::new(), &mut make)).collect()
    }

    /// What `make` makes of the table with this name. It need not be in any file.
    pub(super) fn named_one<T: Table, U>(
        &mut self,
        name: &str,
        defaults: &Defaults,
        make: impl FnOnce(&Entry, T) -> Result<U, ConfigError>,
    ) -> Option<U> {
        let problems_before = self.problems.len();
        let (table, entry) = self.read(name, defaults);
        if self.problems.len() > problems_before {
            return None;
        }
        make(&entry, table?).map_err(|problem| self.problems.push(problem)).ok()
    }

    pub(super) fn names<T: Table>(&self) -> BTreeSet<String> {
        let below = |path: &str| Some(path.strip_prefix(section::<T>())?.split_once('.')?.0.to_owned());
        self.given.keys().filter_map(|path| below(path)).collect()
    }

    fn read<T: Table>(&mut self, name: &str, defaults: &Defaults) -> (Option<T>, Entry) {
        let (name, path) = (name.to_owned(), format!("{}{name}", section::<T>()));
        let mut entry = Entry { name, path, origins: BTreeMap::new() };
        let (mut values, mut missing) = (Vec::new(), Vec::new());
        for key in T::KEYS {
            let path = key.path.replace("NAME", &entry.name);
            let mut value = defaults.get(key.leaf()).map(String::as_str).or(key.default).map(Secret::new);
            let mut origin = Origin::Default;
            if let Some(given) = self.given.get(&path) {
                origin = given.origin.clone();
                match self.checked(given, &path) {
                    Ok(checked) => value = Some(checked),
                    Err(problem) => self.problems.push(problem),
                }
            } else if value.is_none() && !key.is_optional {
                missing.push(key);
            }
            if value.is_some() || !key.is_named() {
                let shown = value.as_ref().map_or_else(String::new, |value| key.kind.shown(value));
                self.shown.push(Value { key, path, shown, origin: origin.clone() });
            }
            entry.origins.insert(key.leaf(), origin);
            values.push(value);
        }
        self.problems.extend(missing.into_iter().map(|key| {
            let fix = format!("add {}: {}", key.leaf(), key.kind.allowed());
            entry.wrong(format!("{} is missing", key.leaf()), fix)
        }));
        (T::read(values.into_iter()), entry)
    }

    /// Checks the value of the key at `path`, after it is fetched from where it refers to.
    fn checked(&self, given: &Given, path: &str) -> Result<Secret, ConfigError> {
        let text = self.text(given, path)?;
        let kind = given.key.kind;
        kind.check(text.expose(), given.form).map(Secret::new).map_err(|fix| {
            let value = (!kind.may_be_secret()).then(|| text.expose());
            let fix = fix.unwrap_or_else(|| format!("set {path} to {}", kind.allowed()));
            ConfigError::bad_value(path, &given.origin, value, format!("allowed: {}", kind.allowed()), fix)
        })
    }

    fn text(&self, given: &Given, path: &str) -> Result<Secret, ConfigError> {
        let fetch = |path: &Path| {
            let unread = |error| ConfigError::file_unreadable(path, &given.origin, error);
            read_secret(path).map(Secret::new).map_err(unread)
        };
        match (given.reference(), &given.origin) {
            (Some(Reference::File(named)), Origin::File { path: by, .. }) => {
                fetch(&by.parent().unwrap_or(Path::new("")).join(named))
            }
            (Some(Reference::Env(name)), _) => match env::find(&self.sources.environment, name) {
                Some(text) => Ok(Secret::new(text)),
                None => Err(not_set(given, path, name)),
            },
            (_, Origin::EnvFile(_, file)) => fetch(file),
            _ => Ok(given.text.clone()),
        }
    }
}

/// What the paths of a type's keys begin with, up to the name of the table.
fn section<T: Table>() -> &'static str {
    T::KEYS[0].path.split_once("NAME").map_or("", |(section, _)| section)
}

fn not_set(given: &Given, path: &str, name: &str) -> ConfigError {
    // The user may have put "env:" before the secret itself, so only what looks like a name is repeated.
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let variable = if is_name && !name.is_empty() { name } else { "that it names" };
    let why = format!("the environment variable {variable} is not set, or is not UTF-8 text");
    let fix = "set the variable, or correct the name after \"env:\"";
    ConfigError::bad_value(path, &given.origin, None, why, fix)
}

/// A named table, for messages about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Its whole path, such as `alert.rules.slow`.
    pub(super) path: String,
    /// What set each key, by the last part of its path.
    origins: BTreeMap<&'static str, Origin>,
}

impl Entry {
    /// A problem of the whole table. Its place is that of the first key in a file.
    pub(super) fn wrong(&self, why: impl Into<String>, fix: impl Into<String>) -> ConfigError {
        let origins = self.origins.values().filter(|origin| **origin != Origin::Default);
        let first = origins.min().unwrap_or(&Origin::Default);
        ConfigError::bad_value(&self.path, first, None, why, fix)
    }

    /// A problem of one key. Leave out `value` if it may be secret.
    pub(super) fn wrong_key(&self, leaf: &str, value: Option<&str>, why: String, fix: String) -> ConfigError {
        ConfigError::bad_value(&format!("{}.{leaf}", self.path), self.origin_of(leaf), value, why, fix)
    }

    pub(super) fn origin_of(&self, leaf: &str) -> &Origin {
        self.origins.get(leaf).unwrap_or(&Origin::Default)
    }
}
