//! Reads given partitions of a topic from one offset to another. It joins no group and commits nothing; the caller
//! keeps the position. All of it blocks, so run it on its own thread.

use crate::failure::{ErrorClass, ReadFailure};
use crate::options::KafkaOptions;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message as _, Offset, TopicPartitionList};
use std::ops::ControlFlow;
use std::time::Duration;
use tidemill_domain::time::{Clock as _, Timestamp};
use tidemill_engine::SystemClock;

/// Timeout of one poll; after it, `each` decides whether to go on.
const POLL: Duration = Duration::from_millis(100);

/// Timeout of one request; it is retried until `patience` ends.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

const BETWEEN_QUESTIONS: Duration = Duration::from_millis(200);

/// Allow-listed options that only a producer has.
const OF_PRODUCERS: [&str; 6] = [
    "batch.num.messages",
    "batch.size",
    "compression.level",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "request.timeout.ms",
];

tidemill_domain::words! {
    #[derive(Default)]
    pub enum Isolation {
        /// Records of committed transactions, and records without a transaction.
        #[default]
        ReadCommitted = "read_committed",
        /// All records, also those of aborted transactions.
        ReadUncommitted = "read_uncommitted",
    }
}

/// The visible offsets of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) first: i64,
    /// One past the last offset; with [`Isolation::ReadCommitted`] the first offset of an open transaction.
    pub(crate) end: i64,
}

impl Bounds {
    pub(crate) fn gone(self, topic: &str, partition: i32, offset: i64) -> ReadFailure {
        ReadFailure::Gone { topic: topic.to_owned(), partition, offset, first: self.first, end: self.end }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) from: i64,
    /// Exclusive.
    pub(crate) to: i64,
}

pub(crate) struct Consumer {
    client: BaseConsumer<QuietContext>,
    servers: String,
    /// How long to wait without receiving anything.
    patience: Duration,
    clock: SystemClock,
}

impl Consumer {
    pub(crate) fn new(
        options: &KafkaOptions,
        isolation: Isolation,
        patience: Duration,
    ) -> Result<Self, ReadFailure> {
        options.security.check()?;
        let client = BaseConsumer::from_config_and_context(&config(options, isolation), QuietContext);
        let client = client.map_err(|error| crate::options::KafkaError::Refused(error.to_string()))?;
        Ok(Self { client, servers: options.bootstrap_servers.clone(), patience, clock: SystemClock::new() })
    }

