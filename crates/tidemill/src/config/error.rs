//! What can be wrong with a configuration: what, where, why, and what to do.

use super::key::{Key, Kind};
use super::origin::Origin;
use std::io;
use std::path::Path;
use tidemill_domain::code::Code;

/// Most characters of somebody else's text in one of our messages.
const EXCERPT: usize = 60;

/// Why the configuration cannot be used: one problem, or several. The message says what and where;
/// [`why`](Self::why) and [`fix`](Self::fix) say the rest. Nothing in it, its `Debug` form included, is a secret.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ConfigError {
    code: Code,
    what: String,
    why: String,
    fix: String,
    /// Nothing for several problems, which have each their own.
    origin: Option<Box<Origin>>,
    /// What the system said, when it said something.
    source: Option<io::Error>,
    /// Each of several problems.
    problems: Vec<Self>,
}

impl ConfigError {
    /// The stable code; of several problems, that of the first.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Where it is wrong; nothing for several problems.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// Why it is wrong, in one line.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// What to do, in one line.
    pub fn fix(&self) -> &str {
        &self.fix
    }

    /// Every single problem, in the order of the places; a lone problem is a list of one.
    pub fn problems(&self) -> &[Self] {
        if self.problems.is_empty() { std::slice::from_ref(self) } else { &self.problems }
    }

    /// The error that stands for all of `problems`; nothing when there are none.
    pub(super) fn of(mut problems: Vec<Self>) -> Option<Self> {
        problems.sort_by(|a, b| a.origin().cmp(&b.origin()));
        if problems.len() < 2 {
            return problems.pop();
        }
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Some(Self {
            code: problems[0].code,
            what: format!("the configuration has {} problems", problems.len()),
            why: all.join("; "),
            fix: "correct each of them; `tidemill config check` lists them".to_owned(),
            origin: None,
            source: None,
            problems,
        })
    }

    fn new(
        code: Code,
        what: String,
        why: impl Into<String>,
        fix: impl Into<String>,
        origin: &Origin,
    ) -> Self {
        let origin = Some(Box::new(origin.clone()));
        Self { code, what, why: why.into(), fix: fix.into(), origin, source: None, problems: Vec::new() }
    }

    /// A name that does not exist, or a table, list or value where another of these belongs. `why` says what may stand
    /// there.
    pub(super) fn unknown_key(name: &str, origin: &Origin, why: String, nearest: Option<String>) -> Self {
        let name = excerpt(name);
        let (what, fix) = match origin {
            Origin::Env(_) => {
                (format!("unknown environment variable {}", name.escape_debug()), format!("unset {name}"))
            }
            _ => (format!("unknown key {name:?} ({origin})"), "correct it or take it out".to_owned()),
        };
        let fix = nearest.map_or(fix, |nearest| format!("did you mean {nearest}?"));
        Self::new(Code::UnknownKey, what, why, fix, origin)
    }

    /// A value that its key does not accept. `name` is the path of the key, or the name of the variable; there is no
    /// `value` when it is or may be secret.
    pub(super) fn bad_value(
        name: &str,
        origin: &Origin,
        value: Option<&str>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let what = match value {
            Some(value) => format!("{name} cannot be {:?} ({origin})", excerpt(value)),
            None => format!("{name} has a value that is not allowed ({origin})"),
        };
        Self::new(Code::BadValue, what, why, fix, origin)
    }

    /// A file that is not TOML. `why` says what was found or expected there.
    pub(super) fn bad_syntax(origin: &Origin, why: &str) -> Self {
        let fix = "correct the file at this place or shortly before it";
        Self::new(Code::BadSyntax, format!("not valid TOML ({origin})"), why, fix, origin)
    }

    /// A file that `origin` named, or that lies at its usual place, cannot be read.
    pub(super) fn file_unreadable(
        path: &Path,
        origin: &Origin,
        why: String,
        source: Option<io::Error>,
    ) -> Self {
        let what = format!("the file {} cannot be read", path.display());
        let fix = match origin {
            Origin::Default => "let this user read the file, or move it away".to_owned(),
            origin => format!("correct the path or the file's permissions ({origin})"),
        };
        Self { source, ..Self::new(Code::FileUnreadable, what, why, fix, origin) }
    }

    /// A secret that others can read.
    pub(super) fn open_secret(key: &Key, name: &str, origin: &Origin) -> Self {
        let what = format!("{name} holds a secret in the open ({origin})");
        let why = match origin {
            Origin::Flag(_) => "every user of the host can read the command line",
            _ => "everybody who can read the file, or a copy of it, can read the secret",
        };
        Self::new(Code::OpenSecret, what, why, hide(key, origin), origin)
    }
}

/// The beginning of a text that we did not write, for a message.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How to give the secret of `key` instead of by `origin`.
fn hide(key: &Key, origin: &Origin) -> String {
    let leaf = key.leaf();
    if key.is_of_section() && key.kind == Kind::Url {
        let out =
            "take the password out of the URL and write password = \"file:/path\" or \"env:NAME\" beside it";
        return format!("{out}, or refer to the whole URL in this way");
    }
    if key.is_of_section() {
        return format!("take it out and write {leaf} = \"file:/path\" or \"env:NAME\"");
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
    format!("{out} {name} or {name}_FILE, or write {leaf} = \"file:/path\" or \"env:NAME\" {reference}")
}
