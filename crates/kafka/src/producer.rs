//! One producer. It is used until something fails and is then replaced: its queue is dropped, and its successor starts
//! with the first record that has not arrived.
//!
//! Three settings keep the order of a partition. Idempotence: a broker accepts a batch only after the previous one.
//! `enable.gapless.guarantee`: when a broker rejects a batch for good, the producer fails instead of continuing with
//! the next. And no timeout in the client (`message.timeout.ms` 0): it would drop single records and send later ones.
//! The publisher has one timeout for everything.

use crate::delivery::{Report, Wave};
use crate::failure::ReadFailure;
use crate::header;
use crate::options::{KafkaError, KafkaOptions};
use crate::writer::KafkaMessage;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::message::{Header, OwnedHeaders, ToBytes};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message as _};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tidemill_domain::outbox::{Payload, Record};
use tokio::sync::Notify;

/// Pause when the queue is full.
const WHEN_FULL: Duration = Duration::from_millis(2);

/// The client's minimum for a transaction. Shorter publications are ended by us.
const TRANSACTION_TIMEOUT_MIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Pace {
    /// In batches, several in flight at once.
    #[default]
    Together,
    /// One at a time, so that a rejected record is known.
    Singly,
}

type Client = ThreadedProducer<Context>;

pub(crate) struct Producer {
    /// Taken on drop.
    client: Option<Client>,
    is_closed: RwLock<bool>,
}

impl Producer {
    /// Does not connect yet, so the brokers may be down.
    pub(crate) fn new(options: &KafkaOptions, pace: Pace) -> Result<Self, KafkaError> {
        let mut config = config(options, pace);
        config.set("enable.gapless.guarantee", "true").set("message.timeout.ms", "0");
        Self::of(&config)
    }

    /// For atomic publication. A sequence gap fails the transaction, and so does a slow record, before another owner
    /// could take over.
    pub(crate) fn transactional(options: &KafkaOptions, id: &str, pace: Pace) -> Result<Self, KafkaError> {
        let mut config = config(options, pace);
        let within = options.delivery_timeout.max(TRANSACTION_TIMEOUT_MIN).as_millis().to_string();
        config.set("transactional.id", id).set("transaction.timeout.ms", within);
        Self::of(&config)
    }

    fn of(config: &ClientConfig) -> Result<Self, KafkaError> {
        let client = ThreadedProducer::from_config_and_context(config, Context::default());
        let client = client.map_err(|error| KafkaError::Refused(error.to_string()))?;
        Ok(Self { client: Some(client), is_closed: RwLock::new(false) })
    }

    /// The delivery report goes to the wave under this number.
    pub(crate) async fn send(
        &self,
        topic: &str,
        record: &Record,
        cloud_events_source: Option<&str>,
        (wave, n): (&Arc<Wave>, usize),
    ) -> Result<(), RDKafkaErrorCode> {
        let payload = match &record.payload {
            Payload::Json(text) => Some(text.as_bytes()),
            Payload::Bytes(bytes) => Some(bytes.as_slice()),
            Payload::Tombstone => None,
        };
        let message = BaseRecord::with_opaque_to(topic, Box::new((wave.clone(), n)))
            .key(record.aggregate.id.as_str())
            .headers(header::of(record, cloud_events_source));
        self.give(BaseRecord { payload, ..message }).await
    }

    pub(crate) async fn send_text(
        &self,
        (topic, partition): (&str, i32),
        (key, text): (&str, &str),
        (wave, n): (&Arc<Wave>, usize),
    ) -> Result<(), RDKafkaErrorCode> {
        let message = BaseRecord::with_opaque_to(topic, Box::new((wave.clone(), n)))
            .partition(partition)
            .key(key)
            .payload(text.as_bytes());
        self.give(message).await
    }

