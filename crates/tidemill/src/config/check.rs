//! Whether a text is a value that its key accepts.

use super::choice;
use super::error::excerpt;
use super::key::{Key, Kind};
use super::layer::Form;
use super::secret::Secret;
use super::url;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_domain::alert::rule::{Aggregate, CHANNELS_MAX, Severity, is_name};
use tidemill_domain::duration::{self, BadDuration};
use tidemill_domain::nearest::nearest;

/// Most characters of a URL or of a secret.
const LONGEST_SECRET: usize = 8192;

/// Most words of a command, and most characters of each.
const WORDS_MAX: usize = 64;
const WORD_CHARS_MAX: usize = 1_000;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Checked {
    Secret(Secret),
    Text(String),
    Number(u32),
    Duration(Duration),
    Word(&'static str),
    Decimal(f64),
    Truth(bool),
    Names(Vec<String>),
    Address(SocketAddr),
}

/// The checked values by path. A key without a default may be missing; every other is there, of its key's kind.
pub(super) type Values = BTreeMap<&'static str, Checked>;

/// A type that a setting can have; nothing when the value is of another kind.
pub(super) trait Setting: Sized {
    fn of(value: &Checked) -> Option<Self>;
}

/// What a field of the settings is read from: a setting, or an `Option` of one that may be missing.
pub(super) trait Field: Sized {
    fn read(value: Option<&Checked>) -> Self;
}

impl<T: Setting> Field for T {
    fn read(value: Option<&Checked>) -> Self {
        value.and_then(T::of).expect("the key has a default, and its value was checked by its kind")
    }
}

impl<T: Setting> Field for Option<T> {
    fn read(value: Option<&Checked>) -> Self {
        value.and_then(T::of)
    }
}

macro_rules! setting_types {
    ($($type:ty: $pattern:pat => $setting:expr;)+) => {
        $(impl Setting for $type {
            fn of(value: &Checked) -> Option<Self> {
                match value {
                    $pattern => $setting,
                    _ => None,
                }
            }
        })+
    };
}

setting_types! {
    Secret: Checked::Secret(secret) => Some(secret.clone());
    String: Checked::Text(text) => Some(text.clone());
    PathBuf: Checked::Text(path) => Some(Self::from(path));
    // Folders that are separated by semicolons.
    Vec<PathBuf>: Checked::Text(folders) => {
        let folders = folders.split(';').map(str::trim).filter(|folder| !folder.is_empty());
        Some(folders.map(PathBuf::from).collect())
    };
    Vec<String>: Checked::Names(names) => Some(names.clone());
    u32: Checked::Number(number) => Some(*number);
    f64: Checked::Decimal(number) => Some(*number);
    bool: Checked::Truth(truth) => Some(*truth);
    Duration: Checked::Duration(period) => Some(*period);
    SocketAddr: Checked::Address(address) => Some(*address);
    Aggregate: Checked::Word(word) => word.parse().ok();
    Severity: Checked::Word(word) => word.parse().ok();
    choice::Auth: Checked::Word(word) => word.parse().ok();
    choice::ColorChoice: Checked::Word(word) => word.parse().ok();
    choice::Compression: Checked::Word(word) => word.parse().ok();
    choice::Events: Checked::Word(word) => word.parse().ok();
    choice::Init: Checked::Word(word) => word.parse().ok();
    choice::JwtAlgorithm: Checked::Word(word) => word.parse().ok();
    choice::KafkaMechanism: Checked::Word(word) => word.parse().ok();
    choice::KafkaSecurity: Checked::Word(word) => word.parse().ok();
    choice::LambdaSignature: Checked::Word(word) => word.parse().ok();
    choice::LogFormat: Checked::Word(word) => word.parse().ok();
    choice::LogLevel: Checked::Word(word) => word.parse().ok();
    choice::Output: Checked::Word(word) => word.parse().ok();
    choice::Pooler: Checked::Word(word) => word.parse().ok();
    choice::RenderDialect: Checked::Word(word) => word.parse().ok();
    choice::Synchronous: Checked::Word(word) => word.parse().ok();
    choice::Tls: Checked::Word(word) => word.parse().ok();
    choice::Unknown: Checked::Word(word) => word.parse().ok();
    choice::WebhookFormat: Checked::Word(word) => word.parse().ok();
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    /// The value; nothing when it may be secret.
    pub(super) value: Option<String>,
    pub(super) why: String,
    pub(super) fix: String,
}

/// The value that `text` means for `key`.
pub(super) fn check(key: &Key, text: &str, form: Form) -> Result<Checked, Refusal> {
    let answer = match key.kind {
        Kind::Url => url(text, form).map(Checked::Secret),
        Kind::Secret => secret(text).map(Checked::Secret),
        Kind::Text { longest } => line(text, form, longest).map(Checked::Text),
        Kind::Number { least, most } => number(text, form, least, most).map(Checked::Number),
        Kind::Duration { least, most } => period(text, least, most).map(Checked::Duration),
        Kind::Decimal => decimal(text, form).map(Checked::Decimal),
        Kind::Truth => truth(text, form).map(Checked::Truth),
        Kind::Names => names(text, form).map(Checked::Names),
        Kind::Command => command(text, form).map(Checked::Names),
        Kind::WebhookUrl => webhook_url(text, form).map(Checked::Secret),
        Kind::Word(words) => word(text, words).map(Checked::Word),
        Kind::Address => text.parse().map(Checked::Address).map_err(|_| None),
        Kind::Path => path(text).map(Checked::Text),
    };
    answer.map_err(|fix| Refusal {
        value: (!key.may_be_secret()).then(|| excerpt(text)),
        why: format!("allowed: {}", key.kind.allowed()),
        fix: fix.unwrap_or_else(|| format!("set {} to {}", key.path, key.kind.allowed())),
    })
}

/// The value that a key has when nobody sets it, if there is one.
pub(super) fn default(key: &Key) -> Option<Checked> {
    let checked = check(key, key.default?, Form::Plain);
    Some(checked.expect("the default of a key is allowed by its kind"))
}

pub(super) fn shown(key: &Key, value: &Checked) -> String {
    match value {
        Checked::Secret(secret) if key.kind == Kind::Url => url::mask(secret.expose()),
        Checked::Secret(secret) if key.kind == Kind::WebhookUrl => url::mask_all_but_host(secret.expose()),
        Checked::Secret(secret) => secret.to_string(),
        Checked::Text(text) => text.clone(),
        Checked::Number(number) => number.to_string(),
        Checked::Duration(period) => duration::show(*period),
        Checked::Word(word) => (*word).to_owned(),
        Checked::Decimal(number) => number.to_string(),
        Checked::Truth(truth) => truth.to_string(),
        Checked::Names(names) => names.join(", "),
        Checked::Address(address) => address.to_string(),
    }
}

/// A value, or the fix when there is a better one than to name what is allowed.
type Answer<T> = Result<T, Option<String>>;

/// Only what no database can mean. Which databases there are is the store's to know.
fn url(text: &str, form: Form) -> Answer<Secret> {
    if form == Form::Bare {
        return Err(Some("write it in quotes".to_owned()));
    }
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Some("take the spaces and control characters out of the URL".to_owned()));
    }
    secret(text)
}

