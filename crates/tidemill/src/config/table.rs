//! Reading the named tables of the sections: their keys, checked, with their defaults below them.

use super::check::{self, Field, Setting};
use super::error::ConfigError;
use super::layer::Given;
use super::load::{Value, settle};
use super::origin::Origin;
use super::secret::Secret;
use super::section::Section;
use super::sources::Sources;
use std::collections::BTreeMap;

/// The checked keys of a named table, by the last part of their path.
pub(super) type Fields = BTreeMap<&'static str, (Secret, Origin)>;

/// What files gave for all sections; collects how it is shown, and what is wrong.
#[derive(Debug)]
pub(super) struct Tables<'a> {
    pub(super) given: &'a BTreeMap<String, Given>,
    pub(super) sources: &'a Sources,
    pub(super) problems: &'a mut Vec<ConfigError>,
    pub(super) shown: Vec<Value>,
}

impl Tables<'_> {
    /// What `make` makes of each table of a section.
    pub(super) fn read<T>(
        &mut self,
        section: &'static Section,
        mut make: impl FnMut(&Entry) -> Result<T, ConfigError>,
    ) -> Vec<T> {
        let names = self.names(section);
        names.iter().filter_map(|name| self.read_one(section, name, Fields::new(), &mut make)).collect()
    }

    /// What `make` makes of one table, which is laid over `base`.
    pub(super) fn read_one<T>(
        &mut self,
        section: &'static Section,
        name: &str,
        base: Fields,
        make: impl FnOnce(&Entry) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let entry = self.entry(section, name, base)?;
        match make(&entry) {
            Ok(made) => {
                self.shown.extend(entry.shown());
                Some(made)
            }
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    /// The names that somebody used in a section.
    pub(super) fn names(&self, section: &Section) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for path in self.given.keys() {
            let below = path.strip_prefix(section.path).and_then(|rest| rest.strip_prefix('.'));
            names.extend(below.and_then(|rest| rest.split_once('.')).map(|(name, _)| name.to_owned()));
        }
        names.sort();
        names.dedup();
        names
    }

    /// Lays what was given over `fields`, and both over the defaults of the keys; nothing when a value is not allowed.
    fn entry(&mut self, section: &'static Section, name: &str, mut fields: Fields) -> Option<Entry> {
        let path = format!("{}.{name}", section.path);
        let mut is_sound = true;
        for key in section.fields {
            let leaf = key.leaf();
            let path = format!("{path}.{leaf}");
            match self.given.get(&path) {
                Some(given) => match settle(given, &path, self.sources) {
                    Ok(value) => {
                        // The other threshold of a shipped rule is covered too.
                        if matches!(leaf, "above" | "below") {
                            fields.retain(|leaf, (_, origin)| {
                                !matches!(*leaf, "above" | "below") || *origin != Origin::Default
                            });
                        }
                        fields.insert(leaf, (value, given.origin.clone()));
                    }
                    Err(problem) => {
                        self.problems.push(problem);
                        is_sound = false;
                    }
                },
                None if fields.contains_key(leaf) => {}
                None => fields.extend(check::default(key).map(|value| (leaf, (value, Origin::Default)))),
            }
        }
        is_sound.then(|| Entry { name: name.to_owned(), path, section, fields })
    }
}

/// One named table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) path: String,
    section: &'static Section,
    pub(super) fields: Fields,
}

impl Entry {
    /// The value of a key.
    pub(super) fn get<T: Field>(&self, leaf: &str) -> T {
        T::read(self.fields.get(leaf).map(|(value, _)| value))
    }

    /// The value of a key that must be there.
    pub(super) fn require<T: Setting>(&self, leaf: &str, why: &str, fix: &str) -> Result<T, ConfigError> {
        self.get::<Option<T>>(leaf).ok_or_else(|| self.refuse(why, fix))
    }

    /// Who set a key.
    pub(super) fn origin_of(&self, leaf: &str) -> &Origin {
        self.fields.get(leaf).map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// The place of the first key that somebody wrote.
    fn first_origin(&self) -> &Origin {
        let origins = self.fields.values().map(|(_, origin)| origin);
        origins.filter(|origin| **origin != Origin::Default).min().unwrap_or(&Origin::Default)
    }

    /// What is wrong with the table as a whole.
    pub(super) fn refuse(&self, why: impl Into<String>, fix: impl Into<String>) -> ConfigError {
        ConfigError::bad_value(&self.path, self.first_origin(), None, why, fix)
    }

    /// What is wrong with a key whose value is not shown.
    pub(super) fn refuse_hidden(&self, leaf: &str, why: impl Into<String>, fix: &str) -> ConfigError {
        ConfigError::bad_value(&format!("{}.{leaf}", self.path), self.first_origin(), None, why, fix)
    }

    fn shown(&self) -> impl Iterator<Item = Value> {
        self.section.fields.iter().filter_map(|key| {
            let (value, origin) = self.fields.get(key.leaf())?;
            let path = format!("{}.{}", self.path, key.leaf());
            Some(Value { key, path, shown: check::shown(key.kind, value), origin: origin.clone() })
        })
    }
}
