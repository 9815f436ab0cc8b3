//! Kafka as a sink. A publication is one or more pipelined waves: all records go to the producer, then one counter
//! waits for their reports.
//!
//! When a broker rejects a batch, it does not say which record is at fault. Then the records are sent again one at a
//! time; the aggregate of the rejected record is held back, and the rest goes on.

use crate::delivery::{Report, Wave};
use crate::failure::ErrorClass;
use crate::header;
use crate::options::{KafkaError, KafkaOptions};
use crate::order::Batch;
use crate::producer::{Pace, Producer};
use crate::topic::Known;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::outbox::Record;
use tidemill_domain::outbox::event::check_topic;
use tidemill_domain::time::Clock;
use tidemill_engine::outbox::Publisher;
use tidemill_engine::outbox::publisher::Publishing;

/// Yields to other tasks after this many records.
const AT_ONCE: usize = 256;

/// How long to wait for the last reports of a closed producer.
const LAST_REPORTS: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct KafkaPublisher {
    pub(crate) options: KafkaOptions,
    known: Known,
    producer: Mutex<Option<Arc<Producer>>>,
}

impl KafkaPublisher {
    /// Checks the settings. It does not connect, so the brokers may be down.
    pub fn new(options: KafkaOptions, clock: Arc<dyn Clock>) -> Result<Self, KafkaError> {
        options.check()?;
        let producer = Mutex::new(Some(Arc::new(Producer::new(&options, Pace::Together)?)));
        Ok(Self { options, known: Known::new(clock), producer })
    }

    /// Shared by the process.
    fn shared(&self) -> Result<Arc<Producer>, KafkaError> {
        let mut shared = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some(producer) => Ok(producer.clone()),
            None => Ok(shared.insert(Arc::new(Producer::new(&self.options, Pace::Together)?)).clone()),
        }
    }

    /// The next publication makes a new producer.
    fn retire(&self, producer: &Arc<Producer>) {
        let mut shared = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.as_ref().is_some_and(|shared| Arc::ptr_eq(shared, producer)) {
            *shared = None;
        }
        drop(shared);
        producer.close();
        self.known.forget();
    }

    /// Sends waves until nothing is left to send. The error says why something is left.
    async fn work(&self, batch: &mut Batch<'_>, sending: &mut Option<Sending>) -> Result<(), String> {
        let mut pace = Pace::Together;
        loop {
            let places = batch.next_wave();
            if places.is_empty() {
                return Ok(());
            }
            let producer = match pace {
                Pace::Together => self.shared(),
                Pace::Singly => Producer::new(&self.options, pace).map(Arc::new),
            };
            let producer = producer.map_err(|error| error.to_string())?;
            if !self.look_at_topics(batch, &places, &producer).await? {
                continue;
            }
            let wave = Arc::new(Wave::new(places.len()));
            let now = sending.insert(Sending { wave: wave.clone(), places });
            let guard = Guard { publisher: self, producer: Some(&producer) };
            self.send(batch, now, &producer).await;
            wave.done().await;
            let Some(done) = sending.take() else { return Ok(()) };
            match self.apply(batch, &done, pace) {
                Verdict::Clean => guard.keep(),
                Verdict::Blamed => drop(guard),
                Verdict::Suspected => {
                    drop(guard);
                    pace = Pace::Singly;
                }
                Verdict::Failed(code) => {
                    let complaint = producer.complaint().unwrap_or_default();
                    drop(guard);
                    return Err(format!("{code} {complaint}").trim_end().to_owned());
                }
            }
        }
    }

    /// Rejects the records whose topic does not exist.
    pub(crate) async fn look_at_topics(
        &self,
        batch: &mut Batch<'_>,
        places: &[usize],
        producer: &Arc<Producer>,
    ) -> Result<bool, String> {
        let topics: BTreeSet<String> = places.iter().map(|n| batch.topic(*n).to_owned()).collect();
        let mut are_there = true;
        for topic in topics {
            let why = match check_topic(&topic) {
                Err(error) => error.to_string(),
                Ok(()) => match self.known.refusal(&topic, producer).await? {
                    Some(why) => why,
                    None => continue,
                },
            };
            are_there = false;
            for n in places.iter().copied().filter(|n| batch.topic(*n) == topic).collect::<Vec<_>>() {
                batch.refuse(n, why.clone());
            }
        }
        Ok(are_there)
    }

    /// In order.
    pub(crate) async fn send(&self, batch: &Batch<'_>, sending: &Sending, producer: &Arc<Producer>) {
        let Sending { wave, places } = sending;
        let source = self.options.cloud_events_source.as_deref();
        let mut refused = HashSet::new();
        let mut is_open = true;
        for (place, n) in places.iter().enumerate() {
            let Some(record) = batch.records.get(*n) else { continue };
            if place % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            if !is_open || refused.contains(&record.aggregate) {
                wave.report(place, Report::NotSent);
                continue;
            }
            // As readers count it.
            let bytes = || record.aggregate.id.len() + record.payload.len() + header::len(record, source);
            if self.options.max_record_bytes.is_some_and(|most| bytes() > most) {
                refused.insert(&record.aggregate);
                wave.report(place, Report::Refused(RDKafkaErrorCode::MessageSizeTooLarge));
                continue;
            }
            match producer.send(batch.topic(*n), record, source, (wave, place)).await {
                Ok(()) => {}
                // The producer itself rejected it, so the batch is not involved.
                Err(code) if ErrorClass::of(code) == ErrorClass::Record => {
                    refused.insert(&record.aggregate);
                    wave.report(place, Report::Refused(code));
                }
                Err(code) => {
                    is_open = false;
                    wave.report(place, Report::Failed(code));
                }
            }
        }
    }

    fn apply(&self, batch: &mut Batch<'_>, done: &Sending, pace: Pace) -> Verdict {
        let reports = done.places.iter().copied().zip(done.wave.reports());
        reports.fold(Verdict::Clean, |verdict, (n, report)| {
            verdict.and(self.judge(batch, n, report, (pace, done.places.len())))
        })
    }

    /// `together` is the number of records in the same wave.
    pub(crate) fn judge(
        &self,
        batch: &mut Batch<'_>,
        n: usize,
        report: Report,
        (pace, together): (Pace, usize),
    ) -> Verdict {
        match report {
            Report::Delivered => {
                batch.deliver(n);
                Verdict::Clean
            }
            Report::NotSent | Report::Silent => Verdict::Clean,
            Report::Refused(code) => {
                batch.refuse(n, format!("topic {}: {code}", batch.topic(n)));
                Verdict::Clean
            }
            Report::Failed(code) => match ErrorClass::of(code) {
                ErrorClass::Record if pace == Pace::Together && together > 1 => Verdict::Suspected,
                ErrorClass::Record => {
                    batch.refuse(n, format!("topic {}: {code}", batch.topic(n)));
                    Verdict::Blamed
                }
                ErrorClass::Topic => {
                    self.known.refuse(batch.topic(n), code);
                    Verdict::Blamed
                }
                ErrorClass::Sink => Verdict::Failed(code),
            },
        }
    }
}

