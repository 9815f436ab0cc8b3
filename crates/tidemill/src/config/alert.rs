//! The alert sections: rules, which begin with the shipped ones, and webhooks.

use super::choice::WebhookFormat;
use super::error::ConfigError;
use super::origin::Origin;
use super::secret::Secret;
use super::section::{RULES, WEBHOOKS};
use super::table::{Entry, Fields, Tables};
use tidemill_domain::alert::{Condition, Rule, RuleFields};
use tidemill_domain::duration;
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

pub(super) fn read(tables: &mut Tables<'_>) -> Alert {
    let shipped = default_rules();
    let webhooks = tables.names(&WEBHOOKS);
    let mut rules: Vec<String> = shipped.iter().map(|rule| rule.name().to_owned()).collect();
    rules.extend(
        tables.names(&RULES).into_iter().filter(|name| shipped.iter().all(|rule| rule.name() != name)),
    );
    let mut alert = Alert::default();
    for name in &rules {
        let base = shipped.iter().find(|rule| rule.name() == name).map(defaults).unwrap_or_default();
        alert.rules.extend(tables.read_one(&RULES, name, base, |entry| rule(entry, &webhooks)));
    }
    alert.webhooks = tables.read(&WEBHOOKS, webhook);
    alert
}

/// A shipped rule as if somebody had written it.
fn defaults(rule: &Rule) -> Fields {
    let condition = rule.condition();
    let values = [
        ("signal", rule.signal().to_owned()),
        (condition.as_str(), condition.threshold().to_string()),
        ("aggregate", rule.aggregate().to_string()),
        ("window", duration::show(rule.window())),
        ("for", duration::show(rule.hold())),
        ("severity", rule.severity().to_string()),
        ("channels", rule.channels().join("\n")),
    ];
    values.into_iter().map(|(leaf, value)| (leaf, (Secret::new(value), Origin::Default))).collect()
}

fn rule(entry: &Entry, webhooks: &[String]) -> Result<RuleSettings, ConfigError> {
    let (name, path) = (&entry.name, &entry.path);
    let all = signal::names().collect::<Vec<_>>().join(", ");
    let Some(signal) = entry.get::<Option<String>>("signal") else {
        let shipped = default_rules();
        let near = nearest(name, shipped.iter().map(Rule::name));
        let fix = near.map(|near| format!("did you mean {}.{near}?", RULES.path));
        let fix = fix.unwrap_or_else(|| format!("add signal with one of {all}"));
        return Err(entry.refuse("a rule watches a signal, and this one names none", fix));
    };
    if signal::names().all(|known| known != signal) {
        let fix = match nearest(&signal, signal::names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("set {path}.signal to one of {all}"),
        };
        let (path, origin) = (format!("{path}.signal"), entry.origin_of("signal"));
        let why = format!("allowed: one of {all}");
        return Err(ConfigError::bad_value(&path, origin, Some(&signal), why, fix));
    }
    let condition = match (entry.get("above"), entry.get("below")) {
        (Some(above), None) => Condition::Above(above),
        (None, Some(below)) => Condition::Below(below),
        (Some(_), Some(_)) => {
            let why = "a rule has one threshold, and this one has both above and below";
            let fix = "take one of them out";
            return Err(ConfigError::bad_value(path, entry.origin_of("below"), None, why, fix));
        }
        (None, None) => {
            let why = "a rule has a threshold, and this one has none";
            return Err(entry.refuse(why, "add above = 1 or below = 1"));
        }
    };
    let channels: Vec<String> = entry.get("channels");
    check_channels(&channels, entry, webhooks)?;
    let fields = RuleFields {
        name: name.clone(),
        signal,
        condition,
        aggregate: entry.get("aggregate"),
        window: entry.get("window"),
        hold: entry.get("for"),
        severity: entry.get("severity"),
        channels,
    };
    match Rule::new(fields) {
        Ok(rule) => Ok(RuleSettings { rule, is_enabled: entry.get("enabled") }),
        Err(bad) => Err(entry.refuse(bad.to_string(), "correct the rule")),
    }
}

fn check_channels(channels: &[String], entry: &Entry, webhooks: &[String]) -> Result<(), ConfigError> {
    let known = || std::iter::once(channel::LOG).chain(webhooks.iter().map(String::as_str));
    for name in channels {
        if known().all(|known| known != name) {
            let fix = match nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("add a table [{}.{name}] with its url, or take the name out", WEBHOOKS.path),
            };
            let why = format!("the channels are {}", known().collect::<Vec<_>>().join(", "));
            let (path, origin) = (format!("{}.channels", entry.path), entry.origin_of("channels"));
            return Err(ConfigError::bad_value(&path, origin, Some(name), why, fix));
        }
    }
    Ok(())
}

fn webhook(entry: &Entry) -> Result<WebhookSettings, ConfigError> {
    if entry.name == channel::LOG {
        let why = "log is the channel that writes to the log of the process";
        return Err(entry.refuse(why, "choose another name"));
    }
    let why = "a webhook has a URL, and this one has none";
    let url = entry.require("url", why, "add url = \"https://host/path\"")?;
    Ok(WebhookSettings {
        name: entry.name.clone(),
        url,
        secret: entry.get("secret"),
        allow_private: entry.get("allow_private"),
        format: entry.get("format"),
    })
}
