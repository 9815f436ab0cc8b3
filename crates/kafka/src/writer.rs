//! Writes the items of a step to a topic.
//!
//! All records of a chunk are acknowledged before the chunk commits. A crash in between sends them again: at least once. An
//! idempotent producer sends them, so what it repeats itself arrives once and in order.

use crate::delivery::{Report, Wave};
use crate::failure::{ErrorClass, ReadFailure};
use crate::options::{KafkaError, KafkaOptions};
use crate::producer::{Pace, Producer};
use crate::reader::PATIENCE;
use crate::topic::Known;
use rdkafka::types::RDKafkaErrorCode;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::SystemClock;
use tidemill_engine::job::{ChunkScope, ItemStream, ItemWriter};

/// A record to send.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KafkaMessage {
    /// Records of one key go to one partition; without a key, to any.
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl KafkaMessage {
    /// As readers count them.
    fn bytes(&self) -> usize {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        len(&self.key) + len(&self.payload) + headers
    }
}

/// Sends a record for each item, at least once: the records of a chunk have arrived before it commits.
///
/// ```
/// use tidemill_engine::item::ItemsReader;
/// use tidemill_engine::job::{Job, Step};
/// use tidemill_kafka::{KafkaMessage, KafkaOptions, KafkaWriter};
///
/// let options = KafkaOptions::new("localhost:9092");
/// let job = Job::new("numbers").step(
///     Step::chunk("send", 1000)
///         .reader(ItemsReader::new("numbers", 1..=5))
///         .writer_with(move |_| {
///             Ok(KafkaWriter::new(&options, "numbers", |number: &i64| {
///                 let text = number.to_string().into_bytes();
///                 Ok(KafkaMessage { key: Some(text.clone()), payload: Some(text), headers: Vec::new() })
///             }))
///         })
///         .build(),
/// );
/// assert!(job.check().is_ok());
/// ```
pub struct KafkaWriter<F> {
    options: KafkaOptions,
    topic: String,
    message: F,
    patience: Duration,
    /// Replaced after a failure: its queue must not be sent later.
    producer: Option<Arc<Producer>>,
}

impl<F> KafkaWriter<F> {
    /// Sends what `message` makes of each item.
    pub fn new<T>(options: &KafkaOptions, topic: impl Into<String>, message: F) -> Self
    where
        F: FnMut(&T) -> Result<KafkaMessage, ItemError> + Send + 'static,
    {
        let topic = topic.into();
        Self { options: options.clone(), topic, message, patience: PATIENCE, producer: None }
    }

    tidemill_domain::setters! {
        /// How long brokers may take for the records of a chunk before it fails; default [`PATIENCE`].
        #[must_use]
        pub fn patience(self, patience: Duration) { self.patience = patience }
    }

    fn producer(&mut self) -> Result<Arc<Producer>, KafkaError> {
        match &self.producer {
            Some(producer) => Ok(producer.clone()),
            None => {
                let producer = Producer::new(&self.options, Pace::Together)?;
                Ok(self.producer.insert(Arc::new(producer)).clone())
            }
        }
    }

    /// The error for one record that the producer or a broker refused.
    fn refused(&self, code: RDKafkaErrorCode) -> ItemError {
        let text = format!("the topic {} refused a record: {code}", self.topic);
        match ErrorClass::of(code) {
            ErrorClass::Record => ItemError::new(ErrorKind::WRITE, text),
            ErrorClass::Topic => ItemError::fatal(format!("{text}; {FIX}")),
            ErrorClass::Sink => ItemError::new(ErrorKind::TRANSIENT, text),
        }
    }

    fn unreachable(&self, why: impl Into<String>) -> ReadFailure {
        let servers = self.options.bootstrap_servers.clone();
        ReadFailure::Unreachable { servers, waited: self.patience, why: why.into() }
    }
}

const FIX: &str = "check the name of the topic, that it exists, and that this user may write to it";

impl<F: Send + 'static> ItemStream for KafkaWriter<F> {
    /// Looks for the topic, so that a wrong name fails before anything is read.
    async fn open(&mut self, _: &ExecutionContext) -> Result<(), ItemError> {
        let settings = |error: KafkaError| ReadFailure::from(error).of_step();
        self.options.check().map_err(settings)?;
        let (producer, known) =
            (self.producer().map_err(settings)?, Known::new(Arc::new(SystemClock::new())));
        let mut why = String::new();
        let looking = async {
            loop {
                match known.refusal(&self.topic, &producer).await {
                    Ok(refusal) => return refusal,
                    // It has waited for the brokers.
                    Err(silence) => why = silence,
                }
            }
        };
        match tokio::time::timeout(self.patience, looking).await {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(ItemError::fatal(format!("{refusal}; {FIX}"))),
            Err(_) => Err(self.unreachable(why).of_step()),
        }
    }

    async fn close(&mut self, _is_complete: bool) -> Result<(), ItemError> {
        self.producer = None;
        Ok(())
    }
}

impl<T, F> ItemWriter<T> for KafkaWriter<F>
where
    T: Sync,
    F: FnMut(&T) -> Result<KafkaMessage, ItemError> + Send + 'static,
{
    async fn write(&mut self, items: &[T], _: &mut ChunkScope) -> Result<(), ItemError> {
        let messages = items.iter().map(&mut self.message).collect::<Result<Vec<_>, _>>()?;
        if let Some(most) = self.options.max_record_bytes
            && let Some(long) = messages.iter().map(KafkaMessage::bytes).find(|bytes| *bytes > most)
        {
            let text = format!("a record of {long} bytes is longer than the {most} that readers accept");
            return Err(ItemError::new(ErrorKind::WRITE, text));
        }
        let producer = self.producer().map_err(|error| ReadFailure::from(error).of_step())?;
        let wave = Arc::new(Wave::new(messages.len()));
        let sending = async {
            for (n, message) in messages.iter().enumerate() {
                // What follows must not overtake one that failed.
                producer.send_message(&self.topic, message, (&wave, n)).await?;
            }
            if !messages.is_empty() {
                wave.done().await;
            }
            let failed = wave.reports().into_iter().filter_map(|report| match report {
                Report::Failed(code) | Report::Refused(code) => Some(code),
                Report::Silent | Report::NotSent | Report::Delivered => None,
            });
            // One refused record fails the others of its batch, too.
            failed.min_by_key(|code| ErrorClass::of(*code) == ErrorClass::Sink).map_or(Ok(()), Err)
        };
        let error = match tokio::time::timeout(self.patience, sending).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(code)) => self.refused(code),
            Err(_) => {
                let why = producer.complaint().unwrap_or_else(|| "no acknowledgement".to_owned());
                ItemError::new(ErrorKind::TRANSIENT, self.unreachable(why).to_string())
            }
        };
        producer.close();
        self.producer = None;
        Err(error)
    }
}

impl<F> fmt::Debug for KafkaWriter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaWriter").field("topic", &self.topic).finish_non_exhaustive()
    }
}
