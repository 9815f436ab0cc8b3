//! The alert sections: merging, mistakes with their places, secrets.

use super::stage::Stage;
use crate::config::alert::RuleSettings;
use crate::config::{MailTls, Origin, SnsFormat, WebhookFormat};
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, Condition, Severity};
use tidemill_domain::code::Code;

/// As they are told to people.
const SIGNALS: &str = "processes_died, processes_live, database_seconds, job_failures, job_running_ratio, \
                       schedule_late_seconds, schedule_missed_ticks, pool_utilization_percent, pool_limit_percent, \
                       pool_wait_seconds, pool_oldest_wait_seconds, pool_timeouts, pool_suspect_leases, \
                       pool_breaker_open, pool_audit_violations, outbox_lag_seconds, outbox_parked, \
                       outbox_default_rows, outbox_unowned_slots, outbox_missing_shares, render_pending, \
                       render_seconds, render_success_percent, render_workers, render_nexrender_seconds, \
                       render_copy_seconds, render_failures, render_recovering, render_late, \
                       render_node_wait_seconds";

fn rules(stage: &Stage) -> Vec<RuleSettings> {
    stage.load().unwrap().settings.alert.rules
}

fn rule(stage: &Stage, name: &str) -> RuleSettings {
    rules(stage).into_iter().find(|settings| settings.rule.name() == name).unwrap()
}

fn shown(stage: &Stage, path: &str) -> (String, Origin) {
    let sections = stage.load().unwrap().sections;
    let value = sections.into_iter().find(|value| value.path == path).unwrap();
    (value.shown, value.origin)
}

#[track_caller]
fn check(toml: &str, code: Code, place: (usize, usize), what: &str, why: &str, fix: &str) {
    let stage = Stage::new().project(toml);
    let problem = stage.problem();
    assert_eq!(problem.code(), code, "{problem:?}");
    assert_eq!(stage.short(&problem), format!("{what} (project/tidemill.toml:{}:{})", place.0, place.1));
    assert_eq!(problem.why(), why);
    assert_eq!(problem.fix(), fix);
}

#[test]
fn without_any_file_the_shipped_rules_are_there() {
    let stage = Stage::new();

    let names: Vec<String> = rules(&stage).iter().map(|settings| settings.rule.name().to_owned()).collect();

    assert_eq!(
        names,
        [
            "process_died",
            "database_slow",
            "job_failed",
            "job_running_long",
            "schedule_late",
            "schedule_missed",
            "high_connection_usage",
            "long_queue_time",
            "acquire_timeouts",
            "oldest_waiter",
            "pool_breaker_open",
            "pool_audit_violation",
            "outbox_lag",
            "outbox_events_parked",
            "outbox_default_partition",
            "outbox_unowned",
            "outbox_share_missing",
            "render_queue_pending_count",
            "render_job_duration_seconds",
            "render_job_success_rate",
            "ae_worker_active_count",
            "nexrender_api_latency",
            "nas_copy_duration_seconds",
            "render_needs_somebody",
            "render_workers_vanish",
            "render_late",
            "render_not_picked"
        ]
    );
    assert!(rules(&stage).iter().all(|settings| settings.is_enabled));
    assert_eq!(shown(&stage, "alert.rules.process_died.above"), ("0".to_owned(), Origin::Default));
    assert_eq!(shown(&stage, "alert.rules.database_slow.for").0, "1m");
    assert!(stage.load().unwrap().settings.alert.webhooks.is_empty());
}

