//! Who set a value, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from. The order is that of precedence, weakest first; within files it is by place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    Default,
    File {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// An environment variable, by name.
    Env(String),
    /// A file that an environment variable names: the variable, then the file.
    EnvFile(String, PathBuf),
    /// A flag of the command line, as it is written.
    Flag(&'static str),
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
        }
    }
}
