//! The alert tables: rules, which begin with the shipped ones, and the channels that they notify: webhooks, mail
//! and topics of SNS.

use super::choice::{MailTls, SnsFormat, WebhookFormat};
use super::error::ConfigError;
use super::key::tables;
use super::kind::Kind::{Number, Period, Text, WebUrl};
use super::reader::{Defaults, Entry, Reader};
use super::secret::Secret;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, Condition, Rule, RuleFields, Severity};
use tidemill_domain::duration;
use tidemill_domain::nearest::nearest;
use tidemill_engine::alert::{channel, default_rules, signal};
use tidemill_server::sns::TopicArn;

tables! {
    struct RuleTable in "alert.rules.NAME." {
        signal: Option<String>, Text(63) => "Signal that the rule watches.";
        above: Option<f64> => "Threshold: fires when the value is above it.";
        below: Option<f64> => "Threshold: fires when the value is below it.";
        aggregate: Aggregate = "last" => "How the values in the window are combined.";
        window: Duration = "1m", Period("0s", "1d") => "Time window of the values.";
        hold as "for": Duration = "0s", Period("0s", "1d") =>
            "How long the condition must hold before the alert fires.";
        severity: Severity = "warning" => "Severity of the alert.";
        channels: Vec<String> = "log" => "Channels to notify: log, or names of webhooks, mail channels and topics.";
        enabled: bool = "true" => "Whether the rule is evaluated.";
    }

    pub struct WebhookSettings in "alert.webhooks.NAME." {
        url: Secret, WebUrl => "URL that receives notifications.";
        secret: Option<Secret> => "Secret that signs notifications.";
        allow_private: bool = "false" => "Allow private and local addresses.";
        format: WebhookFormat = "tidemill" => "Format of notifications.";
    }

    pub struct MailSettings in "alert.mail.NAME." {
        host: String, Text(253) => "SMTP server that sends the mail.";
        port: Option<u32>, Number(1, 65_535) => "Its port: 587 for starttls, 465 for tls and 25 for none if not set.";
        tls: MailTls = "starttls" => "How the connection is encrypted.";
        ca: Option<PathBuf> => "PEM file with CA certificates to trust besides those of the system.";
        user: Option<String>, Text(320) => "User of the SMTP server.";
        password: Option<Secret> => "Password of the user.";
        from: String, Text(320) => "Sender of the mail.";
        to: String, Text(4_096) => "Receivers, with commas between them.";
    }

    pub struct SnsSettings in "alert.sns.NAME." {
        topic: String, Text(512) => "ARN of the topic.";
        endpoint: Option<String>, Text(2_048) => "Address of the service, such as that of a VPC endpoint.";
        format: SnsFormat = "tidemill" => "Format of notifications.";
    }
}