#[test]
fn a_whole_rule_and_a_whole_webhook_arrive() {
    let stage = Stage::new().env("HOOK", "hunter2").project(
        r#"
        [alert.rules.few_workers]
        signal = "processes_live"
        below = 2.5
        aggregate = "min"
        window = "5m"
        for = "2m"
        severity = "critical"
        channels = ["log", "pager"]
        enabled = false

        [alert.webhooks.pager]
        url = "https://hooks.example.com/T000/B000"
        secret = "env:HOOK"
        allow_private = true
        format = "sns"
        "#,
    );

    let settings = rule(&stage, "few_workers");
    let rule = &settings.rule;
    assert_eq!((rule.signal(), rule.condition()), ("processes_live", Condition::Below(2.5)));
    assert_eq!((rule.aggregate(), rule.severity()), (Aggregate::Min, Severity::Critical));
    assert_eq!((rule.window(), rule.hold()), (Duration::from_secs(300), Duration::from_secs(120)));
    assert_eq!((rule.channels(), settings.is_enabled), (&["log".to_owned(), "pager".to_owned()][..], false));
    let webhook = stage.load().unwrap().settings.alert.webhooks.remove("pager").unwrap();
    assert_eq!((webhook.allow_private, webhook.format), (true, WebhookFormat::Sns));
    assert_eq!(webhook.url.expose(), "https://hooks.example.com/T000/B000");
    assert_eq!(webhook.secret.unwrap().expose(), "hunter2");
    assert_eq!(shown(&stage, "alert.webhooks.pager.url").0, "https://hooks.example.com/***");
    assert_eq!(shown(&stage, "alert.webhooks.pager.secret").0, "***");
    assert_eq!(shown(&stage, "alert.rules.few_workers.channels").0, "log, pager");
}

#[test]
fn a_whole_mail_channel_arrives_and_its_password_is_not_shown() {
    let stage = Stage::new().env("SMTP", "hunter2").project(
        r#"
        [alert.rules.process_died]
        channels = ["log", "ops"]

        [alert.mail.ops]
        host = "mail.example.com"
        port = 2525
        tls = "tls"
        ca = "/etc/ca.pem"
        user = "tidemill"
        password = "env:SMTP"
        from = "Tidemill <tidemill@example.com>"
        to = "ops@example.com, oncall@example.com"

        [alert.mail.plain]
        host = "localhost"
        from = "a@example.com"
        to = "b@example.com"
        "#,
    );

    let loaded = stage.load().unwrap();
    let mail = &loaded.settings.alert.mail;
    assert_eq!(
        (mail["ops"].port, mail["ops"].tls, mail["plain"].tls),
        (Some(2525), MailTls::Tls, MailTls::StartTls)
    );
    assert_eq!(mail["ops"].password.as_ref().unwrap().expose(), "hunter2");
    assert!(!format!("{loaded:?}").contains("hunter2"), "{loaded:?}");
    assert_eq!(shown(&stage, "alert.mail.ops.password").0, "***");
    assert_eq!(rule(&stage, "process_died").rule.channels(), ["log", "ops"]);
}

#[test]
fn a_mail_channel_with_half_a_login_or_a_taken_name_is_refused() {
    let table = "host = \"h\"\nfrom = \"a@b.c\"\nto = \"a@b.c\"\n";
    let why = |toml: String| Stage::new().env("SMTP", "x").project(toml).problem().why().to_owned();

    assert_eq!(why(format!("[alert.mail.ops]\n{table}user = \"u\"")), "a login has a user and a password");
    let webhook = "[alert.webhooks.ops]\nurl = \"https://a/b\"\n";
    assert_eq!(why(format!("{webhook}[alert.mail.ops]\n{table}")), "a webhook has the same name");
    assert_eq!(
        why(format!("[alert.mail.log]\n{table}")),
        "log is the channel that writes to the log of the process"
    );
    assert_eq!(
        Stage::new().project(format!("[alert.mail.ops]\n{table}password = \"hunter2\"")).problem().code(),
        Code::OpenSecret
    );
}

#[test]
fn a_whole_topic_arrives() {
    let stage = Stage::new().project(
        r#"
        [alert.rules.process_died]
        channels = ["ops"]

        [alert.sns.ops]
        topic = "arn:aws:sns:eu-central-1:123456789012:ops"
        endpoint = "https://vpce-1.sns.eu-central-1.vpce.amazonaws.com"
        format = "cloudwatch"
        "#,
    );

    let sns = stage.load().unwrap().settings.alert.sns.remove("ops").unwrap();

    assert_eq!(sns.topic, "arn:aws:sns:eu-central-1:123456789012:ops");
    assert_eq!(sns.endpoint.unwrap(), "https://vpce-1.sns.eu-central-1.vpce.amazonaws.com");
    assert_eq!(
        (sns.format, rule(&stage, "process_died").rule.channels()),
        (SnsFormat::CloudWatch, &["ops".to_owned()][..])
    );
}