    pub(crate) fn partitions(&self, topic: &str) -> Result<Vec<i32>, ReadFailure> {
        self.ask(topic, |wait| {
            let metadata = self.client.fetch_metadata(Some(topic), wait)?;
            let Some(found) = metadata.topics().first() else {
                return Err(ClientError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition));
            };
            if let Some(error) = found.error() {
                return Err(ClientError::MetadataFetch(error.into()));
            }
            let mut partitions: Vec<i32> = found.partitions().iter().map(|found| found.id()).collect();
            partitions.sort_unstable();
            Ok(partitions)
        })
    }

    pub(crate) fn bounds(&self, topic: &str, partition: i32) -> Result<Bounds, ReadFailure> {
        let (first, end) = self.ask(topic, |wait| self.client.fetch_watermarks(topic, partition, wait))?;
        Ok(Bounds { first, end })
    }

    /// The first record at or after an instant; `None` if all are older.
    pub(crate) fn since(
        &self,
        topic: &str,
        partition: i32,
        instant: Timestamp,
    ) -> Result<Option<i64>, ReadFailure> {
        let found = self.ask(topic, |wait| {
            let mut wanted = TopicPartitionList::new();
            let millis = Offset::Offset(instant.as_micros().div_euclid(1000));
            wanted.add_partition_offset(topic, partition, millis)?;
            self.client.offsets_for_times(wanted, wait)
        })?;
        Ok(found.find_partition(topic, partition).and_then(|found| match found.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }))
    }

    /// Reads the rest of a span in order, until it ends or `each` breaks; `each` also runs while nothing arrives. Skips
    /// offsets without a record, which compaction and transactions leave; a deleted offset is a failure.
    pub(crate) fn read(
        &self,
        span: &Span<'_>,
        each: &mut dyn FnMut(Option<&BorrowedMessage<'_>>) -> ControlFlow<()>,
    ) -> Result<(), ReadFailure> {
        if span.from >= span.to {
            return Ok(());
        }
        self.assign(span, span.from)?;
        let (mut next, mut heard, mut complaint) = (span.from, self.clock.monotonic(), None);
        let mut is_known_to_be_there = false;
        loop {
            match self.client.poll(POLL) {
                None => {
                    if each(None).is_break() {
                        return Ok(());
                    }
                    if self.clock.monotonic().since(heard) >= self.patience {
                        return Err(self.failure(span.topic, complaint));
                    }
                }
                Some(Ok(message)) => {
                    // Skip records that are early or repeated.
                    let is_ours = message.partition() == span.partition && message.topic() == span.topic;
                    if !is_ours || message.offset() < next {
                        continue;
                    }
                    if message.offset() >= span.to {
                        return Ok(());
                    }
                    (next, is_known_to_be_there) = (message.offset() + 1, false);
                    if each(Some(&message)).is_break() || next >= span.to {
                        return Ok(());
                    }
                    // `each` may have been slow.
                    heard = self.clock.monotonic();
                }
                Some(Err(ClientError::PartitionEOF(partition))) if partition == span.partition => {
                    if is_known_to_be_there {
                        return Ok(());
                    }
                    // A new leader may not know the end of its partition yet: check the end, then ask once more. The rest
                    // of the span may be offsets without a record, unless the partition was truncated.
                    let bounds = self.bounds(span.topic, span.partition)?;
                    if bounds.end < span.to {
                        return Err(bounds.gone(span.topic, span.partition, next));
                    }
                    is_known_to_be_there = true;
                    self.assign(span, next)?;
                    heard = self.clock.monotonic();
                }
                Some(Err(error)) => complaint = self.judge(span, next, error)?.or(complaint),
            }
        }
    }

    fn assign(&self, span: &Span<'_>, from: i64) -> Result<(), ReadFailure> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(span.topic, span.partition, Offset::Offset(from))
            .and_then(|()| self.client.assign(&list))
            .map_err(|error| self.failure(span.topic, error.rdkafka_error_code()))
    }

    /// Returns a final error; remembers the code of one that may pass.
    fn judge(
        &self,
        span: &Span<'_>,
        next: i64,
        error: ClientError,
    ) -> Result<Option<RDKafkaErrorCode>, ReadFailure> {
        let code = error.rdkafka_error_code();
        match (code, error) {
            (Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange), _) => {
                let bounds = self.bounds(span.topic, span.partition)?;
                Err(bounds.gone(span.topic, span.partition, next))
            }
            (Some(RDKafkaErrorCode::TopicAuthorizationFailed), _)
            | (_, ClientError::MessageConsumptionFatal(_)) => Err(self.failure(span.topic, code)),
            (code, error) => {
                tracing::debug!(%error, "reading topic {} was interrupted", span.topic);
                Ok(code)
            }
        }
    }

    /// Retries until an answer, a final error, or the end of `patience`.
    fn ask<T>(&self, topic: &str, question: impl Fn(Duration) -> KafkaResult<T>) -> Result<T, ReadFailure> {
        let since = self.clock.monotonic();
        loop {
            let code = match question(ANSWER_WITHIN.min(self.patience)) {
                Ok(answer) => return Ok(answer),
                Err(error) => error.rdkafka_error_code(),
            };
            let is_final = code.is_some_and(|code| ErrorClass::of(code) == ErrorClass::Topic);
            if is_final || self.clock.monotonic().since(since) >= self.patience {
                return Err(self.failure(topic, code));
            }
            std::thread::sleep(BETWEEN_QUESTIONS);
        }
    }

    fn failure(&self, topic: &str, code: Option<RDKafkaErrorCode>) -> ReadFailure {
        match code {
            Some(code) if ErrorClass::of(code) == ErrorClass::Topic => {
                ReadFailure::Topic { topic: topic.to_owned(), why: code.to_string() }
            }
            code => ReadFailure::Unreachable {
                servers: self.servers.clone(),
                waited: self.patience,
                why: code.map_or_else(|| "there was no answer".to_owned(), |code| code.to_string()),
            },
        }
    }
}

fn config(options: &KafkaOptions, isolation: Isolation) -> ClientConfig {
    let mut config = options.client_config(&[("queued.max.messages.kbytes", "16384")], &OF_PRODUCERS);
    config
        // The client requires a group id; it never joins the group.
        .set("group.id", "tidemill-reader")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .set("allow.auto.create.topics", "false")
        .set("check.crcs", "true")
        // How long the broker waits for more at the end of a partition.
        .set("fetch.wait.max.ms", "50")
        .set("isolation.level", isolation.as_str());
    config
}

#[derive(Debug)]
struct QuietContext;

impl ClientContext for QuietContext {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "tidemill_kafka::client", "{facility}: {message}");
    }
}

impl ConsumerContext for QuietContext {}
