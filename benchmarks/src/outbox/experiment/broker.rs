//! A real Kafka, and the records that another client reads from it.

use super::INSTANCES;
use super::document::{record, sent};
use anyhow::{Context, Result, ensure};
use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::Publisher;
use tidemill_kafka::{Compression, KafkaOptions, KafkaPublisher, Topics};
use tidemill_testkit::PrivateKafka;
use tidemill_testkit::kafka::Life;

/// The environment variable with the path of a Python that has a Kafka client.
const PYTHON: &str = "TIDEMILL_TEST_KAFKA_PYTHON";

/// Partitions per topic, one per instance.
const PARTITIONS: u32 = INSTANCES;

/// The topic of all events. Each run adds its own prefix.
const TOPIC: &str = "transfers";

/// The topic of the record that each client sends before the measurement.
const FIRST: &str = "first";

pub(super) struct Broker {
    kafka: PrivateKafka,
    python: String,
    runs: AtomicU32,
}

/// The content of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// The number of distinct events.
    pub(super) events: u64,
    /// Aggregates with an event that first appears after a later one.
    pub(super) disordered: u64,
}

impl Broker {
    pub(super) fn start() -> Result<Self> {
        let python =
            std::env::var(PYTHON).with_context(|| format!("{PYTHON} is not set; use cargo xtask bench"))?;
        let options = tidemill_testkit::KafkaOptions { life: Life::Long, ..Default::default() };
        let kafka = PrivateKafka::start(&options)?;
        Ok(Self { kafka, python, runs: AtomicU32::new(0) })
    }

    /// Creates separate topics for a run, and returns their prefix.
    pub(super) fn make_topic(&self) -> Result<Topics> {
        let prefix = format!("r{}.", self.runs.fetch_add(1, Ordering::Relaxed));
        for topic in [TOPIC, FIRST] {
            self.ask(&["make", &format!("{prefix}{topic}"), &PARTITIONS.to_string()])?;
        }
        Ok(Topics::new(prefix, Vec::new())?)
    }

    /// A Kafka client with the settings of the original designs: all replicas acknowledge, a record waits 5 ms for others, and
    /// nothing is compressed. It has already sent a record, like a client that has been running for a while.
    pub(super) async fn publisher(&self, topics: &Topics) -> Result<Arc<KafkaPublisher>> {
        let mut options = KafkaOptions::new(self.kafka.bootstrap_servers());
        options.topics = topics.clone();
        options.linger = Duration::from_millis(5);
        options.compression = Compression::None;
        options.delivery_timeout = Duration::from_secs(60);
        let publisher = KafkaPublisher::new(options, Arc::new(SystemClock::new()))?;
        let first =
            record((0, "client".into(), "0".into(), "client.started".into(), FIRST.into(), None, None));
        sent(&publisher.publish(&[first]).await)?;
        Ok(Arc::new(publisher))
    }

    pub(super) fn read(&self, topics: &Topics) -> Result<Read> {
        let told = self.ask(&["read", &topics.of("", TOPIC, false)])?;
        let mut known = HashSet::new();
        let mut last: HashMap<&str, i64> = HashMap::new();
        let mut disordered = HashSet::new();
        for line in told.lines() {
            let (id, key) = line.split_once(' ').context("a line of the reader")?;
            let id: i64 = id.parse()?;
            if known.insert(id) && last.insert(key, id).is_some_and(|before| before > id) {
                disordered.insert(key);
            }
        }
        Ok(Read { events: known.len() as u64, disordered: disordered.len() as u64 })
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.python);
        command.args(["-c", include_str!("broker.py")]).arg(self.kafka.bootstrap_servers()).args(words);
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}