fn secret(text: &str) -> Answer<Secret> {
    if text.is_empty() {
        return Err(Some("it is empty; give a value or take the key out".to_owned()));
    }
    if text.chars().any(char::is_control) {
        return Err(Some("it has control characters or more than one line; keep only the secret".to_owned()));
    }
    if text.chars().count() > LONGEST_SECRET {
        return Err(Some(format!("keep it to {LONGEST_SECRET} characters")));
    }
    Ok(Secret::new(text))
}

fn line(text: &str, form: Form, longest: usize) -> Answer<String> {
    if form == Form::Bare {
        return Err(Some("write it in quotes".to_owned()));
    }
    let is_fine = !text.is_empty() && text.chars().count() <= longest && !text.chars().any(char::is_control);
    if is_fine { Ok(text.to_owned()) } else { Err(None) }
}

/// Empty for none; no slash at the end, nothing that would have to be escaped.
fn path(text: &str) -> Answer<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let is_fine = text.is_empty()
        || (text.starts_with('/')
            && !text.ends_with('/')
            && !text.contains("//")
            && text.chars().all(is_plain));
    if is_fine && text.len() <= 200 { Ok(text.to_owned()) } else { Err(None) }
}

fn number(text: &str, form: Form, least: u32, most: u32) -> Answer<u32> {
    if form == Form::Quoted {
        return Err(Some("write the number without quotes".to_owned()));
    }
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_plain && (least..=most).contains(number));
    number.ok_or(None)
}