#[test]
fn what_is_no_topic_or_has_the_name_of_another_channel_is_refused() {
    let topic = "topic = \"arn:aws:sns:eu-central-1:123456789012:ops\"\n";
    let why = |toml: String| Stage::new().project(toml).problem().why().to_owned();

    let queue = "[alert.sns.ops]\ntopic = \"arn:aws:sqs:eu-central-1:123456789012:ops\"".to_owned();
    assert_eq!(why(queue), "a topic is written as arn:aws:sns:REGION:ACCOUNT:NAME");
    let webhook = "[alert.webhooks.ops]\nurl = \"https://a/b\"\n";
    assert_eq!(why(format!("{webhook}[alert.sns.ops]\n{topic}")), "another channel has the same name");
    let log = "log is the channel that writes to the log of the process";
    assert_eq!(why(format!("[alert.sns.log]\n{topic}")), log);
}

#[test]
fn a_stronger_file_replaces_single_keys() {
    let stage = Stage::new()
        .system("[alert.rules.slow]\nsignal = \"database_seconds\"\nabove = 1\nfor = \"1m\"\n")
        .user("[alert.rules.slow]\nabove = 2\n")
        .project("[alert.rules.slow]\nfor = \"2m\"\n[alert.rules.process_died]\nenabled = false\n");

    let slow = rule(&stage, "slow").rule;

    assert_eq!((slow.condition(), slow.hold()), (Condition::Above(2.0), Duration::from_secs(120)));
    let (value, origin) = shown(&stage, "alert.rules.slow.above");
    let path = stage.path("user/tidemill/config.toml");
    assert_eq!((value.as_str(), origin), ("2", Origin::File { path, line: 2, column: 9 }));
    let died = rule(&stage, "process_died");
    assert!(!died.is_enabled);
    assert_eq!(died.rule.signal(), "processes_died");
}

#[test]
fn the_threshold_of_a_stronger_file_covers_both() {
    let stage = Stage::new()
        .system("[alert.rules.slow]\nsignal = \"database_seconds\"\nabove = 1\n")
        .project("[alert.rules.slow]\nbelow = 2\n[alert.rules.process_died]\nbelow = 1\n");

    assert_eq!(rule(&stage, "slow").rule.condition(), Condition::Below(2.0));
    assert_eq!(rule(&stage, "process_died").rule.condition(), Condition::Below(1.0));
}

#[test]
fn an_unknown_key_is_reported_with_its_neighbours() {
    let check = |toml: &str, place, what: &str, why: &str, fix: &str| {
        check(toml, Code::UnknownKey, place, &format!("unknown key {what:?}"), why, fix);
    };
    let keys = "signal, above, below, aggregate, window, for, severity, channels, enabled";

    check(
        "[alert.rules.slow]\nabvoe = 1\nsignal = \"database_seconds\"\nabove = 1",
        (2, 1),
        "alert.rules.slow.abvoe",
        &format!("the keys of alert.rules.slow are {keys}"),
        "did you mean alert.rules.slow.above?",
    );
    check(
        "[alert.rule.slow]",
        (1, 8),
        "alert.rule",
        "the keys of alert are rules, webhooks, mail, sns",
        "did you mean alert.rules?",
    );
    check(
        "[alerts]\nx = 1",
        (1, 2),
        "alerts",
        "the top-level names are database, process, server, jobs, pools, outbox, render, lambda, telemetry, log, output, color, alert, jwt, connections",
        "did you mean alert?",
    );
    let name = "a name has 1 to 63 of a-z, 0-9, _ and -, and starts with a letter";
    check("[alert.rules.Slow]", (1, 14), "alert.rules.Slow", name, "correct it or remove it");
    check(
        "alert = 5",
        (1, 1),
        "alert",
        "alert is a table with the keys rules, webhooks, mail, sns",
        "correct it or remove it",
    );
    check(
        "alert.rules = 5",
        (1, 7),
        "alert.rules",
        "alert.rules holds one table per name, such as [alert.rules.NAME]",
        "correct it or remove it",
    );
    check(
        "alert.rules.process_died = 5",
        (1, 13),
        "alert.rules.process_died",
        &format!("alert.rules.process_died is a table with the keys {keys}"),
        "correct it or remove it",
    );
    check(
        "alert.rules.process_died.above = [1]",
        (1, 26),
        "alert.rules.process_died.above",
        "alert.rules.process_died.above takes a single value: a number such as 5 or 0.25",
        "correct it or remove it",
    );
}

