//! What a key accepts, how its value is shown, and which Rust type reads it.

use super::choice;
use super::error::excerpt;
use super::layer::Form;
use super::secret::{Secret, mask, mask_all_but_host};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::alert::rule::{Aggregate, CHANNELS_MAX, Severity, is_name};
use tidemill_domain::duration::{self, BadDuration};
use tidemill_domain::nearest::nearest;

/// The longest URL or secret, in characters.
const SECRET_CHARS_MAX: usize = 8192;

/// The longest command, in words, and the longest word, in characters.
const WORDS_MAX: usize = 64;
const WORD_CHARS_MAX: usize = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A database URL. If it holds a password, it is treated as a secret.
    Url,
    /// The URL of a web server. Any part of it may be a secret.
    WebUrl,
    /// A text that is secret as a whole.
    Secret,
    /// Text of at most this many characters.
    Text(usize),
    /// A whole number from the first to the second.
    Number(u32, u32),
    /// A duration from the first to the second.
    Period(&'static str, &'static str),
    /// An IP address with a port.
    Address,
    /// The beginning of a URL's path.
    Path,
    /// A number, with a fraction or without.
    Decimal,
    Truth,
    Names,
    /// A program and its arguments.
    Command,
    Word(&'static [&'static str]),
}

/// The value in its only spelling. An error holds the fix, unless naming what is allowed says enough.
pub(super) type Checked = Result<String, Option<String>>;

impl Kind {
    /// What is accepted, as messages say it.
    pub fn allowed(self) -> String {
        let fixed = match self {
            Self::Text(longest) => {
                return format!("text of 1 to {longest} characters without control characters");
            }
            Self::Number(least, most) => return format!("a whole number from {least} to {most}"),
            Self::Period(least, most) => return format!("a duration from {least} to {most}"),
            Self::Word(words) => return format!("one of {}", words.join(", ")),
            Self::Url => "a database URL such as sqlite://tidemill.db or postgres://user@host/database",
            Self::WebUrl => "a URL such as https://host/path",
            Self::Secret => "a secret of one line",
            Self::Address => "an address with a port, such as 127.0.0.1:7790 or [::1]:7790",
            Self::Path => "a path such as /tidemill without a slash at its end",
            Self::Decimal => "a number such as 5 or 0.25",
            Self::Truth => "true or false",
            Self::Names => "a list of names such as [\"log\"]",
            Self::Command => "a list of a program and its arguments, such as [\"/opt/probe.sh\", \"ADW\"]",
        };
        fixed.to_owned()
    }

    /// Whether a value, or a part of it, must not be shown.
    pub(super) fn may_be_secret(self) -> bool {
        matches!(self, Self::Url | Self::WebUrl | Self::Secret)
    }

    /// A checked value without its secrets.
    pub(super) fn shown(self, value: &Secret) -> String {
        match self {
            Self::Url => mask(value.expose()),
            Self::WebUrl => mask_all_but_host(value.expose()),
            Self::Secret => value.to_string(),
            Self::Names | Self::Command => value.expose().replace('\n', ", "),
            _ => value.expose().to_owned(),
        }
    }

    /// Checks a value and rewrites it so that equal values are equal texts.
    pub(super) fn check(self, text: &str, form: Form) -> Checked {
        let is_truth = matches!(text, "true" | "false");
        match (self, form) {
            (Self::Url | Self::WebUrl | Self::Text(_), Form::Bare) => return fix("write it in quotes"),
            (Self::Number(..) | Self::Decimal, Form::Quoted) => {
                return fix("write the number without quotes");
            }
            (Self::Truth, Form::Quoted) if is_truth => return fix("write it without quotes"),
            (Self::Names | Self::Command, Form::Quoted | Form::Bare) => {
                return fix(format!("write {}", self.allowed()));
            }
            _ => {}
        }
        match self {
            Self::Url => check_url(text),
            Self::WebUrl => check_web_url(text),
            Self::Secret => check_secret(text),
            Self::Text(longest) => {
                let is_short = !text.is_empty() && text.chars().count() <= longest;
                accept_if(is_short && !text.chars().any(char::is_control), text)
            }
            Self::Number(least, most) => {
                let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse().ok().filter(|number| is_plain && (least..=most).contains(number));
                number.map(|number: u32| number.to_string()).ok_or(None)
            }
            Self::Period(least, most) => check_period(text, least, most),
            Self::Address => text.parse().map(|address: SocketAddr| address.to_string()).map_err(|_| None),
            Self::Path => accept_if(is_path(text), text),
            Self::Decimal => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                number.map(|number| number.to_string()).ok_or(None)
            }
            Self::Truth => accept_if(is_truth, text),
            Self::Names => {
                let names: Vec<&str> = text.lines().collect();
                let is_fine = names.len() <= CHANNELS_MAX && names.iter().all(|name| is_name(name));
                accept_if(is_fine, &names.join("\n"))
            }
            Self::Command => accept_if(is_command(text), text),
            Self::Word(words) if words.contains(&text) => Ok(text.to_owned()),
            Self::Word(words) => {
                Err(nearest(text, words.iter().copied()).map(|word| format!("did you mean {word}?")))
            }
        }
    }
}

fn fix(text: impl Into<String>) -> Checked {
    Err(Some(text.into()))
}

fn accept_if(is_fine: bool, text: &str) -> Checked {
    if is_fine { Ok(text.to_owned()) } else { Err(None) }
}

