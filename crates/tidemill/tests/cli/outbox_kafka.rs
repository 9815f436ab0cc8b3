//! The relay as a process, with Kafka as its sink.

use crate::Stage;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(180);

/// Makes a topic.
const MAKE: &str = "
import sys
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({'bootstrap.servers': sys.argv[1]})
[made.result(60) for made in admin.create_topics([NewTopic(sys.argv[2], int(sys.argv[3]), 1)]).values()]
# The broker that everybody asks hears of it a moment after the controller has made it.
while True:
    there = admin.list_topics(sys.argv[2], timeout=60).topics[sys.argv[2]]
    if there.error is None and all(part.leader >= 0 for part in there.partitions.values()):
        break
";

/// What a program in Python with a client that is not ours says; none when tests with Kafka are to be skipped.
pub(crate) fn python(arguments: &[&str]) -> Option<String> {
    let program = require("kafka", std::env::var("TIDEMILL_TEST_KAFKA_PYTHON").ok())?;
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Makes a topic; none when tests with Kafka are to be skipped.
pub(crate) fn make_topic(servers: &str, topic: &str, partitions: u32) -> Option<()> {
    python(&["-c", MAKE, servers, topic, &partitions.to_string()]).map(drop)
}

/// Everything that another client reads of a topic, a line for each message; none when tests with Kafka are to be skipped.
pub(crate) fn consume(servers: &str, topic: &str, options: &[&str]) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kafka/tests/python/consume.py");
    python(&[&[script.to_str().unwrap(), servers, topic], options].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_the_command_line_arrives_in_kafka() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let database = Scratch::file();
    database.store(None).await.unwrap().close().await;
    let stage = Stage::on(database.url());
    let topic = format!("cli-{}", std::process::id());
    make_topic(&servers, &topic, 1);
    let aggregate = ["outbox", "add", "--aggregate-type", "order", "--aggregate-id", "주문-1"];
    let event = ["--event-type", "order.paid", "--topic", &topic, "--payload", "{\"amount\": 5}"];
    let added = stage.run(&[aggregate, event].concat());
    added.succeeds();

    let mut command = stage.command(&["relay", "--sink", "kafka"]);
    command.env("KAFKA_BOOTSTRAP_SERVERS", &servers);
    let mut relay = Guarded::spawn(command).unwrap();
    let clock = SystemClock::new();
    let start = clock.monotonic();
    while !stage.run(&["outbox", "show", "1", "-o", "json"]).stdout.contains("\"published\"") {
        assert!(clock.monotonic().since(start) < PATIENCE, "it is not published");
        std::thread::sleep(Duration::from_millis(100));
    }
    relay.signal(Signal::TERM).unwrap();
    let ended = relay.wait_deadline(PATIENCE).expect("it ends");

    assert!(ended.success(), "{ended:?}");
    let read = consume(&servers, &topic, &[]).unwrap();
    let read: serde_json::Value = serde_json::from_str(&read).unwrap();
    assert_eq!((&read["key"], &read["value"]), (&"주문-1".into(), &"eyJhbW91bnQiOiA1fQ==".into()));
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_runs() {
    for (file, sink, code, helps) in [
        ("", "kafka", "TM1421", "KAFKA_BOOTSTRAP_SERVERS"),
        ("[outbox.kafka]\noptions = \"acks=0\"", "kafka:a:1", "TM1420", "the options are batch.num.messages"),
        ("[outbox.kafka]\nsecurity = \"sasl_ssl\"", "kafka:a:1", "TM1421", "sasl_username"),
        ("[outbox.kafka]\nsasl_username = \"shop\"", "kafka:a:1", "TM1421", "security"),
        ("[outbox.kafka]\ntopic_prefix = \"a b\"", "kafka:a:1", "TM1421", "topic"),
        (
            "[outbox.kafka]\nsecurity = \"ssl\"\nssl_ca = \"/no/such/file\"",
            "kafka:a:1",
            "TM1421",
            "ssl.ca.location",
        ),
        ("", "kafka:", "TM1402", "kafka"),
    ] {
        let stage = Stage::new();
        std::fs::write(stage.path("tidemill.toml"), file).unwrap();

        let ran = stage.run(&["relay", "--sink", sink]);

        assert!(ran.stderr.contains(code) && ran.stderr.contains(helps), "{file}: {ran:#?}");
    }
}
