//! Values as they were given, and where: a later layer covers an earlier one.

use super::error::ConfigError;
use super::key::Key;
use super::kind::Kind;
use super::secret::{Secret, holds_password};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from. The order is that of precedence, weakest first; within files it is by place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    Default,
    /// Line and column count from 1, the column in characters.
    File {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    /// An environment variable, by name.
    Env(String),
    /// A file that an environment variable names: the variable, then the file.
    EnvFile(String, PathBuf),
    /// A flag of the command line, as it is written.
    Flag(&'static str),
    /// `tidemill demo`, which ignores all other origins.
    Demo,
}

impl Origin {
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        matches!((self, other), (Self::File { path: a, .. }, Self::File { path: b, .. }) if a == b)
    }
}

/// In the form that editors and terminals turn into a link: `tidemill.toml:3:7`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::EnvFile(name, path) => write!(f, "environment variable {name}: {}", path.display()),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Demo => f.write_str("set by demo"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// In the environment, by a flag or as a default, where everything is text.
    Plain,
    /// In quotes in a TOML file.
    Quoted,
    /// Without quotes in a TOML file: a number, a boolean or a date.
    Bare,
    /// A list in a TOML file; its items are one per line.
    List,
}

/// A value before it is checked. Any of them might be secret.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: &'static Key,
    pub(super) text: Secret,
    pub(super) form: Form,
    pub(super) origin: Origin,
}

/// Where a file says that a secret is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reference<'a> {
    /// Relative to the folder of the configuration file.
    File(&'a str),
    Env(&'a str),
}

impl Given {
    /// The reference that this value is. Only secrets in files can be references.
    pub(super) fn reference(&self) -> Option<Reference<'_>> {
        if !self.key.kind.may_be_secret() || self.form != Form::Quoted {
            return None;
        }
        let text = self.text.expose();
        let file = text.strip_prefix("file:").map(Reference::File);
        file.or_else(|| text.strip_prefix("env:").map(Reference::Env))
    }

    /// Whether this value is a secret in plain text, where others can read it.
    fn is_open_secret(&self) -> bool {
        let is_exposed = matches!(self.origin, Origin::File { .. } | Origin::Flag(_));
        let is_secret = match self.key.kind {
            Kind::Secret => !self.text.expose().is_empty(),
            Kind::Url | Kind::WebUrl => holds_password(self.text.expose()),
            _ => false,
        };
        is_exposed && is_secret && self.reference().is_none()
    }
}

/// What all layers together gave.
#[derive(Default, Debug)]
pub(super) struct Layers {
    /// By whole path, with the names of named tables.
    pub(super) values: BTreeMap<String, Given>,
    pub(super) files: Vec<PathBuf>,
    /// The environment variables that files refer to, also for values that are covered.
    pub(super) secret_variables: BTreeSet<String>,
    pub(super) problems: Vec<ConfigError>,
}

impl Layers {
    /// Covers the value that is there. A secret in plain text is a problem even if a later value covers it, because it
    /// stays readable.
    pub(super) fn give(&mut self, path: String, given: Given) {
        if let Some(Reference::Env(name)) = given.reference() {
            self.secret_variables.insert(name.to_owned());
        }
        if given.is_open_secret() {
            return self.problems.push(ConfigError::open_secret(given.key, &path, &given.origin));
        }
        // A rule has one threshold, so that of a stronger file covers the other one of a weaker file.
        let other = match path.rsplit_once('.') {
            Some((rule, "above")) => format!("{rule}.below"),
            Some((rule, "below")) => format!("{rule}.above"),
            _ => String::new(),
        };
        if self.values.get(&other).is_some_and(|known| !known.origin.is_same_file(&given.origin)) {
            self.values.remove(&other);
        }
        self.values.insert(path, given);
    }
}