/// Refuses only what no database accepts. The store knows which databases exist.
fn check_url(text: &str) -> Checked {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return fix("remove the spaces and control characters from the URL");
    }
    check_secret(text)
}

/// Refuses only what is no URL. The sender decides whether the address may be used.
fn check_web_url(text: &str) -> Checked {
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = address.map(|address| address.split(['/', '?', '#']).next().unwrap_or_default());
    if !text.is_empty() && host.is_none_or(str::is_empty) {
        return fix("write it as https://host/path");
    }
    check_url(text)
}

fn check_secret(text: &str) -> Checked {
    match text.chars().count() {
        0 => fix("it is empty: set a value or remove the key"),
        _ if text.chars().any(char::is_control) => {
            fix("it has control characters or several lines: keep only the secret")
        }
        1..=SECRET_CHARS_MAX => Ok(text.to_owned()),
        _ => fix(format!("shorten it to {SECRET_CHARS_MAX} characters")),
    }
}

fn check_period(text: &str, least: &str, most: &str) -> Checked {
    let bound = |text| duration::parse(text).expect("the bounds of a key are durations");
    match duration::parse(text) {
        Ok(period) if period < bound(least) => fix(format!("make it at least {least}")),
        Ok(period) if period > bound(most) => fix(format!("make it at most {most}")),
        Ok(period) => Ok(duration::show(period)),
        Err(BadDuration::NoUnit) => {
            let number = excerpt(text);
            fix(format!("add the unit, for example \"{number}s\" or \"{number}ms\""))
        }
        Err(BadDuration::Malformed) => fix("write it as 500ms, 15s, 1h30m or 1d"),
    }
}

/// Empty for none; no slash at the end, and nothing that a URL would have to escape.
fn is_path(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let is_fine = text.starts_with('/') && !text.ends_with('/') && !text.contains("//");
    text.is_empty() || (is_fine && text.chars().all(is_plain) && text.len() <= 200)
}

/// A program and its arguments, one per line. Whether the program exists shows when it runs.
fn is_command(text: &str) -> bool {
    let is_whole = |word: &str| word.chars().count() <= WORD_CHARS_MAX && !word.contains('\u{fffd}');
    let has_program = !text.is_empty() && !text.starts_with('\n');
    has_program && text.split('\n').count() <= WORDS_MAX && text.split('\n').all(is_whole)
}

/// A type that a key can have. An `Option` of it may be unset.
pub(super) trait Setting: Sized {
    /// What the key accepts, unless its declaration says something else.
    const KIND: Kind;
    const IS_OPTIONAL: bool = false;

    fn parse(text: &str) -> Option<Self>;

    fn read(value: Option<Secret>) -> Option<Self> {
        Self::parse(value?.expose())
    }
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn parse(text: &str) -> Option<Self> {
        T::parse(text).map(Some)
    }

    fn read(value: Option<Secret>) -> Option<Self> {
        value.map_or(Some(None), |text| Self::parse(text.expose()))
    }
}

macro_rules! settings {
    ($($type:ty: $kind:expr, $parse:expr;)+) => {
        $(impl Setting for $type {
            const KIND: Kind = $kind;

            fn parse(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text)
            }
        })+
    };
    (words $($type:ty),+) => {
        settings! { $($type: Kind::Word(<$type>::NAMES), parsed;)+ }
    };
}

settings! {
    String: Kind::Text(4096), parsed;
    PathBuf: Kind::Text(4096), parsed;
    Vec<PathBuf>: Kind::Text(8192), folders;
    Vec<String>: Kind::Names, lines;
    Secret: Kind::Secret, |text| Some(Self::new(text));
    u32: Kind::Number(0, u32::MAX), parsed;
    f64: Kind::Decimal, parsed;
    bool: Kind::Truth, parsed;
    Duration: Kind::Period("0s", "3650d"), |text| duration::parse(text).ok();
    SocketAddr: Kind::Address, parsed;
    choice::KafkaMechanism: Kind::Word(&["plain", "scram-sha-256", "scram-sha-512"]), parsed;
    choice::Pooler: Kind::Word(&["auto", "none", "session", "transaction"]), pooler;
}
settings!(words choice::Auth, choice::ColorChoice, choice::Compression, choice::Events, choice::Init);
settings!(words choice::JwtAlgorithm, choice::KafkaSecurity, choice::LambdaSignature, choice::LogFormat);
settings!(words choice::LogLevel, choice::MailTls, choice::Output, choice::RenderCorrection, choice::RenderDialect);
settings!(words choice::SnsFormat, choice::Synchronous, choice::Tls, choice::Unknown, choice::WebhookFormat, Aggregate, Severity);

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn pooler(text: &str) -> Option<choice::Pooler> {
    Some(match text {
        "auto" => choice::Pooler::Auto,
        "none" | "session" => choice::Pooler::Session,
        "transaction" => choice::Pooler::Transaction,
        _ => return None,
    })
}

fn folders(text: &str) -> Option<Vec<PathBuf>> {
    let folders = text.split(';').map(str::trim).filter(|folder| !folder.is_empty());
    Some(folders.map(PathBuf::from).collect())
}

/// Names or words, one per line.
fn lines(text: &str) -> Option<Vec<String>> {
    Some(text.split('\n').filter(|_| !text.is_empty()).map(str::to_owned).collect())
}
