//! The alert sections: rules, which begin with the shipped ones, and webhooks.

use super::check::Checked;
use super::choice::WebhookFormat;
use super::error::ConfigError;
use super::layer::Given;
use super::load::SectionValue;
use super::origin::Origin;
use super::secret::Secret;
use super::section::{RULES, WEBHOOKS};
use super::sources::Sources;
use super::table::{Entry, duration, entry, first_origin, list, names, refuse, secret, shown, truth, word};
use std::collections::BTreeMap;
use tidemill_domain::alert::{Condition, Rule, RuleFields};
use tidemill_domain::nearest::nearest;
use tidemill_engine::alert::{channel, default_rules, signal};

/// What alerts are watched for and who is told.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Alert {
    /// The rules: the shipped ones, as far as they were not changed, then the others by name.
    pub rules: Vec<RuleSettings>,
    pub webhooks: Vec<WebhookSettings>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RuleSettings {
    pub rule: Rule,
    pub is_enabled: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookSettings {
    /// Its name, by which rules refer to it.
    pub name: String,
    /// Where notices are posted to. Hidden as a whole, because any part of it may be a secret.
    pub url: Secret,
    /// The secret by which notices are signed.
    pub secret: Option<Secret>,
    /// Whether it may lie at a private or local address.
    pub allow_private: bool,
    /// In which form notices are posted.
    pub format: WebhookFormat,
}

/// The settings, and each value as it is shown; what is wrong is added to `problems`.
pub(super) fn settle(
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> (Alert, Vec<SectionValue>) {
    let (mut alert, mut values) = (Alert::default(), Vec::new());
    let shipped = default_rules();
    let webhooks = names(&WEBHOOKS, given);
    let mut rules: Vec<String> = shipped.iter().map(|rule| rule.name().to_owned()).collect();
    rules.extend(
        names(&RULES, given).into_iter().filter(|name| shipped.iter().all(|rule| rule.name() != name)),
    );
    for name in &rules {
        let base = shipped.iter().find(|rule| rule.name() == name).map(defaults).unwrap_or_default();
        let Some(entry) = entry(&RULES, name, base, given, sources, problems) else { continue };
        match rule(name, &entry, &webhooks) {
            Ok(rule) => {
                values.extend(shown(&RULES, name, &entry));
                alert.rules.push(rule);
            }
            Err(problem) => problems.push(problem),
        }
    }
    for name in &webhooks {
        let Some(entry) = entry(&WEBHOOKS, name, Entry::new(), given, sources, problems) else { continue };
        match webhook(name, &entry, first_origin(&WEBHOOKS, name, given)) {
            Ok(webhook) => {
                values.extend(shown(&WEBHOOKS, name, &entry));
                alert.webhooks.push(webhook);
            }
            Err(problem) => problems.push(problem),
        }
    }
    (alert, values)
}

/// A shipped rule as if somebody had written it.
fn defaults(rule: &Rule) -> Entry {
    let condition = rule.condition();
    let values = [
        ("signal", Checked::Text(rule.signal().to_owned())),
        (condition.as_str(), Checked::Decimal(condition.threshold())),
        ("aggregate", Checked::Word(rule.aggregate().as_str())),
        ("window", Checked::Duration(rule.window())),
        ("for", Checked::Duration(rule.hold())),
        ("severity", Checked::Word(rule.severity().as_str())),
        ("channels", Checked::Names(rule.channels().to_vec())),
    ];
    values.into_iter().map(|(leaf, value)| (leaf, (value, Origin::Default))).collect()
}

fn rule(name: &str, entry: &Entry, webhooks: &[String]) -> Result<RuleSettings, ConfigError> {
    let path = format!("{}.{name}", RULES.path);
    let of_table = |why: &str, fix: String| {
        let origin =
            entry.values().map(|(_, origin)| origin).filter(|origin| **origin != Origin::Default).min();
        refuse(path.clone(), origin.unwrap_or(&Origin::Default), None, why.to_owned(), fix)
    };
    let all = signal::names().collect::<Vec<_>>().join(", ");
    let Some((Checked::Text(signal), signal_origin)) = entry.get("signal") else {
        let shipped = default_rules();
        let near = nearest(name, shipped.iter().map(Rule::name));
        let fix = near.map(|near| format!("did you mean {}.{near}?", RULES.path));
        let fix = fix.unwrap_or_else(|| format!("add signal with one of {all}"));
        return Err(of_table("a rule watches a signal, and this one names none", fix));
    };
    if signal::names().all(|known| known != signal.as_str()) {
        let fix = match nearest(signal, signal::names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("set {path}.signal to one of {all}"),
        };
        let why = format!("allowed: one of {all}");
        return Err(refuse(format!("{path}.signal"), signal_origin, Some(signal), why, fix));
    }
    let condition = match (entry.get("above"), entry.get("below")) {
        (Some((Checked::Decimal(above), _)), None) => Condition::Above(*above),
        (None, Some((Checked::Decimal(below), _))) => Condition::Below(*below),
        (Some(_), Some((_, origin))) => {
            let why = "a rule has one threshold, and this one has both above and below".to_owned();
            return Err(refuse(path, origin, None, why, "take one of them out".to_owned()));
        }
        _ => {
            return Err(of_table(
                "a rule has a threshold, and this one has none",
                "add above = 1 or below = 1".to_owned(),
            ));
        }
    };
    check_channels(&path, entry, webhooks)?;
    let fields = RuleFields {
        name: name.to_owned(),
        signal: signal.clone(),
        condition,
        aggregate: word(entry, "aggregate"),
        window: duration(entry, "window"),
        hold: duration(entry, "for"),
        severity: word(entry, "severity"),
        channels: list(entry, "channels").to_vec(),
    };
    match Rule::new(fields) {
        Ok(rule) => Ok(RuleSettings { rule, is_enabled: truth(entry, "enabled") }),
        Err(bad) => Err(of_table(&bad.to_string(), "correct the rule".to_owned())),
    }
}

fn check_channels(path: &str, entry: &Entry, webhooks: &[String]) -> Result<(), ConfigError> {
    let known = || std::iter::once(channel::LOG).chain(webhooks.iter().map(String::as_str));
    for name in list(entry, "channels") {
        if known().all(|known| known != name) {
            let origin = entry.get("channels").map_or(&Origin::Default, |(_, origin)| origin);
            let fix = match nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("add a table [{}.{name}] with its url, or take the name out", WEBHOOKS.path),
            };
            let why = format!("the channels are {}", known().collect::<Vec<_>>().join(", "));
            return Err(refuse(format!("{path}.channels"), origin, Some(name), why, fix));
        }
    }
    Ok(())
}

fn webhook(name: &str, entry: &Entry, origin: Origin) -> Result<WebhookSettings, ConfigError> {
    let path = format!("{}.{name}", WEBHOOKS.path);
    if name == channel::LOG {
        let why = "log is the channel that writes to the log of the process".to_owned();
        return Err(refuse(path, &origin, None, why, "choose another name".to_owned()));
    }
    let Some(url) = secret(entry, "url") else {
        let why = "a webhook has a URL, and this one has none".to_owned();
        return Err(refuse(path, &origin, None, why, "add url = \"https://host/path\"".to_owned()));
    };
    Ok(WebhookSettings {
        name: name.to_owned(),
        url,
        secret: secret(entry, "secret"),
        allow_private: truth(entry, "allow_private"),
        format: word(entry, "format"),
    })
}
