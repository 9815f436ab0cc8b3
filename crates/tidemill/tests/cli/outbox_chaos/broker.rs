//! A real Kafka of this test's own: what is done to it, and what a client that is not ours reads from it.

use super::ledger::{Published, Records};
use crate::outbox_kafka;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;
use tidemill_testkit::kafka::find_home;
use tidemill_testkit::{KafkaOptions, PrivateKafka, skip};

const TOPIC: &str = "things";
const PARTITIONS: u32 = 6;

/// How long it answers nothing: longer than a relay waits for an answer.
const PAUSE: Duration = Duration::from_secs(4);

/// How records are delivered, and how they are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// Variables of the relays.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// The isolation level of those who read.
    pub(super) isolation: &'static str,
    /// Whether nothing may be there twice.
    pub(super) is_exactly_once: bool,
}

impl Delivery {
    /// What relays do unless they are told otherwise.
    pub(super) const AT_LEAST_ONCE: Self =
        Self { settings: &[], isolation: "read_uncommitted", is_exactly_once: false };

    /// In transactions, for those who read what was committed.
    pub(super) const EXACTLY_ONCE: Self = Self {
        settings: &[("TIDEMILL_OUTBOX_KAFKA_TRANSACTIONAL", "true")],
        isolation: "read_committed",
        is_exactly_once: true,
    };
}

/// A running broker with a topic.
pub(super) struct Broker {
    server: PrivateKafka,
    pub(super) delivery: Delivery,
}

/// A message, as the other client tells of it.
#[derive(Deserialize)]
struct Message {
    partition: i64,
    offset: i64,
    key: String,
    headers: Vec<(String, String)>,
}

impl Message {
    fn number(&self, name: &str) -> i64 {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.expect("a header of ours").1.parse().unwrap()
    }

    fn published(self) -> Published {
        Published {
            id: self.number("tidemill-event-id"),
            slot: self.number("tidemill-slot"),
            epoch: self.number("tidemill-epoch"),
            aggregate_id: self.key,
        }
    }
}

impl Broker {
    /// None when tests with Kafka are to be skipped.
    pub(super) fn start(delivery: Delivery) -> Option<Self> {
        skip::require("kafka", find_home())?;
        let server = PrivateKafka::start(&KafkaOptions::default()).unwrap();
        outbox_kafka::make_topic(&server.bootstrap_servers(), TOPIC, PARTITIONS)?;
        Some(Self { server, delivery })
    }

    pub(super) fn servers(&self) -> String {
        self.server.bootstrap_servers()
    }

    /// It keeps its connections and answers nothing for a while.
    pub(super) async fn pause(&mut self) {
        self.server.pause().unwrap();
        tokio::time::sleep(PAUSE).await;
        self.server.resume().unwrap();
    }

    /// It is killed, and starts again.
    pub(super) fn crash(&mut self) {
        self.server.crash();
        self.server.restart().unwrap();
    }

    /// The bytes of its logs.
    pub(super) fn growth(&self) -> Box<dyn Fn() -> u64 + Send> {
        let folder = self.server.log_folder();
        let logs: Vec<_> =
            (0..PARTITIONS).map(|n| folder.join(format!("{TOPIC}-{n}/00000000000000000000.log"))).collect();
        Box::new(move || logs.iter().filter_map(|log| fs::metadata(log).ok()).map(|found| found.len()).sum())
    }

    /// All records, partition by partition: an aggregate has one.
    pub(super) fn records(&self) -> Records {
        let isolation = format!("isolation.level={}", self.delivery.isolation);
        let read = outbox_kafka::consume(&self.servers(), TOPIC, &[&isolation]).expect("is not skipped");
        let mut messages: Vec<Message> =
            read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        messages.sort_by_key(|message| (message.partition, message.offset));
        let mut partitions: HashMap<&str, i64> = HashMap::new();
        for Message { partition, key, .. } in &messages {
            let first = *partitions.entry(key).or_insert(*partition);
            assert_eq!(first, *partition, "{key} is in two partitions");
        }
        let records = messages.into_iter().map(Message::published).collect();
        Records { records, torn: 0 }
    }
}
