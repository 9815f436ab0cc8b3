//! What a subscriber of SNS receives.

use super::*;
use crate::alert::{Announcement, Watched};
use tidemill_domain::alert::Severity;

fn message(notice: Notice) -> Message {
    let announcement = Announcement {
        rule: "high_connection_usage".into(),
        subject: Subject::new("pool/ADW").unwrap(),
        severity: Severity::Warning,
        notice,
        value: Some(93.5),
        threshold: 90.0,
        watched: Some(Watched {
            signal: PoolSignal::LimitPercent.to_string(),
            condition: Condition::Above(90.0),
            aggregate: Aggregate::Average,
            window: Duration::from_secs(60),
            hold: Duration::from_secs(300),
        }),
        since: "2026-11-15T02:00:00Z".parse().unwrap(),
        at: "2026-11-15T02:05:00.120999Z".parse().unwrap(),
        summary: "high_connection_usage fires".into(),
        detail: None,
    };
    let body = announcement.to_json();
    Message { id: 7, announcement, body }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn alarm_of(message: &Message) -> Value {
    let body = parsed(&notification(message, "ops").body);
    parsed(body["Message"].as_str().unwrap())
}

#[test]
fn the_envelope_is_that_of_sns() {
    let sent = notification(&message(Notice::Fired), "ops");
    let body = parsed(&sent.body);

    assert_eq!(body["Type"], "Notification");
    assert_eq!(body["MessageId"], sent.message_id.as_str());
    assert_eq!(body["TopicArn"], "arn:aws:sns:us-east-1:000000000000:ops");
    assert_eq!(body["Subject"], "ALARM: \"HighConnectionUsage\" pool/ADW");
    assert_eq!(body["Timestamp"], "2026-11-15T02:05:00.120Z");
    assert_eq!(sent.message_id.len(), 36);
}

#[test]
fn the_message_is_that_of_a_cloudwatch_alarm() {
    assert_eq!(
        alarm_of(&message(Notice::Fired)),
        json!({
            "AlarmName": "HighConnectionUsage",
            "AlarmDescription": "high_connection_usage of pool/ADW",
            "AlarmArn": "arn:aws:cloudwatch:us-east-1:000000000000:alarm:HighConnectionUsage",
            "AWSAccountId": "000000000000",
            "Region": "us-east-1",
            "NewStateValue": "ALARM",
            "OldStateValue": "OK",
            "NewStateReason": "high_connection_usage fires",
            "StateChangeTime": "2026-11-15T02:05:00.120+0000",
            "Trigger": {
                "MetricName": "pool_limit_percent",
                "Namespace": "Tidemill",
                "StatisticType": "Statistic",
                "Statistic": "AVERAGE",
                "Threshold": 90.0,
                "Period": 60,
                "EvaluationPeriods": 5,
                "ComparisonOperator": "GreaterThanThreshold",
                "Dimensions": [{ "name": "pool", "value": "ADW" }],
            },
        })
    );
}

#[test]
fn the_statistic_is_the_one_that_was_used() {
    let trigger = |signal: PoolSignal, aggregate| {
        let mut message = message(Notice::Fired);
        let watched = message.announcement.watched.as_mut().unwrap();
        (watched.signal, watched.aggregate) = (signal.to_string(), aggregate);
        watched.window = Duration::from_secs(300);
        let trigger = alarm_of(&message)["Trigger"].clone();
        (trigger["Statistic"].as_str().unwrap().to_owned(), trigger["Period"].as_u64().unwrap())
    };

    for (signal, aggregate, statistic, period) in [
        (PoolSignal::Timeouts, Aggregate::Last, "SUM", 60),
        (PoolSignal::Timeouts, Aggregate::Max, "MAXIMUM", 300),
        (PoolSignal::Timeouts, Aggregate::Average, "AVERAGE", 300),
        (PoolSignal::WaitSeconds, Aggregate::Last, "AVERAGE", 300),
        (PoolSignal::LimitPercent, Aggregate::Min, "MINIMUM", 300),
    ] {
        assert_eq!(trigger(signal, aggregate), (statistic.to_owned(), period), "{signal} {aggregate}");
    }
}

#[test]
fn each_signal_has_the_name_of_the_metric_with_the_same_values() {
    for signal in PoolSignal::ALL {
        let expected = match signal {
            PoolSignal::UtilizationPercent => ("EmrBatchAgent", "ConnectionUtilization"),
            PoolSignal::WaitSeconds => ("EmrBatchAgent", "AvgWaitTime"),
            PoolSignal::Timeouts => ("EmrBatchAgent", "AcquireTimeout"),
            // Percent of the limit, and the metric is percent of the capacity.
            PoolSignal::LimitPercent => ("Tidemill", "pool_limit_percent"),
            other => ("Tidemill", other.as_str()),
        };
        assert_eq!(metric(signal.as_str()), expected);
    }
}

#[test]
fn the_end_of_an_alert_is_ok_again() {
    let alarm = alarm_of(&message(Notice::Resolved));

    assert_eq!((&alarm["NewStateValue"], &alarm["OldStateValue"]), (&json!("OK"), &json!("ALARM")));
}

#[test]
fn each_notice_has_one_id_however_often_it_is_tried() {
    let id = |message: &Message| notification(message, "ops").message_id;
    let other = Message { id: 8, ..message(Notice::Fired) };

    assert_eq!(id(&message(Notice::Fired)), id(&message(Notice::Fired)));
    assert_ne!(id(&message(Notice::Fired)), id(&message(Notice::Resolved)));
    assert_ne!(id(&message(Notice::Fired)), id(&other));
}

#[test]
fn what_the_document_does_not_know_goes_by_our_names() {
    let mut message = message(Notice::Fired);
    message.announcement.subject = Subject::whole();
    message.announcement.watched.as_mut().unwrap().signal = "processes_live".into();
    message.announcement.watched.as_mut().unwrap().condition = Condition::Below(2.0);

    let trigger = alarm_of(&message)["Trigger"].clone();

    assert_eq!(
        (&trigger["Namespace"], &trigger["MetricName"]),
        (&json!("Tidemill"), &json!("processes_live"))
    );
    assert_eq!(
        (&trigger["ComparisonOperator"], &trigger["Dimensions"]),
        (&json!("LessThanThreshold"), &json!([]))
    );
}

#[test]
fn a_long_subject_is_cut_where_sns_cuts() {
    let mut message = message(Notice::Fired);
    message.announcement.subject = Subject::new(&"정".repeat(200)).unwrap();

    let body = parsed(&notification(&message, "ops").body);

    assert_eq!(body["Subject"].as_str().unwrap().chars().count(), 100);
}