    /// Sends what a job writes, without headers of our own.
    pub(crate) async fn send_message(
        &self,
        topic: &str,
        message: &KafkaMessage,
        (wave, n): (&Arc<Wave>, usize),
    ) -> Result<(), RDKafkaErrorCode> {
        let headers = message
            .headers
            .iter()
            .fold(OwnedHeaders::new_with_capacity(message.headers.len()), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value) })
            });
        let record: BaseRecord<'_, [u8], [u8], Receipt> =
            BaseRecord::with_opaque_to(topic, Box::new((wave.clone(), n))).headers(headers);
        let (key, payload) = (message.key.as_deref(), message.payload.as_deref());
        self.give(BaseRecord { key, payload, ..record }).await
    }

    /// Waits while the queue is full.
    async fn give<K: ToBytes + ?Sized>(
        &self,
        mut message: BaseRecord<'_, K, [u8], Receipt>,
    ) -> Result<(), RDKafkaErrorCode> {
        loop {
            message = {
                // `close` takes the write lock, so nothing is queued after the purge.
                let is_closed = self.is_closed.read().unwrap_or_else(PoisonError::into_inner);
                let (false, Some(client)) = (*is_closed, &self.client) else {
                    return Err(RDKafkaErrorCode::PurgeQueue);
                };
                match client.send(message) {
                    Ok(()) => return Ok(()),
                    Err((ClientError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => back,
                    Err((error, _)) => return Err(code(&error)),
                }
            };
            tokio::time::sleep(WHEN_FULL).await;
        }
    }

    /// Drops its queue and accepts nothing more. Records on the wire may still arrive.
    pub(crate) fn close(&self) {
        let mut is_closed = self.is_closed.write().unwrap_or_else(PoisonError::into_inner);
        if let (false, Some(client)) = (*is_closed, &self.client) {
            client.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
        *is_closed = true;
    }

    /// Blocks.
    pub(crate) fn find_topic(&self, topic: &str, wait: Duration) -> Result<(), RDKafkaErrorCode> {
        match self.metadata(Some(topic), wait)?.topics().first().map(|topic| topic.error()) {
            Some(None) => Ok(()),
            Some(Some(error)) => Err(error.into()),
            None => Err(RDKafkaErrorCode::UnknownTopicOrPartition),
        }
    }

    /// Blocks.
    fn metadata(&self, topic: Option<&str>, wait: Duration) -> Result<Metadata, RDKafkaErrorCode> {
        let Some(client) = &self.client else { return Err(RDKafkaErrorCode::Fail) };
        client.client().fetch_metadata(topic, wait).map_err(|error| code(&error))
    }

    /// Waits until the client reports that the transaction has to be aborted.
    pub(crate) async fn transaction_fails(&self) {
        let Some(client) = &self.client else { return };
        let context = client.client().context();
        loop {
            let fails = context.fails.notified();
            if context.is_failing.load(Ordering::Acquire) {
                return;
            }
            fails.await;
        }
    }

    /// Fences all other producers of this id. Their transactions have ended when it returns.
    pub(crate) async fn init(self: &Arc<Self>, within: Duration) -> Result<(), Trouble> {
        self.on_thread(move |client| client.init_transactions(within)).await
    }

    pub(crate) fn begin(&self) -> Result<(), Trouble> {
        self.ask(|client| {
            client.client().context().is_failing.store(false, Ordering::Release);
            client.begin_transaction()
        })
    }

    /// Waits for all records and commits. Retrying after a timeout is safe.
    pub(crate) async fn commit(self: &Arc<Self>, within: Duration) -> Result<(), Trouble> {
        self.on_thread(move |client| client.commit_transaction(within)).await
    }

    pub(crate) async fn abort(self: &Arc<Self>, within: Duration) -> Result<(), Trouble> {
        self.on_thread(move |client| client.abort_transaction(within)).await
    }

    async fn on_thread(
        self: &Arc<Self>,
        question: impl FnOnce(&Client) -> KafkaResult<()> + Send + 'static,
    ) -> Result<(), Trouble> {
        let producer = self.clone();
        let done = tokio::task::spawn_blocking(move || producer.ask(question)).await;
        done.unwrap_or_else(|error| Err(Trouble::Lost(error.to_string())))
    }

    fn ask(&self, question: impl FnOnce(&Client) -> KafkaResult<()>) -> Result<(), Trouble> {
        let client =
            self.client.as_ref().ok_or_else(|| Trouble::Lost("the producer is closed".to_owned()))?;
        question(client).map_err(|error| trouble(client, &error))
    }

    /// The client's last error.
    pub(crate) fn complaint(&self) -> Option<String> {
        let context = self.client.as_ref()?.client().context();
        context.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why a transaction did not complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// No answer; the call may be retried.
    Late(String),
    /// Fenced by another producer with the same id, or given up by the brokers.
    Ousted(String),
    /// The producer is unusable, and the outcome of the transaction is unknown.
    Lost(String),
}

impl Trouble {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Late(why) | Self::Ousted(why) | Self::Lost(why) => why,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cluster {
    pub brokers: usize,
    /// The topics this client may see.
    pub topics: usize,
}

impl Cluster {
    /// Connects as a relay would and reads metadata. Sends nothing.
    pub async fn look(options: &KafkaOptions, within: Duration) -> Result<Self, ReadFailure> {
        options.check()?;
        let producer = Producer::new(options, Pace::Together)?;
        let servers = options.bootstrap_servers.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let metadata = producer.metadata(None, within).map_err(|code| {
                // The reason a broker hung up says more than a timeout.
                let why = producer.complaint().unwrap_or_else(|| code.to_string());
                ReadFailure::Unreachable { servers, waited: within, why }
            })?;
            Ok(Self { brokers: metadata.brokers().len(), topics: metadata.topics().len() })
        });
        asking.await.map_err(|_| ReadFailure::Ended)?
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.close();
        // Dropping it joins its threads, so do that elsewhere.
        let client = self.client.take();
        let _dropped_here_otherwise = std::thread::Builder::new().spawn(move || drop(client));
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("is_closed", &self.is_closed).finish_non_exhaustive()
    }
}

fn code(error: &ClientError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)
}

fn trouble(client: &Client, error: &ClientError) -> Trouble {
    if let Some((code, reason)) = client.client().fatal_error() {
        return if is_ousted(code) { Trouble::Ousted(reason) } else { Trouble::Lost(reason) };
    }
    match error {
        ClientError::Transaction(error) => {
            let why = error.string();
            if is_ousted(error.code()) {
                Trouble::Ousted(why)
            } else if error.is_retriable() && !error.txn_requires_abort() {
                Trouble::Late(why)
            } else {
                Trouble::Lost(why)
            }
        }
        // Records have not arrived yet: the coordinator was not asked.
        ClientError::Flush(RDKafkaErrorCode::OperationTimedOut) => Trouble::Late(error.to_string()),
        other => Trouble::Lost(other.to_string()),
    }
}

fn is_ousted(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch
    )
}

