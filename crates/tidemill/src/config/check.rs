//! Whether a text is a value that its key accepts, and what a field of the settings makes of it.

use super::choice;
use super::error::excerpt;
use super::key::{Key, Kind};
use super::layer::Form;
use super::secret::{Secret, mask, mask_all_but_host};
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

/// The checked values by path, as [`check`] returns them. A key without a default may be missing.
pub(super) type Values = BTreeMap<&'static str, Secret>;

/// A type that a setting can have, read from a text that was checked.
pub(super) trait Setting: Sized {
    fn of(text: &str) -> Option<Self>;
}

/// What a field of the settings is read from: a setting, or an `Option` of one that may be missing.
pub(super) trait Field: Sized {
    fn read(value: Option<&Secret>) -> Self;
}

impl<T: Setting> Field for T {
    fn read(value: Option<&Secret>) -> Self {
        let value = value.and_then(|text| T::of(text.expose()));
        value.expect("the key has a default, and its value was checked by its kind")
    }
}

impl<T: Setting> Field for Option<T> {
    fn read(value: Option<&Secret>) -> Self {
        value.and_then(|text| T::of(text.expose()))
    }
}

macro_rules! parsed_settings {
    ($($type:ty),+ $(,)?) => {
        $(impl Setting for $type {
            fn of(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })+
    };
}

parsed_settings!(String, PathBuf, u32, f64, bool, SocketAddr, Aggregate, Severity);
parsed_settings!(choice::Auth, choice::ColorChoice, choice::Compression, choice::Events, choice::Init);
parsed_settings!(choice::JwtAlgorithm, choice::KafkaMechanism, choice::KafkaSecurity);
parsed_settings!(choice::LambdaSignature, choice::LogFormat, choice::LogLevel, choice::Output);
parsed_settings!(choice::Pooler, choice::RenderDialect, choice::Synchronous, choice::Tls);
parsed_settings!(choice::Unknown, choice::WebhookFormat);

impl Setting for Secret {
    fn of(text: &str) -> Option<Self> {
        Some(Self::new(text))
    }
}

impl Setting for Duration {
    fn of(text: &str) -> Option<Self> {
        duration::parse(text).ok()
    }
}

/// Folders that are separated by semicolons.
impl Setting for Vec<PathBuf> {
    fn of(text: &str) -> Option<Self> {
        let folders = text.split(';').map(str::trim).filter(|folder| !folder.is_empty());
        Some(folders.map(PathBuf::from).collect())
    }
}

/// Names or words, one per line.
impl Setting for Vec<String> {
    fn of(text: &str) -> Option<Self> {
        let words = text.split('\n').filter(|_| !text.is_empty());
        Some(words.map(str::to_owned).collect())
    }
}

/// The value that a key has when nobody sets it, if there is one.
pub(super) fn default(key: &Key) -> Option<Secret> {
    let checked = check(key.kind, key.default?, Form::Plain);
    Some(Secret::new(checked.expect("the default of a key is allowed by its kind")))
}

/// A checked value as it may be shown.
pub(super) fn shown(kind: Kind, value: &Secret) -> String {
    match kind {
        Kind::Url => mask(value.expose()),
        Kind::WebhookUrl => mask_all_but_host(value.expose()),
        Kind::Secret => value.to_string(),
        Kind::Names | Kind::Command => value.expose().replace('\n', ", "),
        _ => value.expose().to_owned(),
    }
}

/// A value, or the fix when there is a better one than to name what is allowed.
pub(super) type Answer = Result<String, Option<String>>;

/// The value that `text` means; the same value is always the same text.
pub(super) fn check(kind: Kind, text: &str, form: Form) -> Answer {
    if let Some(fix) = wrong_form(kind, text, form) {
        return Err(Some(fix.to_owned()));
    }
    match kind {
        Kind::Url => url(text),
        Kind::Secret => secret(text),
        Kind::Text { longest } => {
            let is_short = !text.is_empty() && text.chars().count() <= longest;
            only_if(is_short && !text.chars().any(char::is_control), text)
        }
        Kind::Number { least, most } => {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|number| is_plain && (least..=most).contains(number));
            number.map(|number| number.to_string()).ok_or(None)
        }
        Kind::Duration { least, most } => period(text, least, most),
        Kind::Decimal => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(|number| number.to_string()).ok_or(None)
        }
        Kind::Truth => only_if(matches!(text, "true" | "false"), text),
        Kind::Names => {
            // Which names there are is not known here.
            let names: Vec<&str> = text.lines().collect();
            let is_fine = names.iter().all(|name| is_name(name)) && names.len() <= CHANNELS_MAX;
            only_if(is_fine, &names.join("\n"))
        }
        Kind::Command => only_if(is_command(text), text),
        Kind::WebhookUrl => webhook_url(text),
        Kind::Word(words) => match words.iter().find(|word| **word == text) {
            Some(word) => Ok((*word).to_owned()),
            None => Err(nearest(text, words.iter().copied()).map(|word| format!("did you mean {word}?"))),
        },
        Kind::Address => text.parse().map(|address: SocketAddr| address.to_string()).map_err(|_| None),
        Kind::Path => only_if(is_path(text), text),
    }
}