#[test]
fn a_bad_value_is_reported_with_what_is_allowed() {
    let check = |key: &str, text: &str, shown: &str, why: &str, fix: &str| {
        let toml = format!("[alert.rules.process_died]\n{key} = {text}");
        let what = format!("alert.rules.process_died.{key} cannot be {shown:?}");
        check(&toml, Code::BadValue, (2, key.len() + 4), &what, why, fix);
    };

    let number = "allowed: a number such as 5 or 0.25";
    check("above", "\"1\"", "1", number, "write the number without quotes");
    check("above", "inf", "inf", number, "set alert.rules.process_died.above to a number such as 5 or 0.25");
    check(
        "above",
        "true",
        "true",
        number,
        "set alert.rules.process_died.above to a number such as 5 or 0.25",
    );
    check("enabled", "\"false\"", "false", "allowed: true or false", "write it without quotes");
    check(
        "enabled",
        "1",
        "1",
        "allowed: true or false",
        "set alert.rules.process_died.enabled to true or false",
    );
    check(
        "severity",
        "\"criticl\"",
        "criticl",
        "allowed: one of info, warning, critical",
        "did you mean critical?",
    );
    check(
        "for",
        "60",
        "60",
        "allowed: a duration from 0s to 1d",
        "add the unit, for example \"60s\" or \"60ms\"",
    );
    check("window", "\"25h\"", "25h", "allowed: a duration from 0s to 1d", "make it at most 1d");
    let list = "allowed: a list of names such as [\"log\"]";
    check("channels", "\"log\"", "log", list, "write a list of names such as [\"log\"]");
    let set = "set alert.rules.process_died.channels to a list of names such as [\"log\"]";
    check("channels", "[\"Log\"]", "Log", list, set);
    check("channels", "[\"lo\\ng\"]", "lo\u{fffd}g", list, set);
    check("channels", "[\"lgo\"]", "lgo", "the channels are log", "did you mean log?");
    check(
        "channels",
        "[\"pager\"]",
        "pager",
        "the channels are log",
        "add a table [alert.webhooks.pager] or [alert.mail.pager] or [alert.sns.pager], or remove the name",
    );
    let signals = format!("allowed: one of {SIGNALS}");
    check("signal", "\"process_died\"", "process_died", &signals, "did you mean processes_died?");
}

#[test]
fn a_table_that_is_not_whole_is_refused_where_it_begins() {
    let check = |toml: &str, place, what: &str, why: &str, fix: &str| {
        let what = format!("{what} is not valid");
        check(toml, Code::BadValue, place, &what, why, fix);
    };
    let none = "signal is missing";

    check(
        "[alert.rules.x]\nabove = 1",
        (2, 9),
        "alert.rules.x",
        none,
        &format!("add signal: one of {SIGNALS}"),
    );
    check(
        "[alert.rules.proces_died]\nenabled = false",
        (2, 11),
        "alert.rules.proces_died",
        none,
        "did you mean alert.rules.process_died?",
    );
    check(
        "[alert.rules.x]\nsignal = \"processes_live\"",
        (2, 10),
        "alert.rules.x",
        "the threshold is missing",
        "add above = 1 or below = 1",
    );
    check(
        "[alert.rules.x]\nsignal = \"processes_live\"\nabove = 1\nbelow = 1",
        (4, 9),
        "alert.rules.x",
        "a rule has one threshold, and this one has above and below",
        "remove one of them",
    );
    check(
        "[alert.rules.process_died]\nchannels = [\"log\", \"log\"]",
        (2, 12),
        "alert.rules.process_died",
        "a rule has at most 16 channels, each named like a rule and named once",
        "correct the rule",
    );
    check(
        "[alert.webhooks.x]\nallow_private = true",
        (2, 17),
        "alert.webhooks.x",
        "url is missing",
        "add url: a URL such as https://host/path",
    );
    check(
        "[alert.webhooks.log]\nurl = \"https://a/b\"",
        (2, 7),
        "alert.webhooks.log",
        "log is the channel that writes to the log of the process",
        "choose another name",
    );
}

