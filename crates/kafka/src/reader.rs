//! Reads a topic as the items of a step.
//!
//! Partitions are assigned, not shared by a group, and nothing is committed to Kafka: the next offset of each partition
//! is in the execution context, which commits with each chunk. A run ends where the topic ended when its step was first
//! opened, also after a restart.

pub mod plan;
pub mod record;

mod feed;

use crate::consumer::Isolation;
use crate::failure::ReadFailure;
use crate::options::KafkaOptions;
use feed::{Feed, Order, Portion};
use plan::{Begin, From, Progress};
use record::{COLUMNS, KafkaRecord, RowFormat};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::job::{ItemPlace, ItemReader, ItemStream, StepScope};

/// Default for how long brokers may be silent.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How much of an unreadable record is kept with its error.
const RAW_BYTES_MAX: usize = 10_000;

/// Reads a topic, one partition after the other.
///
/// ```
/// use tidemill_engine::item::ItemsWriter;
/// use tidemill_engine::job::{Job, Step};
/// use tidemill_kafka::{KafkaOptions, KafkaReader};
///
/// let options = KafkaOptions::new("localhost:9092");
/// let job = Job::new("orders").step(
///     Step::chunk("load", 1000)
///         .reader_with(move |scope| Ok(KafkaReader::new("orders", &options, "orders").continuing(scope)))
///         .writer(ItemsWriter::default())
///         .build(),
/// );
/// assert!(job.check().is_ok());
/// ```
pub struct KafkaReader<T> {
    name: String,
    order: Order,
    from: From,
    /// Finds earlier instances, when continuing after them.
    scope: Option<StepScope>,
    decode: Decode<T>,
    progress: Option<Progress>,
    feed: Option<Feed>,
    records: std::vec::IntoIter<KafkaRecord>,
    /// The partition of the last record read, and its item place.
    last: Option<(i32, ItemPlace)>,
}

type Decode<T> = Box<dyn Fn(KafkaRecord) -> Result<T, String> + Send + Sync>;

impl KafkaReader<KafkaRecord> {
    /// Reads the records of a topic as they are. `name` is the key of the saved position and must be unique in the
    /// step.
    pub fn new(name: impl AsRef<str>, options: &KafkaOptions, topic: impl Into<Arc<str>>) -> Self {
        Self::decoding(name, options, topic, Box::new(Ok))
    }
}

impl KafkaReader<Row> {
    /// Reads the records of a topic as rows with the columns of [`COLUMNS`].
    pub fn rows(
        name: impl AsRef<str>,
        options: &KafkaOptions,
        topic: impl Into<Arc<str>>,
        format: RowFormat,
    ) -> Self {
        let names: Arc<[String]> = COLUMNS.map(str::to_owned).into();
        Self::decoding(name, options, topic, Box::new(move |record| format.row(record, &names)))
    }
}

impl<T> KafkaReader<T> {
    fn decoding(
        name: impl AsRef<str>,
        options: &KafkaOptions,
        topic: impl Into<Arc<str>>,
        decode: Decode<T>,
    ) -> Self {
        let order = Order {
            options: Arc::new(options.clone()),
            topic: topic.into(),
            isolation: Isolation::default(),
            patience: PATIENCE,
        };
        Self {
            name: name.as_ref().to_owned(),
            order,
            from: From::default(),
            scope: None,
            decode,
            progress: None,
            feed: None,
            records: Vec::new().into_iter(),
            last: None,
        }
    }

    tidemill_domain::setters! {
        /// Where to begin without a saved position.
        #[must_use]
        pub fn from(self, from: From) { self.from = from }
        /// Continues after the earlier instances of the job, if any. Otherwise every instance begins at
        /// [`from`](Self::from).
        #[must_use]
        pub fn continuing(self, scope: &StepScope) { self.scope = Some(scope.clone()) }
        /// Default: records of committed transactions.
        #[must_use]
        pub fn isolation(self, isolation: Isolation) { self.order.isolation = isolation }
        /// How long brokers may be silent before the step fails; default [`PATIENCE`].
        #[must_use]
        pub fn patience(self, patience: Duration) { self.order.patience = patience }
    }

