//! Values as they were given, layer upon layer: what comes later covers what came before.

use super::error::ConfigError;
use super::key::{Key, Kind};
use super::origin::Origin;
use super::secret::{Secret, holds_password};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// In the environment, by a flag or as a default, where everything is text.
    Plain,
    /// In quotes in a TOML file.
    Quoted,
    /// Without quotes in a TOML file: a number, a truth value or a date.
    Bare,
    /// A list in a TOML file; its items are one per line.
    List,
}

/// A value that somebody gave and that nobody has checked. Any of them might be secret.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: &'static Key,
    pub(super) text: Secret,
    pub(super) form: Form,
    pub(super) origin: Origin,
}

/// A place that a file names instead of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reference<'a> {
    /// A file, seen from the folder of the file that names it.
    File(&'a str),
    Env(&'a str),
}

impl Given {
    /// The place that this value names instead of itself. Only files need that detour, and only for secrets.
    pub(super) fn reference(&self) -> Option<Reference<'_>> {
        if !self.key.may_be_secret() || self.form != Form::Quoted {
            return None;
        }
        let text = self.text.expose();
        let file = text.strip_prefix("file:").map(Reference::File);
        file.or_else(|| text.strip_prefix("env:").map(Reference::Env))
    }

    /// Whether this value is a secret where others can read it.
    fn is_open_secret(&self) -> bool {
        let is_exposed = matches!(self.origin, Origin::File { .. } | Origin::Flag(_));
        let is_secret = match self.key.kind {
            Kind::Secret => !self.text.expose().is_empty(),
            Kind::Url | Kind::WebhookUrl => holds_password(self.text.expose()),
            _ => false,
        };
        is_exposed && is_secret && self.reference().is_none()
    }
}

/// What all layers together gave.
#[derive(Default, Debug)]
pub(super) struct Layers {
    /// By whole path, those of the sections too.
    pub(super) values: BTreeMap<String, Given>,
    pub(super) files: Vec<PathBuf>,
    /// The environment variables that files name instead of secrets, also those of values that are covered.
    pub(super) secret_variables: BTreeSet<String>,
    pub(super) problems: Vec<ConfigError>,
}

impl Layers {
    /// Lays a value over the one that is there. A secret in the open is a problem even if a later value
    /// covers it: it stays readable.
    pub(super) fn give(&mut self, path: String, given: Given) {
        if let Some(Reference::Env(name)) = given.reference() {
            self.secret_variables.insert(name.to_owned());
        }
        if given.is_open_secret() {
            return self.problems.push(ConfigError::open_secret(given.key, &path, &given.origin));
        }
        // Of the two thresholds only one makes sense, so that of a stronger file covers the other of a weaker.
        let other = match path.rsplit_once('.') {
            Some((entry, "above")) => Some(format!("{entry}.below")),
            Some((entry, "below")) => Some(format!("{entry}.above")),
            _ => None,
        };
        if let Some(other) = other
            && self.values.get(&other).is_some_and(|known| !known.origin.is_same_file(&given.origin))
        {
            self.values.remove(&other);
        }
        self.values.insert(path, given);
    }
}
