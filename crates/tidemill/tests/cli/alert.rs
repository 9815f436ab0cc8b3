//! `tidemill alert`, on both databases.

use crate::Stage;
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tidemill_domain::alert::{Reading, Severity, Subject};
use tidemill_store::Store;
use tidemill_store::alert::Judging;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![what_fires_is_listed_and_can_be_silenced,];

/// Lets `process_died` fire for a subject, as the evaluator would.
async fn fire(store: &Store, about: &str) {
    let (subject, channels) = (Subject::new(about).unwrap(), ["log".to_owned()]);
    let judging = Judging {
        rule: "process_died",
        subject: &subject,
        severity: Severity::Warning,
        hold: Duration::ZERO,
        channels: &channels,
        reading: Reading::Breached(2.0),
        detail: None,
    };
    let mut tx = store.begin().await.unwrap();
    tx.alerts().judge(judging, |_, notice| notice.to_string()).await.unwrap();
    tx.commit().await.unwrap();
}

fn items(stage: &Stage, arguments: &[&str]) -> Vec<Value> {
    let ran = stage.run(&[arguments, &["-o", "jsonl"]].concat());
    ran.succeeds().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn staged(scratch: &Scratch) -> (Stage, Store) {
    let store = scratch.store(None).await.unwrap();
    (Stage::on(scratch.url()).with("USER", "ann"), store)
}

async fn what_fires_is_listed_and_can_be_silenced(scratch: Scratch) {
    let (stage, store) = staged(&scratch).await;
    assert_eq!(stage.run(&["alert", "list"]).succeeds().stdout, "No alerts yet.\n");
    fire(&store, "all").await;

    let listed = items(&stage, &["alert", "list"]);
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["rule"], &listed[0]["subject"]), (&"process_died".into(), &"all".into()));
    assert_eq!((&listed[0]["state"], &listed[0]["severity"]), (&"firing".into(), &"warning".into()));
    assert_eq!((&listed[0]["value"], &listed[0]["silenced_until"]), (&2.0.into(), &Value::Null));
    let silence = ["alert", "silence", "process_died", "--for", "1h", "--reason", "we know"];
    let silenced = items(&stage, &silence);
    assert_eq!((&silenced[0]["by"], &silenced[0]["reason"]), (&"ann".into(), &"we know".into()));
    assert_eq!(items(&stage, &["alert", "list"])[0]["silenced_until"], silenced[0]["until"]);

    stage.run(&["alert", "unsilence", "process_died"]).succeeds();
    assert_eq!(items(&stage, &["alert", "list"])[0]["silenced_until"], Value::Null);
    stage.run(&["alert", "unsilence", "process_died"]).fails("TM0402", 3);
    for action in ["alert.silence", "alert.unsilence"] {
        let log = items(&stage, &["audit", "list", "--action", action]);
        assert_eq!((log.len(), &log[0]["actor"], &log[0]["role"]), (1, &"ann".into(), &"local".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_subject_can_be_silenced_alone() {
    let scratch = Scratch::file();
    let (stage, store) = staged(&scratch).await;
    fire(&store, "host/a").await;
    fire(&store, "host/b").await;

    let silence =
        ["alert", "silence", "process_died", "--subject", "host/a", "--for", "30m", "--reason", "moving"];
    assert_eq!(items(&stage, &silence)[0]["subject"], "host/a");

    let listed = items(&stage, &["alert", "list"]);
    let silenced: Vec<&Value> = listed.iter().filter(|alert| !alert["silenced_until"].is_null()).collect();
    assert_eq!((silenced.len(), &silenced[0]["subject"]), (1, &"host/a".into()));
    stage.run(&["alert", "unsilence", "process_died"]).fails("TM0402", 3);
    stage.run(&["alert", "unsilence", "process_died", "--subject", "host/a"]).succeeds();
}

#[test]
fn a_silence_without_rule_reason_or_end_is_refused() {
    let stage = Stage::new();
    let silence = |rule: &str, length: &str, reason: &str| {
        stage.run(&["alert", "silence", rule, "--for", length, "--reason", reason])
    };

    let ran = silence("proces_died", "1h", "x");
    ran.fails("TM0401", 3);
    assert!(ran.stderr.contains("process_died, database_slow"), "{}", ran.stderr);
    silence("process_died", "0s", "x").fails("TM0002", 2);
    silence("process_died", "15", "x").fails("TM0002", 2);
    silence("process_died", "1h", " ").fails("TM0002", 2);
    stage.run(&["alert", "silence", "process_died", "--for", "1h"]).fails("TM0002", 2);
    stage.run(&["alert", "silence", "process_died", "--reason", "x"]).fails("TM0002", 2);
    assert!(!stage.path("tidemill.db").exists(), "nothing was touched");
}

#[test]
fn the_rules_are_those_of_the_configuration() {
    let stage = Stage::new();
    fs::write(
        stage.path("tidemill.toml"),
        "[alert.rules.lonely]\nsignal = \"processes_live\"\nbelow = 2\nfor = \"90s\"\n\
         [alert.rules.database_slow]\nenabled = false\n",
    )
    .unwrap();

    let rules = items(&stage, &["alert", "rules"]);

    let names: Vec<&str> = rules.iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!((&names[..2], names.last().unwrap()), (&["process_died", "database_slow"][..], &"lonely"));
    let lonely = rules.last().unwrap();
    assert_eq!((&lonely["condition"], &lonely["for"]), (&"below 2".into(), &"1m30s".into()));
    assert_eq!((&rules[1]["enabled"], &lonely["enabled"]), (&false.into(), &true.into()));
    let shown = items(&stage, &["config", "show", "--origin"]);
    let below = shown.iter().find(|value| value["key"] == "alert.rules.lonely.below").unwrap();
    assert_eq!(below["value"], "2");
    assert!(below["origin"].as_str().unwrap().ends_with("tidemill.toml:3:9"), "{below}");
}

#[test]
fn a_misspelt_rule_stops_the_program_before_it_goes_unheard() {
    let stage = Stage::new();
    fs::write(stage.path("tidemill.toml"), "[alert.rules.x]\nsignal = \"proceses_live\"\nbelow = 2\n")
        .unwrap();

    let ran = stage.run(&["alert", "rules"]);

    ran.fails("TM0102", 2);
    assert!(ran.stderr.contains("did you mean processes_live?"), "{}", ran.stderr);
}
