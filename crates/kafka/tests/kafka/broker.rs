//! The broker that the tests share, and what can be read from it.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{Aggregate, EventId, Payload, Record, Seq};
use tidemill_domain::time::Timestamp;
use tidemill_engine::SystemClock;
use tidemill_kafka::{KafkaOptions, KafkaPublisher};
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip;

/// Where the Python is that has a client of Kafka.
const PYTHON: &str = "TIDEMILL_TEST_KAFKA_PYTHON";

/// Where the shared broker is; none when its tests are to be skipped.
pub(super) fn shared() -> Option<String> {
    skip::require("kafka", variable(BOOTSTRAP))
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// A topic of this test's own.
pub(super) async fn topic(servers: &str, partitions: i32, settings: &[(&str, &str)]) -> String {
    let name = unique("topic");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let topic = settings
        .iter()
        .fold(NewTopic::new(&name, partitions, TopicReplication::Fixed(1)), |topic, (name, value)| {
            topic.set(name, value)
        });
    let made = admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
    made.into_iter().for_each(|made| drop(made.unwrap()));
    name
}

/// A name that no other test has.
pub(super) fn unique(what: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn publisher(servers: &str, adapt: impl FnOnce(&mut KafkaOptions)) -> KafkaPublisher {
    let mut options = KafkaOptions::new(servers);
    // The machine may be busy with other tests.
    options.delivery_timeout = std::time::Duration::from_secs(30);
    adapt(&mut options);
    KafkaPublisher::new(options, Arc::new(SystemClock::new())).unwrap()
}

/// A record of an aggregate of the type `order`.
pub(super) fn record(id: i64, aggregate: &str, topic: &str, payload: Payload) -> Record {
    let aggregate = Aggregate { kind: "order".into(), id: aggregate.into() };
    Record {
        id: EventId::new(id),
        table: None,
        slot: aggregate.slot(),
        epoch: Epoch::new(1),
        seq: Seq::new(id),
        aggregate,
        event_type: "order.paid".into(),
        topic: topic.into(),
        is_redirected: false,
        headers: BTreeMap::new(),
        payload,
        created_at: Timestamp::EPOCH,
    }
}

pub(super) fn json(text: &str) -> Payload {
    Payload::Json(text.to_owned())
}

/// What the other client has read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Read {
    pub(super) partition: i64,
    pub(super) key: String,
    /// In Base64.
    pub(super) value: Option<String>,
    pub(super) headers: Vec<(String, String)>,
}

impl Read {
    pub(super) fn header(&self, name: &str) -> &str {
        let found: Vec<&str> =
            self.headers.iter().filter(|(other, _)| other == name).map(|(_, text)| text.as_str()).collect();
        assert_eq!(found.len(), 1, "{name} in {:?}", self.headers);
        found[0]
    }

    pub(super) fn id(&self) -> i64 {
        self.header("tidemill-event-id").parse().unwrap()
    }
}

/// Reads all of a topic, partition by partition.
pub(super) fn consume(servers: &str, topic: &str, options: &[String]) -> Vec<Read> {
    let python = skip::require("kafka", variable(PYTHON)).expect("is not skipped");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/consume.py");
    let output = Command::new(python)
        .arg(script)
        .args([servers, topic])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut messages: Vec<(i64, Read)> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let message: Value = serde_json::from_str(line).unwrap();
            let headers = message["headers"].as_array().unwrap();
            let read = Read {
                partition: message["partition"].as_i64().unwrap(),
                key: text(&message["key"]),
                value: message["value"].as_str().map(str::to_owned),
                headers: headers.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            };
            (message["offset"].as_i64().unwrap(), read)
        })
        .collect();
    messages.sort_by_key(|(offset, read)| (read.partition, *offset));
    messages.into_iter().map(|(_, read)| read).collect()
}

/// How often something came that had come before; the first time of each must be in the order of ids, for each key.
pub(super) fn doubles_in_order(reads: &[Read]) -> usize {
    let mut last: HashMap<&str, i64> = HashMap::new();
    let mut known = HashSet::new();
    for read in reads {
        if known.insert(read.id()) {
            let before = last.insert(&read.key, read.id()).unwrap_or_default();
            assert!(before < read.id(), "{} came after {before} of {}", read.id(), read.key);
        }
    }
    reads.len() - known.len()
}
