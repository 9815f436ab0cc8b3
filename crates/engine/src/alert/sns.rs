//! A notice in the form in which Amazon SNS posts that of a CloudWatch alarm to a subscriber, so that receivers which
//! know those need no change. What AWS signs with its own key is not there; our signature is in our header.

use super::message::Message;
use super::signal::PoolSignal;
use crate::pool::emf;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, Condition, Notice, Subject};
use tidemill_domain::time::Timestamp;
use uuid::Builder;

/// There is neither a region nor an account behind it, but receivers take their names apart.
const REGION: &str = "us-east-1";
const ACCOUNT: &str = "000000000000";

/// The namespace of signals that the document does not know.
const NAMESPACE: &str = "Tidemill";

const SUBJECT_CHARS_MAX: usize = 100;

/// CloudWatch counts in minutes.
const PERIOD: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnsNotification {
    /// Names it; the same in every attempt.
    pub message_id: String,
    pub topic_arn: String,
    pub body: String,
}

/// The notice, as published to the topic of this name.
pub fn notification(message: &Message, topic: &str) -> SnsNotification {
    let told = &message.announcement;
    let name = alarm_name(&told.rule);
    let (new_state, _) = states(told.notice);
    let mut subject = format!("{new_state}: \"{name}\" {}", told.subject);
    if let Some((at, _)) = subject.char_indices().nth(SUBJECT_CHARS_MAX) {
        subject.truncate(at);
    }
    let message_id = message_id(message);
    let topic_arn = format!("arn:aws:sns:{REGION}:{ACCOUNT}:{topic}");
    let body = json!({
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": topic_arn,
        "Subject": subject,
        "Message": alarm(message, &name).to_string(),
        "Timestamp": format!("{}Z", millis(told.at)),
    });
    SnsNotification { message_id, topic_arn, body: body.to_string() }
}

/// The alarm as CloudWatch tells it.
fn alarm(message: &Message, name: &str) -> Value {
    let told = &message.announcement;
    let (new_state, old_state) = states(told.notice);
    let mut trigger = json!({ "Threshold": told.threshold, "Dimensions": dimensions(&told.subject) });
    if let Some(watched) = &told.watched {
        let (namespace, metric) = metric(&watched.signal);
        let period = watched.window.max(PERIOD).as_secs();
        trigger["Namespace"] = json!(namespace);
        trigger["MetricName"] = json!(metric);
        trigger["StatisticType"] = json!("Statistic");
        trigger["Statistic"] = json!(statistic(watched.aggregate));
        trigger["Period"] = json!(period);
        trigger["EvaluationPeriods"] = json!(watched.hold.as_secs().div_ceil(period).max(1));
        trigger["ComparisonOperator"] = json!(match watched.condition {
            Condition::Above(_) => "GreaterThanThreshold",
            Condition::Below(_) => "LessThanThreshold",
        });
    }
    json!({
        "AlarmName": name,
        "AlarmDescription": format!("{} of {}", told.rule, told.subject),
        "AlarmArn": format!("arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"),
        "AWSAccountId": ACCOUNT,
        "Region": REGION,
        "NewStateValue": new_state,
        "OldStateValue": old_state,
        "NewStateReason": told.summary,
        "StateChangeTime": format!("{}+0000", millis(told.at)),
        "Trigger": trigger,
    })
}

/// The state after a notice, and the one before.
const fn states(notice: Notice) -> (&'static str, &'static str) {
    match notice {
        Notice::Fired => ("ALARM", "OK"),
        Notice::Resolved => ("OK", "ALARM"),
    }
}

/// `high_connection_usage` is called HighConnectionUsage there.
fn alarm_name(rule: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    rule.split(['_', '-']).map(capital).collect()
}

/// Namespace and name of what a signal measures: those of the document where it has one.
fn metric(signal: &str) -> (&'static str, &str) {
    match signal.parse() {
        Ok(PoolSignal::UtilizationPercent) => (emf::NAMESPACE, emf::UTILIZATION),
        Ok(PoolSignal::WaitSeconds) => (emf::NAMESPACE, emf::AVERAGE_WAIT),
        Ok(PoolSignal::Timeouts) => (emf::NAMESPACE, emf::TIMEOUTS),
        _ => (NAMESPACE, signal),
    }
}

const fn statistic(aggregate: Aggregate) -> &'static str {
    match aggregate {
        // What counts is the last value, of which there is one in each period.
        Aggregate::Last | Aggregate::Average => "AVERAGE",
        Aggregate::Max => "MAXIMUM",
        Aggregate::Min => "MINIMUM",
    }
}

/// `pool/ADW` is the pool ADW; what is about the whole has no dimension.
fn dimensions(subject: &Subject) -> Value {
    match subject.as_str().split_once('/') {
        Some((kind, name)) => json!([{ "name": kind, "value": name }]),
        None if *subject == Subject::whole() => json!([]),
        None => json!([{ "name": "subject", "value": subject.as_str() }]),
    }
}

/// To the millisecond and without a zone, which the two forms write differently.
fn millis(at: Timestamp) -> String {
    let text = at.to_string();
    let whole = text.strip_suffix("000Z").or_else(|| text.get(..text.len().saturating_sub(4)));
    whole.unwrap_or(&text).to_owned()
}

/// Made of the notice, so that an attempt that is repeated has the same.
fn message_id(message: &Message) -> String {
    let digest = Sha256::digest(format!("{}.{}", message.id, message.body));
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest.iter()).for_each(|(byte, digested)| *byte = *digested);
    Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests;
