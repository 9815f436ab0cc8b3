//! What can be wrong with a configuration: what, where, why, and what to do.

use super::key::{Key, Kind};
use super::origin::Origin;
use super::section;
use std::io;
use std::path::PathBuf;
use tidemill_domain::code::Code;

/// Most characters of somebody else's text in one of our messages.
const EXCERPT: usize = 60;

/// Why the configuration cannot be used. The message says what and where; [`why`](Self::why) and
/// [`fix`](Self::fix) say the rest. Nothing in it, its `Debug` form included, is a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name that does not exist, or a table, list or value where another of these belongs.
    #[error("{}", unknown(.name, .origin))]
    UnknownKey {
        /// The name as it is written, shortened when it is long.
        name: String,
        origin: Box<Origin>,
        /// What is wrong with it, and what may stand there.
        why: String,
        nearest: Option<String>,
    },
    /// A value that its key does not accept.
    #[error("{}", refused(.name, .value.as_deref(), .origin))]
    BadValue {
        /// The path of the key, or the name of the variable.
        name: String,
        origin: Box<Origin>,
        /// The value, shortened when it is long; nothing when it is or may be secret.
        value: Option<String>,
        why: String,
        fix: String,
    },
    /// A file that is not TOML.
    #[error("not valid TOML ({origin})")]
    BadSyntax {
        origin: Box<Origin>,
        /// What was found or expected there.
        why: String,
    },
    /// A file that somebody named, or that lies at its usual place, cannot be read.
    #[error("the file {} cannot be read", .path.display())]
    FileUnreadable {
        path: PathBuf,
        origin: Box<Origin>,
        /// What is in the way.
        why: String,
        /// What the system said, when it said something.
        #[source]
        source: Option<io::Error>,
    },
    /// A secret that others can read.
    #[error("{name} holds a secret in the open ({origin})")]
    OpenSecret { key: &'static Key, name: String, origin: Box<Origin> },
    /// More than one of the above.
    #[error("the configuration has {} problems", .0.len())]
    Several(Vec<Self>),
}

impl ConfigError {
    /// The stable code; of several problems, that of the first.
    pub fn code(&self) -> Code {
        match self {
            Self::UnknownKey { .. } => Code::UnknownKey,
            Self::BadValue { .. } => Code::BadValue,
            Self::BadSyntax { .. } => Code::BadSyntax,
            Self::FileUnreadable { .. } => Code::FileUnreadable,
            Self::OpenSecret { .. } => Code::OpenSecret,
            Self::Several(problems) => problems.first().map_or(Code::BadValue, Self::code),
        }
    }

    /// Where it is wrong; nothing for several problems, which have each their own.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::UnknownKey { origin, .. }
            | Self::BadValue { origin, .. }
            | Self::BadSyntax { origin, .. }
            | Self::FileUnreadable { origin, .. }
            | Self::OpenSecret { origin, .. } => Some(origin),
            Self::Several(_) => None,
        }
    }

    /// Why it is wrong, in one line.
    pub fn why(&self) -> String {
        match self {
            Self::UnknownKey { why, .. }
            | Self::BadValue { why, .. }
            | Self::BadSyntax { why, .. }
            | Self::FileUnreadable { why, .. } => why.clone(),
            Self::OpenSecret { origin, .. } => match origin.as_ref() {
                Origin::Flag(_) => "every user of the host can read the command line".to_owned(),
                _ => "everybody who can read the file, or a copy of it, can read the secret".to_owned(),
            },
            Self::Several(problems) => {
                problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// What to do, in one line.
    pub fn fix(&self) -> String {
        match self {
            Self::UnknownKey { nearest: Some(nearest), .. } => format!("did you mean {nearest}?"),
            Self::UnknownKey { origin, .. } => match origin.as_ref() {
                Origin::Env(name) => format!("unset {name}"),
                _ => "correct it or take it out".to_owned(),
            },
            Self::BadValue { fix, .. } => fix.clone(),
            Self::BadSyntax { .. } => "correct the file at this place or shortly before it".to_owned(),
            Self::FileUnreadable { origin, .. } => match origin.as_ref() {
                Origin::Default => "let this user read the file, or move it away".to_owned(),
                origin => format!("correct the path or the file's permissions ({origin})"),
            },
            Self::OpenSecret { key, origin, .. } => hide(key, origin),
            Self::Several(_) => "correct each of them; `tidemill config check` lists them".to_owned(),
        }
    }

    /// Every single problem, in the order of the places; a lone problem is a list of one.
    pub fn problems(&self) -> &[Self] {
        match self {
            Self::Several(problems) => problems,
            one => std::slice::from_ref(one),
        }
    }

    /// The error that stands for all of `problems`; nothing when there are none.
    pub(super) fn of(mut problems: Vec<Self>) -> Option<Self> {
        problems.sort_by(|a, b| a.origin().cmp(&b.origin()));
        match problems.len() {
            0 | 1 => problems.pop(),
            _ => Some(Self::Several(problems)),
        }
    }
}

/// The beginning of a text that we did not write, for a message.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn unknown(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::Env(_) => format!("unknown environment variable {}", name.escape_debug()),
        _ => format!("unknown key {name:?} ({origin})"),
    }
}

fn refused(name: &str, value: Option<&str>, origin: &Origin) -> String {
    match value {
        Some(value) => format!("{name} cannot be {value:?} ({origin})"),
        None => format!("{name} has a value that is not allowed ({origin})"),
    }
}

/// How to give the secret of `key` instead of by `origin`.
fn hide(key: &Key, origin: &Origin) -> String {
    if section::is_template(key) && key.kind == Kind::Url {
        let out =
            "take the password out of the URL and write password = \"file:/path\" or \"env:NAME\" beside it";
        return format!("{out}, or refer to the whole URL in this way");
    }
    if section::is_template(key) {
        return format!("take it out and write {} = \"file:/path\" or \"env:NAME\"", key.leaf());
    }
    let name = key.env_name();
    // A URL is mostly not secret: it is enough to take the password out.
    let out = match key.kind {
        Kind::Url => "take the password out of the URL and set TIDEMILL_DATABASE_PASSWORD, or set",
        _ => "take it out and set",
    };
    let reference = match origin {
        Origin::Flag(_) => "in a configuration file",
        _ => "in the file",
    };
    let leaf = key.path.rsplit('.').next().unwrap_or(key.path);
    format!("{out} {name} or {name}_FILE, or write {leaf} = \"file:/path\" or \"env:NAME\" {reference}")
}