fn config(options: &KafkaOptions, pace: Pace) -> ClientConfig {
    let linger = options.linger.as_millis().to_string();
    let defaults =
        [("linger.ms", linger.as_str()), ("batch.size", "1000000"), ("batch.num.messages", "10000")];
    let mut config = options.client_config(&defaults, &[]);
    config
        .set("acks", "all")
        .set("enable.idempotence", "true")
        // As the Java client does, so that a key maps to the same partition for both.
        .set("partitioner", "murmur2_random")
        .set("compression.type", options.compression.as_str());
    if pace == Pace::Singly {
        config.set("linger.ms", "0").set("batch.num.messages", "1").set("max.in.flight", "1");
    }
    config
}

type Receipt = Box<(Arc<Wave>, usize)>;

/// The client logs this when a transaction has to be aborted; its records get no report until then.
const TRANSACTION_FAILED: &str = "TXNERR";

#[derive(Debug, Default)]
struct Context {
    complaint: Mutex<Option<String>>,
    is_failing: AtomicBool,
    fails: Notify,
}

impl ClientContext for Context {
    /// Drops the client's log: errors also arrive in `error`, and the relay logs what matters.
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "tidemill_kafka::client", "{facility}: {message}");
        if facility == TRANSACTION_FAILED {
            *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.to_owned());
            self.is_failing.store(true, Ordering::Release);
            self.fails.notify_waiters();
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        tracing::debug!(target: "tidemill_kafka::client", %error, "{reason}");
        let mut complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        // "All brokers down" says less than the last broker's error.
        if complaint.is_none() || error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *complaint = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Receipt;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Receipt) {
        let (wave, n) = *receipt;
        wave.report(
            n,
            match result {
                Ok(message) => {
                    tracing::trace!(partition = message.partition(), offset = message.offset(), "delivered");
                    Report::Delivered
                }
                Err((error, _)) => Report::Failed(code(error)),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_lease_is_no_reason_for_the_client_to_refuse_its_settings() {
        let mut options = KafkaOptions::new("127.0.0.1:1");
        options.delivery_timeout = Duration::from_millis(600);

        assert!(Producer::transactional(&options, "shop-outbox-g00", Pace::Together).is_ok());
    }
}