impl Publisher for KafkaPublisher {
    fn name(&self) -> String {
        format!("kafka:{}", self.options.bootstrap_servers)
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(async move {
            let mut batch = Batch::new(records, &self.options.topics);
            let mut sending = None;
            let limit = self.options.delivery_timeout;
            let why = match tokio::time::timeout(limit, self.work(&mut batch, &mut sending)).await {
                Ok(done) => done.err().unwrap_or_default(),
                Err(_) => format!("no acknowledgement within {limit:?}"),
            };
            if let Some(cut) = sending {
                // A closed producer reports every record; some may have arrived before.
                let _all_heard = tokio::time::timeout(LAST_REPORTS, cut.wave.done()).await;
                self.apply(&mut batch, &cut, Pace::Together);
            }
            let settled = batch.settle(&why);
            if let Some(record) = settled.early.first().and_then(|n| records.get(*n)) {
                let (count, id, aggregate) = (settled.early.len(), record.id, &record.aggregate);
                tracing::error!(
                    event.id = %id,
                    "{count} records, the first of them event {id} of {aggregate}, arrived before an earlier one of \
                     their aggregate; they are sent again behind it"
                );
            }
            settled.outcomes
        })
    }
}

#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) wave: Arc<Wave>,
    /// Indexes into the batch.
    pub(crate) places: Vec<usize>,
}

/// Closes the producer when the publication is cancelled: nothing may be sent after a lease has ended.
struct Guard<'a> {
    publisher: &'a KafkaPublisher,
    producer: Option<&'a Arc<Producer>>,
}

impl Guard<'_> {
    fn keep(mut self) {
        self.producer = None;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(producer) = self.producer {
            self.publisher.retire(producer);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The producer stays usable.
    Clean,
    /// For example, the brokers are unreachable.
    Failed(RDKafkaErrorCode),
    /// A record or a topic was rejected; the rest may go on.
    Blamed,
    /// One record of a batch was rejected, but which is unknown.
    Suspected,
}

impl Verdict {
    /// Combines two; a verdict that needs action wins over one that only waits.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Suspected, _) | (_, Self::Suspected) => Self::Suspected,
            (Self::Blamed, _) | (_, Self::Blamed) => Self::Blamed,
            (Self::Failed(code), _) | (_, Self::Failed(code)) => Self::Failed(code),
            (Self::Clean, Self::Clean) => Self::Clean,
        }
    }
}