#[test]
fn several_problems_are_told_at_once() {
    let stage = Stage::new().project(
        "[alert.rules.x]\nabove = \"1\"\nseverty = 1\nfor = 5\n[alert.webhooks.y]\nurl = \"ftp://a\"\n",
    );

    let error = stage.load().unwrap_err();

    let told: Vec<_> = error.problems().iter().map(|problem| stage.short(problem)).collect();
    assert_eq!(
        told,
        [
            "alert.rules.x.above cannot be \"1\" (project/tidemill.toml:2:9)",
            "unknown key \"alert.rules.x.severty\" (project/tidemill.toml:3:1)",
            "alert.rules.x.for cannot be \"5\" (project/tidemill.toml:4:7)",
            "alert.webhooks.y.url is not valid (project/tidemill.toml:6:7)",
        ]
    );
}

#[test]
fn a_secret_in_the_open_is_refused_with_the_way_to_hide_it() {
    let open = |toml: &str| {
        let stage = Stage::new().project(toml);
        let problem = stage.load().unwrap_err();
        let problem = problem.problems().iter().find(|problem| problem.code() == Code::OpenSecret).unwrap();
        assert!(!format!("{problem:?} {problem} {}", problem.fix()).contains("hunter2"));
        (stage.short(problem), problem.fix().to_owned())
    };

    let (what, fix) = open("[alert.webhooks.x]\nurl = \"https://a/b\"\nsecret = \"hunter2\"");
    assert_eq!(what, "alert.webhooks.x.secret contains a secret in plain text (project/tidemill.toml:3:10)");
    assert_eq!(fix, "remove it and write secret = \"file:/path\" or \"env:NAME\"");
    let (_, fix) = open("[alert.webhooks.x]\nurl = \"https://user:hunter2@a/b\"");
    assert_eq!(fix, "remove it and write url = \"file:/path\" or \"env:NAME\"");
    open("[alert.webhooks.x]\nurl = \"https://a/b?token=hunter2\"");
}

#[test]
fn secrets_are_read_from_where_they_are_said_to_be_and_shown_by_nothing() {
    let stage = Stage::new()
        .file("project/url", "https://a.example:8443/hunter2?token=hunter2\n")
        .env("KEY", "hunter2")
        .project("[alert.webhooks.x]\nurl = \"file:url\"\nsecret = \"env:KEY\"");

    let loaded = stage.load().unwrap();

    let webhook = &loaded.settings.alert.webhooks["x"];
    assert!(webhook.url.expose().ends_with("hunter2") && !webhook.allow_private);
    assert!(!format!("{loaded:?}").contains("hunter2"), "{loaded:?}");
    assert_eq!(shown(&stage, "alert.webhooks.x.url").0, "https://a.example:8443/***");

    let problem =
        Stage::new().project("[alert.webhooks.x]\nurl = \"https://a\"\nsecret = \"env:NOT_SET\"").problem();
    assert_eq!(problem.code(), Code::BadValue);
    assert!(problem.to_string().starts_with("alert.webhooks.x.secret is not valid"), "{problem:?}");
    let problem = Stage::new().project("[alert.webhooks.x]\nurl = \"file:no\"").problem();
    assert_eq!(problem.code(), Code::FileUnreadable);
}

#[test]
fn only_addresses_of_the_web_are_webhooks() {
    for url in ["https://a", "http://a:80/b?c=d", "https://[::1]/x"] {
        assert!(Stage::new().project(format!("[alert.webhooks.x]\nurl = \"{url}\"")).load().is_ok(), "{url}");
    }
    for url in ["", "a", "ftp://a", "https://", "https:///x", "https://a b", "HTTPS//a"] {
        let problem = Stage::new().project(format!("[alert.webhooks.x]\nurl = \"{url}\"")).problem();
        assert_eq!(problem.code(), Code::BadValue, "{url}");
    }
}
