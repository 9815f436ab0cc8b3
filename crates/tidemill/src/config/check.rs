//! Whether a text is a value that its key accepts.

use super::duration::{self, BadDuration};
use super::error::excerpt;
use super::key::{Key, Kind};
use super::layer::Form;
use super::nearest::nearest;
use super::secret::Secret;
use super::url;
use std::time::Duration;

/// Most characters of a URL or of a secret.
const LONGEST_SECRET: usize = 8192;

/// A value that its key accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Checked {
    Secret(Secret),
    Text(String),
    Number(u32),
    Duration(Duration),
    Word(&'static str),
}

/// Why a value is not accepted.
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
        Kind::Word(words) => word(text, words).map(Checked::Word),
    };
    answer.map_err(|fix| Refusal {
        value: (!key.may_be_secret()).then(|| excerpt(text)),
        why: format!("allowed: {}", key.kind.allowed()),
        fix: fix.unwrap_or_else(|| format!("set {} to {}", key.path, key.kind.allowed())),
    })
}

/// A value as it may be shown.
pub(super) fn shown(key: &Key, value: &Checked) -> String {
    match value {
        Checked::Secret(secret) if key.kind == Kind::Url => url::mask(secret.expose()),
        Checked::Secret(secret) => secret.to_string(),
        Checked::Text(text) => text.clone(),
        Checked::Number(number) => number.to_string(),
        Checked::Duration(period) => duration::show(*period),
        Checked::Word(word) => (*word).to_owned(),
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

fn word(text: &str, words: &'static [&'static str]) -> Answer<&'static str> {
    match words.iter().find(|word| **word == text) {
        Some(word) => Ok(word),
        None => Err(nearest(text, words.iter().copied()).map(|word| format!("did you mean {word}?"))),
    }
}