    async fn begin(&self, context: &ExecutionContext) -> Result<Begin, ItemError> {
        if let Some(saved) = self.saved(context).map_err(ReadFailure::of_step)? {
            return Ok(Begin::Restart(saved));
        }
        if let Some(scope) = &self.scope
            && let Some(earlier) = scope.previous_run(&plan::key(&self.name, "offsets")).await?
            && let Some(saved) = self.saved(&earlier).map_err(ReadFailure::of_step)?
        {
            return Ok(Begin::Behind(saved));
        }
        Ok(Begin::At(self.from))
    }

    fn saved(&self, context: &ExecutionContext) -> Result<Option<Progress>, ReadFailure> {
        let saved = Progress::saved(&self.name, context)?;
        Ok(saved.filter(|saved| saved.topic == *self.order.topic))
    }
}

impl<T: 'static> ItemStream for KafkaReader<T> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        let begin = self.begin(context).await?;
        let (progress, feed) = Feed::start(self.order.clone(), begin).await.map_err(ReadFailure::of_step)?;
        tracing::debug!("topic {} has {} offsets to read", self.order.topic, progress.total);
        (self.progress, self.feed) = (Some(progress), Some(feed));
        Ok(())
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        if let Some(progress) = &self.progress {
            progress.save(&self.name, context);
        }
        Ok(())
    }

    async fn close(&mut self, _is_complete: bool) -> Result<(), ItemError> {
        self.feed = None;
        Ok(())
    }
}

impl<T: Send + Sync + 'static> ItemReader for KafkaReader<T> {
    type Item = T;

    async fn read(&mut self) -> Result<Option<T>, ItemError> {
        let (Some(progress), Some(feed)) = (&mut self.progress, &mut self.feed) else {
            return Err(ReadFailure::Ended.of_step());
        };
        loop {
            if let Some(record) = self.records.next() {
                progress.passed(record.partition, record.offset);
                pass(&mut self.last, &record);
                return decoded(&self.decode, record).map(Some);
            }
            if progress.parts.values().all(|part| part.next >= part.end) {
                return Ok(None);
            }
            match feed.next().await.map_err(ReadFailure::of_step)? {
                Portion::Records(records) => self.records = records.into_iter(),
                Portion::Finished(partition) => progress.finished(partition),
            }
        }
    }

    fn total(&self) -> Option<u64> {
        self.progress.as_ref().map(|progress| progress.total)
    }

    fn place(&self) -> Option<ItemPlace> {
        self.last.as_ref().map(|(_, place)| place.clone())
    }
}

/// Partitions are read one after the other, so the place's name is rarely rebuilt.
fn pass(last: &mut Option<(i32, ItemPlace)>, record: &KafkaRecord) {
    let number = u64::try_from(record.offset).unwrap_or(0);
    match last {
        Some((partition, place)) if *partition == record.partition => place.number = number,
        _ => {
            let source = format!("{}/{}", record.topic, record.partition).into();
            *last = Some((record.partition, ItemPlace { source, unit: "offset", number }));
        }
    }
}

fn decoded<T>(decode: &Decode<T>, record: KafkaRecord) -> Result<T, ItemError> {
    let place = record.place();
    // Copy only for formats that can fail to parse.
    let payload = record.payload.as_ref().map(|payload| payload[..payload.len().min(RAW_BYTES_MAX)].to_vec());
    decode(record).map_err(|fault| {
        let raw = String::from_utf8_lossy(payload.as_deref().unwrap_or_default()).into_owned();
        ItemError::new(ErrorKind::PARSE, fault).at(place, raw)
    })
}

impl<T> fmt::Debug for KafkaReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaReader").field("topic", &self.order.topic).finish_non_exhaustive()
    }
}