fn only_if(is_fine: bool, text: &str) -> Answer {
    if is_fine { Ok(text.to_owned()) } else { Err(None) }
}

/// How to write what stands in a TOML file in a form that its kind does not have.
fn wrong_form(kind: Kind, text: &str, form: Form) -> Option<&'static str> {
    match (kind, form) {
        (Kind::Url | Kind::WebhookUrl | Kind::Text { .. }, Form::Bare) => Some("write it in quotes"),
        (Kind::Number { .. } | Kind::Decimal, Form::Quoted) => Some("write the number without quotes"),
        (Kind::Truth, Form::Quoted) if matches!(text, "true" | "false") => Some("write it without quotes"),
        (Kind::Names, Form::Quoted | Form::Bare) => Some("write a list, such as [\"log\"]"),
        (Kind::Command, Form::Quoted | Form::Bare) => {
            Some("write a list, such as [\"/opt/probe.sh\", \"ADW\"]")
        }
        _ => None,
    }
}

/// Only what no database can mean. Which databases there are is the store's to know.
fn url(text: &str) -> Answer {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Some("take the spaces and control characters out of the URL".to_owned()));
    }
    secret(text)
}

/// Only what no receiver can mean. Whether the address may be used is for those who send.
fn webhook_url(text: &str) -> Answer {
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = address.map(|address| address.split(['/', '?', '#']).next().unwrap_or_default());
    if !text.is_empty() && host.is_none_or(str::is_empty) {
        return Err(Some("write it as https://host/path".to_owned()));
    }
    url(text)
}

fn secret(text: &str) -> Answer {
    if text.is_empty() {
        return Err(Some("it is empty; give a value or take the key out".to_owned()));
    }
    if text.chars().any(char::is_control) {
        return Err(Some("it has control characters or more than one line; keep only the secret".to_owned()));
    }
    if text.chars().count() > LONGEST_SECRET {
        return Err(Some(format!("keep it to {LONGEST_SECRET} characters")));
    }
    Ok(text.to_owned())
}

/// Empty for none; no slash at the end, nothing that would have to be escaped.
fn is_path(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let is_fine = text.starts_with('/') && !text.ends_with('/') && !text.contains("//");
    text.is_empty() || (is_fine && text.chars().all(is_plain) && text.len() <= 200)
}

fn period(text: &str, least: Duration, most: Duration) -> Answer {
    let fix = match duration::parse(text) {
        Ok(period) if period < least => format!("make it at least {}", duration::show(least)),
        Ok(period) if period > most => format!("make it at most {}", duration::show(most)),
        Ok(period) => return Ok(duration::show(period)),
        Err(BadDuration::NoUnit) => {
            let number = excerpt(text);
            format!("add the unit, for example \"{number}s\" or \"{number}ms\"")
        }
        Err(BadDuration::Malformed) => "write it as 500ms, 15s, 1h30m or 1d".to_owned(),
    };
    Err(Some(fix))
}

/// A program and its arguments, one per line. Whether there is such a program is seen when it is run.
fn is_command(text: &str) -> bool {
    let is_whole = |word: &str| word.chars().count() <= WORD_CHARS_MAX && !word.contains('\u{fffd}');
    let has_program = !text.is_empty() && !text.starts_with('\n');
    has_program && text.split('\n').count() <= WORDS_MAX && text.split('\n').all(is_whole)
}
