//! Notices in the form of CloudWatch alarms, and as Amazon SNS posts those, so that receivers need no change. What we post
//! ourselves has no signature by AWS; ours is in our header.

use super::Message;
use crate::alert::signal::PoolSignal;
use crate::alert::signal::pool::TIMEOUTS_WITHIN;
use crate::pool::emf;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, Condition, Notice, Subject};
use tidemill_domain::time::Timestamp;
use uuid::Builder;

/// Whose topic a notice is sent by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner<'a> {
    pub region: &'a str,
    pub account: &'a str,
}

/// Of notices that we post ourselves: placeholders, because receivers parse the ARN.
const NOBODY: Owner<'_> = Owner { region: "us-east-1", account: "000000000000" };

/// Namespace of signals that have no CloudWatch metric.
const NAMESPACE: &str = "Tidemill";

const SUBJECT_CHARS_MAX: usize = 100;

/// CloudWatch counts in minutes.
const PERIOD: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnsNotification {
    /// The same in every attempt.
    pub message_id: String,
    pub topic_arn: String,
    pub body: String,
}

pub fn notification(message: &Message, topic: &str) -> SnsNotification {
    let message_id = message_id(message);
    let Owner { region, account } = NOBODY;
    let topic_arn = format!("arn:aws:sns:{region}:{account}:{topic}");
    let body = json!({
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": topic_arn,
        "Subject": subject(message, SUBJECT_CHARS_MAX),
        "Message": alarm(message, NOBODY).to_string(),
        "Timestamp": format!("{}Z", millis(message.announcement.at)),
    });
    SnsNotification { message_id, topic_arn, body: body.to_string() }
}

/// The subject that CloudWatch gives to a notification.
pub fn subject(message: &Message, chars_max: usize) -> String {
    let announcement = &message.announcement;
    let (new_state, _) = states(announcement.notice);
    let name = alarm_name(&announcement.rule);
    let subject = format!("{new_state}: \"{name}\" {}", announcement.subject);
    subject.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

/// The message that CloudWatch sends when an alarm changes.
pub fn alarm(message: &Message, Owner { region, account }: Owner<'_>) -> Value {
    let announcement = &message.announcement;
    let name = alarm_name(&announcement.rule);
    let (new_state, old_state) = states(announcement.notice);
    let mut trigger =
        json!({ "Threshold": announcement.threshold, "Dimensions": dimensions(&announcement.subject) });
    if let Some(watched) = &announcement.watched {
        let (namespace, metric) = metric(&watched.signal);
        // The last value of a count is a sum over its own period; any other period has one value, its average.
        let is_sum = watched.aggregate == Aggregate::Last && metric == emf::TIMEOUTS;
        let period = if is_sum { TIMEOUTS_WITHIN } else { watched.window.max(PERIOD) }.as_secs();
        trigger["Namespace"] = json!(namespace);
        trigger["MetricName"] = json!(metric);
        trigger["StatisticType"] = json!("Statistic");
        trigger["Statistic"] = json!(match watched.aggregate {
            Aggregate::Last if is_sum => "SUM",
            Aggregate::Last | Aggregate::Average => "AVERAGE",
            Aggregate::Max => "MAXIMUM",
            Aggregate::Min => "MINIMUM",
        });
        trigger["Period"] = json!(period);
        trigger["EvaluationPeriods"] = json!(watched.hold.as_secs().div_ceil(period).max(1));
        trigger["ComparisonOperator"] = json!(match watched.condition {
            Condition::Above(_) => "GreaterThanThreshold",
            Condition::Below(_) => "LessThanThreshold",
        });
    }
    json!({
        "AlarmName": name,
        "AlarmDescription": format!("{} of {}", announcement.rule, announcement.subject),
        "AlarmArn": format!("arn:aws:cloudwatch:{region}:{account}:alarm:{name}"),
        "AWSAccountId": account,
        "Region": region,
        "NewStateValue": new_state,
        "OldStateValue": old_state,
        "NewStateReason": announcement.summary,
        "StateChangeTime": format!("{}+0000", millis(announcement.at)),
        "Trigger": trigger,
    })
}

/// The states after and before a notice.
const fn states(notice: Notice) -> (&'static str, &'static str) {
    match notice {
        Notice::Fired => ("ALARM", "OK"),
        Notice::Resolved => ("OK", "ALARM"),
    }
}

/// `high_connection_usage` becomes HighConnectionUsage.
fn alarm_name(rule: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    rule.split(['_', '-']).map(capital).collect()
}

/// Namespace and name of the CloudWatch metric for a signal.
fn metric(signal: &str) -> (&'static str, &str) {
    match signal.parse() {
        Ok(PoolSignal::UtilizationPercent) => (emf::NAMESPACE, emf::UTILIZATION),
        Ok(PoolSignal::WaitSeconds) => (emf::NAMESPACE, emf::AVERAGE_WAIT),
        Ok(PoolSignal::Timeouts) => (emf::NAMESPACE, emf::TIMEOUTS),
        _ => (NAMESPACE, signal),
    }
}

/// `pool/ADW` is the pool ADW; the whole system has no dimension.
fn dimensions(subject: &Subject) -> Value {
    match subject.as_str().split_once('/') {
        Some((kind, name)) => json!([{ "name": kind, "value": name }]),
        None if *subject == Subject::whole() => json!([]),
        None => json!([{ "name": "subject", "value": subject.as_str() }]),
    }
}

/// In milliseconds and without a time zone, which the two formats write differently.
fn millis(at: Timestamp) -> String {
    let text = at.to_string();
    let whole = text.strip_suffix("000Z").or_else(|| text.get(..text.len().saturating_sub(4)));
    whole.unwrap_or(&text).to_owned()
}

/// Derived from the notice, so that every attempt has the same id.
pub fn message_id(message: &Message) -> String {
    let digest = Sha256::digest(format!("{}.{}", message.id, message.body));
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest.iter()).for_each(|(byte, digested)| *byte = *digested);
    Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests;
