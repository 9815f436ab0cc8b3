//! The doctor looks at real services: one that is there, one that is not, and one that does not answer.

use crate::Stage;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::time::Duration;
use tidemill::SystemClock;
use tidemill::time::Clock;
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip::require;

/// What the doctor says of one thing, and how it ended.
fn check(stage: &Stage, name: &str) -> (Value, Option<i32>) {
    let ran = stage.run(&["doctor", "-o", "json"]);
    let all: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    let found = all["items"].as_array().unwrap().iter().find(|check| check["check"] == name);
    (found.unwrap_or_else(|| panic!("no line for {name}: {all}")).clone(), ran.code)
}

fn text<'a>(check: &'a Value, column: &str) -> &'a str {
    check[column].as_str().unwrap_or_default()
}

#[test]
fn brokers_that_nobody_serves_are_told_within_seconds_with_a_remedy() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for servers in [format!("127.0.0.1:{port}"), silent.local_addr().unwrap().to_string()] {
        let stage =
            Stage::new().with("TIDEMILL_OUTBOX_SINK", "kafka").with("KAFKA_BOOTSTRAP_SERVERS", &servers);

        let clock = SystemClock::new();
        let begun = clock.monotonic();
        let (kafka, code) = check(&stage, "Kafka");

        assert_eq!((text(&kafka, "status"), code), ("failed", Some(1)), "{kafka}");
        assert!(
            text(&kafka, "detail").contains(&servers) && text(&kafka, "detail").contains("TM1450"),
            "{kafka}"
        );
        assert!(text(&kafka, "fix").contains("outbox.kafka.bootstrap_servers"), "{kafka}");
        assert!(clock.monotonic().since(begun) < Duration::from_secs(60));
    }
}

#[test]
fn settings_of_kafka_that_make_no_sense_are_told_without_asking_anybody() {
    let stage = Stage::new().with("TIDEMILL_OUTBOX_SINK", "kafka");

    let (kafka, code) = check(&stage, "Kafka");

    assert_eq!((text(&kafka, "status"), code), ("failed", Some(1)), "{kafka}");
    assert!(text(&kafka, "fix").contains("KAFKA_BOOTSTRAP_SERVERS"), "{kafka}");
}

#[test]
fn brokers_that_are_there_say_how_many_they_are() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let stage = Stage::new().with("TIDEMILL_OUTBOX_SINK", &format!("kafka:{servers}"));

    let (kafka, code) = check(&stage, "Kafka");

    assert_eq!((text(&kafka, "status"), code), ("ok", Some(0)), "{kafka}");
    assert!(text(&kafka, "detail").contains("1 brokers"), "{kafka}");
}

#[test]
fn what_is_not_configured_is_not_looked_at() {
    let ran = Stage::new().with("TIDEMILL_OUTBOX_SINK", "file:events.jsonl").run(&["doctor"]);

    for name in ["Kafka", "nexrender", "NAS", "ffprobe"] {
        assert!(!ran.succeeds().stdout.contains(name), "{ran:#?}");
    }
    for name in ["✓ configuration", "✓ database", "✓ clocks", "✓ disk"] {
        assert!(ran.stdout.contains(name), "{ran:#?}");
    }
}

#[test]
fn the_disk_is_looked_at_also_where_the_database_cannot_be_opened() {
    let stage = Stage::new();
    fs::write(stage.path("tidemill.db"), "this is no database, and has more than a hundred bytes ".repeat(4))
        .unwrap();

    let (database, code) = check(&stage, "database");
    let (disk, _) = check(&stage, "disk");

    assert_eq!((text(&database, "status"), code), ("failed", Some(1)), "{database}");
    assert!(text(&disk, "detail").contains("MiB free"), "{disk}");
}

#[test]
fn a_nas_says_how_much_room_it_has_and_whether_it_is_mounted() {
    let nexrender = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = Stage::new();
    let nas = stage.path("nas");
    fs::create_dir_all(nas.join("broadcast/output")).unwrap();
    fs::create_dir_all(nas.join("broadcast/.staging")).unwrap();
    let stage = stage
        .with("TIDEMILL_RENDER_MOUNT", &nas.display().to_string())
        .with("NEXRENDER_API_URL", &format!("http://{nexrender}"));

    let (unmounted, code) = check(&stage, "NAS");
    let stage = stage.with("TIDEMILL_RENDER_MOUNT_CHECK", "false");
    let (here, _) = check(&stage, "NAS");
    let (farm, _) = check(&stage, "nexrender");

    assert_eq!((text(&unmounted, "status"), code), ("failed", Some(1)), "{unmounted}");
    assert!(text(&unmounted, "detail").contains("nothing is mounted"), "{unmounted}");
    assert!(text(&unmounted, "fix").contains("render.mount"), "{unmounted}");
    assert!(text(&here, "detail").contains("is writable, "), "{here}");
    assert!(text(&here, "detail").ends_with(" MiB free"), "{here}");
    assert!(text(&farm, "fix").starts_with("start nexrender"), "{farm}");
}