/// The rules that alerts are raised by, and the channels that are notified.
#[derive(Clone, PartialEq, Debug)]
pub struct Alert {
    /// The shipped rules with their changes, then the others by name.
    pub rules: Vec<RuleSettings>,
    /// By the name that rules use for the channel.
    pub webhooks: BTreeMap<String, WebhookSettings>,
    pub mail: BTreeMap<String, MailSettings>,
    pub sns: BTreeMap<String, SnsSettings>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RuleSettings {
    pub rule: Rule,
    pub is_enabled: bool,
}

impl Alert {
    /// The names of all channels.
    pub fn channels(&self) -> Vec<String> {
        let named = self.webhooks.keys().chain(self.mail.keys()).chain(self.sns.keys()).cloned();
        std::iter::once(channel::LOG.to_owned()).chain(named).collect()
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Alert {
    let webhooks = reader.names::<WebhookSettings>();
    let mut posted = reader.names::<MailSettings>();
    posted.extend(webhooks.iter().cloned());
    let mut channels = reader.names::<SnsSettings>();
    channels.extend(posted.iter().cloned());
    let mut others = reader.names::<RuleTable>();
    let shipped = default_rules();
    let mut tables: Vec<_> = shipped.iter().map(|rule| (rule.name(), defaults(rule, reader))).collect();
    others.retain(|name| shipped.iter().all(|rule| rule.name() != name));
    tables.extend(others.iter().map(|name| (name.as_str(), Defaults::new())));
    let one = |(name, defaults): (&str, Defaults)| {
        reader.named_one(name, &defaults, |entry, table| rule(entry, table, &channels))
    };
    let rules = tables.into_iter().filter_map(one).collect();
    let mail = reader.named(|entry, table| mail(entry, table, &webhooks)).into_iter().collect();
    let sns = reader.named(|entry, table| sns(entry, table, &posted)).into_iter().collect();
    Alert { rules, webhooks: reader.named(webhook).into_iter().collect(), mail, sns }
}

/// A shipped rule as defaults. A threshold in a file replaces its own, whether above or below.
fn defaults(rule: &Rule, reader: &Reader<'_>) -> Defaults {
    let mut defaults = Defaults::from([
        ("signal", rule.signal().to_owned()),
        ("aggregate", rule.aggregate().to_string()),
        ("window", duration::show(rule.window())),
        ("for", duration::show(rule.hold())),
        ("severity", rule.severity().to_string()),
        ("channels", rule.channels().join("\n")),
    ]);
    let is_given = |leaf: &str| reader.given.contains_key(&format!("alert.rules.{}.{leaf}", rule.name()));
    if !is_given("above") && !is_given("below") {
        let condition = rule.condition();
        defaults.insert(condition.as_str(), condition.threshold().to_string());
    }
    defaults
}

fn rule(entry: &Entry, table: RuleTable, others: &BTreeSet<String>) -> Result<RuleSettings, ConfigError> {
    let all = signal::names().collect::<Vec<_>>().join(", ");
    let RuleTable { signal, above, below, aggregate, window, hold, severity, channels, enabled } = table;
    let Some(signal) = signal else {
        let shipped = default_rules();
        let near = nearest(&entry.name, shipped.iter().map(Rule::name));
        let fix = near.map(|near| format!("did you mean alert.rules.{near}?"));
        return Err(
            entry.wrong("signal is missing", fix.unwrap_or_else(|| format!("add signal: one of {all}")))
        );
    };
    if signal::names().all(|known| known != signal) {
        let near = nearest(&signal, signal::names()).map(|near| format!("did you mean {near}?"));
        let fix = near.unwrap_or_else(|| format!("set {}.signal to one of {all}", entry.path));
        return Err(entry.wrong_key("signal", Some(&signal), format!("allowed: one of {all}"), fix));
    }
    let condition = match (above, below) {
        (Some(above), None) => Condition::Above(above),
        (None, Some(below)) => Condition::Below(below),
        (Some(_), Some(_)) => {
            let why = "a rule has one threshold, and this one has above and below";
            let (path, origin) = (&entry.path, entry.origin_of("below"));
            return Err(ConfigError::bad_value(path, origin, None, why, "remove one of them"));
        }
        (None, None) => return Err(entry.wrong("the threshold is missing", "add above = 1 or below = 1")),
    };
    check_channels(&channels, entry, others)?;
    let name = entry.name.clone();
    let fields = RuleFields { name, signal, condition, aggregate, window, hold, severity, channels };
    let rule = Rule::new(fields).map_err(|bad| entry.wrong(bad.to_string(), "correct the rule"))?;
    Ok(RuleSettings { rule, is_enabled: enabled })
}

fn check_channels(channels: &[String], entry: &Entry, others: &BTreeSet<String>) -> Result<(), ConfigError> {
    let known: Vec<&str> = std::iter::once(channel::LOG).chain(others.iter().map(String::as_str)).collect();
    let Some(unknown) = channels.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let fix = match nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            let tables = ["webhooks", "mail", "sns"].map(|kind| format!("[alert.{kind}.{unknown}]"));
            format!("add a table {}, or remove the name", tables.join(" or "))
        }
    };
    let why = format!("the channels are {}", known.join(", "));
    Err(entry.wrong_key("channels", Some(unknown), why, fix))
}

fn webhook(entry: &Entry, webhook: WebhookSettings) -> Result<(String, WebhookSettings), ConfigError> {
    check_name(entry)?;
    Ok((entry.name.clone(), webhook))
}

fn mail(
    entry: &Entry,
    mail: MailSettings,
    webhooks: &BTreeSet<String>,
) -> Result<(String, MailSettings), ConfigError> {
    check_name(entry)?;
    if webhooks.contains(&entry.name) {
        return Err(entry.wrong("a webhook has the same name", "choose another name"));
    }
    if mail.user.is_some() != mail.password.is_some() {
        return Err(entry.wrong("a login has a user and a password", "set both, or remove the one"));
    }
    Ok((entry.name.clone(), mail))
}

fn sns(
    entry: &Entry,
    sns: SnsSettings,
    others: &BTreeSet<String>,
) -> Result<(String, SnsSettings), ConfigError> {
    check_name(entry)?;
    if others.contains(&entry.name) {
        return Err(entry.wrong("another channel has the same name", "choose another name"));
    }
    if let Err(why) = sns.topic.parse::<TopicArn>() {
        let fix = "copy the ARN of the topic from the console of SNS".to_owned();
        return Err(entry.wrong_key("topic", Some(&sns.topic), why.to_string(), fix));
    }
    Ok((entry.name.clone(), sns))
}

fn check_name(entry: &Entry) -> Result<(), ConfigError> {
    if entry.name == channel::LOG {
        let why = "log is the channel that writes to the log of the process";
        return Err(entry.wrong(why, "choose another name"));
    }
    Ok(())
}