fn period(text: &str, least: Duration, most: Duration) -> Answer<Duration> {
    match duration::parse(text) {
        Ok(period) if period < least => Err(Some(format!("make it at least {}", duration::show(least)))),
        Ok(period) if period > most => Err(Some(format!("make it at most {}", duration::show(most)))),
        Ok(period) => Ok(period),
        Err(BadDuration::NoUnit) => {
            let number = excerpt(text);
            Err(Some(format!("add the unit, for example \"{number}s\" or \"{number}ms\"")))
        }
        Err(BadDuration::Malformed) => Err(Some("write it as 500ms, 15s, 1h30m or 1d".to_owned())),
    }
}

fn decimal(text: &str, form: Form) -> Answer<f64> {
    if form == Form::Quoted {
        return Err(Some("write the number without quotes".to_owned()));
    }
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(None)
}

fn truth(text: &str, form: Form) -> Answer<bool> {
    match (text, form) {
        ("true" | "false", Form::Quoted) => Err(Some("write it without quotes".to_owned())),
        ("true", _) => Ok(true),
        ("false", _) => Ok(false),
        _ => Err(None),
    }
}

/// Names, one per line, as [`Form::List`] has them. Which names there are is not known here.
fn names(text: &str, form: Form) -> Answer<Vec<String>> {
    if matches!(form, Form::Quoted | Form::Bare) {
        return Err(Some("write a list, such as [\"log\"]".to_owned()));
    }
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_fine = names.iter().all(|name| is_name(name)) && names.len() <= CHANNELS_MAX;
    if is_fine { Ok(names) } else { Err(None) }
}

/// A program and its arguments, one per line, as [`Form::List`] has them. Whether there is such a program is seen when it
/// is run.
fn command(text: &str, form: Form) -> Answer<Vec<String>> {
    if matches!(form, Form::Quoted | Form::Bare) {
        return Err(Some("write a list, such as [\"/opt/probe.sh\", \"ADW\"]".to_owned()));
    }
    let words: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let is_whole = |word: &String| word.chars().count() <= WORD_CHARS_MAX && !word.contains('\u{fffd}');
    let is_named = words.first().is_some_and(|program| !program.is_empty());
    if is_named && words.len() <= WORDS_MAX && words.iter().all(is_whole) { Ok(words) } else { Err(None) }
}

/// Only what no receiver can mean. Whether the address may be used is for those who send.
fn webhook_url(text: &str, form: Form) -> Answer<Secret> {
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = address.map(|address| address.split(['/', '?', '#']).next().unwrap_or_default());
    if !text.is_empty() && form != Form::Bare && host.is_none_or(str::is_empty) {
        return Err(Some("write it as https://host/path".to_owned()));
    }
    url(text, form)
}

fn word(text: &str, words: &'static [&'static str]) -> Answer<&'static str> {
    match words.iter().find(|word| **word == text) {
        Some(word) => Ok(word),
        None => Err(nearest(text, words.iter().copied()).map(|word| format!("did you mean {word}?"))),
    }
}
