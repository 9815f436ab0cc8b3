//! What can be wrong with a configuration: what, where, why, and how to fix it.

use super::key::Key;
use super::kind::Kind;
use super::layer::Origin;
use super::sources::is_missing;
use std::io;
use std::path::Path;
use tidemill_domain::code::Code;

/// The most characters of a foreign text in a message.
const EXCERPT_CHARS_MAX: usize = 60;

/// Why the configuration cannot be used: one problem, or several. The message says what and where;
/// [`why`](Self::why) and [`fix`](Self::fix) say the rest. Nothing in it, its `Debug` form included, is a secret.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ConfigError {
    code: Code,
    what: String,
    why: String,
    fix: String,
    /// None for several problems: each has its own.
    origin: Option<Box<Origin>>,
    source: Option<io::Error>,
    /// Each of several problems.
    problems: Vec<Self>,
}

tidemill_domain::getters!(ConfigError {
    /// The stable code; of several problems, that of the first.
    code: Code,
    /// Why it is wrong, in one line.
    &why: str,
    /// What to do, in one line.
    &fix: str,
});

impl ConfigError {
    /// Where it is wrong; none for several problems.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// Every single problem, in the order of the places; a lone problem is a list of one.
    pub fn problems(&self) -> &[Self] {
        if self.problems.is_empty() { std::slice::from_ref(self) } else { &self.problems }
    }

    /// One error for all `problems`; none when there are none.
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

    /// A name that does not exist, or a table, list or value in place of another of these. `why` says what is allowed
    /// there.
    pub(super) fn unknown_key(name: &str, origin: &Origin, why: String, nearest: Option<String>) -> Self {
        let name = excerpt(name);
        let (what, fix) = match origin {
            Origin::Env(_) => {
                (format!("unknown environment variable {}", name.escape_debug()), format!("unset {name}"))
            }
            _ => (format!("unknown key {name:?} ({origin})"), "correct it or remove it".to_owned()),
        };
        let fix = nearest.map_or(fix, |nearest| format!("did you mean {nearest}?"));
        Self::new(Code::UnknownKey, what, why, fix, origin)
    }

    /// A value that its key does not accept. `name` is the path of the key, or the name of the variable. Leave out
    /// `value` if it is or may be secret.
    pub(super) fn bad_value(
        name: &str,
        origin: &Origin,
        value: Option<&str>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let what = match value {
            Some(value) => format!("{name} cannot be {:?} ({origin})", excerpt(value)),
            None => format!("{name} is not valid ({origin})"),
        };
        Self::new(Code::BadValue, what, why, fix, origin)
    }

    /// A file that is not TOML. `why` says what was found or expected there.
    pub(super) fn bad_syntax(origin: &Origin, why: &str) -> Self {
        let fix = "correct the file here or shortly before";
        Self::new(Code::BadSyntax, format!("not valid TOML ({origin})"), why, fix, origin)
    }

    /// A file that `origin` named, or one at a default path.
    pub(super) fn file_unreadable(path: &Path, origin: &Origin, error: io::Error) -> Self {
        let what = format!("the file {} cannot be read", path.display());
        let is_ours = error.get_ref().is_some();
        let why = match error.kind() {
            _ if is_ours => error.to_string(),
            _ if is_missing(&error) => "the file does not exist".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "this user may not read it or may not enter its folder".to_owned()
            }
            io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
            _ => "the operating system reported an error".to_owned(),
        };
        let fix = match origin {
            Origin::Default => "let this user read the file, or move it away".to_owned(),
            origin => format!("correct the path or the file's permissions ({origin})"),
        };
        let source = Some(error).filter(|_| !is_ours);
        Self { source, ..Self::new(Code::FileUnreadable, what, why, fix, origin) }
    }

    /// A secret that others can read.
    pub(super) fn open_secret(key: &Key, name: &str, origin: &Origin) -> Self {
        let what = format!("{name} contains a secret in plain text ({origin})");
        let why = match origin {
            Origin::Flag(_) => "every user of this host can read the command line",
            _ => "anyone who can read the file, or a copy of it, can read the secret",
        };
        Self::new(Code::OpenSecret, what, why, hide(key, origin), origin)
    }
}

/// The beginning of a foreign text, for a message.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How else to give the secret of `key`.
fn hide(key: &Key, origin: &Origin) -> String {
    let (leaf, name) = (key.leaf(), key.env_name());
    let references = "\"file:/path\" or \"env:NAME\"";
    let file = if matches!(origin, Origin::Flag(_)) { "a configuration file" } else { "the file" };
    let others = format!("{name} or {name}_FILE, or write {leaf} = {references} in {file}");
    // A URL is mostly not secret: it is enough to remove the password.
    match (key.kind, key.is_named()) {
        (Kind::Url, true) => format!(
            "remove the password from the URL and write password = {references} beside it, or refer to the whole URL \
             in this way"
        ),
        (_, true) => format!("remove it and write {leaf} = {references}"),
        (Kind::Url, false) => {
            format!("remove the password from the URL and set TIDEMILL_DATABASE_PASSWORD, or set {others}")
        }
        (_, false) => format!("remove it and set {others}"),
    }
}
