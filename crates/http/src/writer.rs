//! Sends items to a service, each or a chunk at a time, with a key by which the service recognises a repetition.
//!
//! Requests do not commit with the chunk: after a crash they are sent again. The key is made of the instance, the step, the
//! writer and the position of the item, so a repetition has the same key, and the service does nothing twice.

use crate::call::{Caller, Request};
use crate::{HttpEndpoint, HttpError};
use reqwest::Method;
use reqwest::header::HeaderName;
use serde::Serialize;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::fmt;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::job::{ChunkScope, ItemStream, ItemWriter, StepScope};

const HEADER: &str = "Idempotency-Key";

tidemill_domain::words! {
    /// How many items a request has.
    #[derive(Default)]
    pub enum Batch {
        /// One, as the body.
        #[default]
        Each = "each",
        /// All of a chunk, as a list.
        Chunk = "chunk",
    }
}

/// Sends items as JSON. Delivery is at least once. A service that honours the key makes it effectively once.
///
/// ```
/// use tidemill_engine::item::ItemsReader;
/// use tidemill_engine::job::{Job, Step};
/// use tidemill_http::{HttpEndpoint, HttpWriter};
///
/// let job = Job::new("contacts").step(
///     Step::chunk("send", 100)
///         .reader(ItemsReader::new("numbers", 1..=5))
///         .writer_with(|scope| {
///             Ok(HttpWriter::new("contacts", scope, HttpEndpoint::new("https://crm.example/api/contacts")))
///         })
///         .build(),
/// );
/// assert!(job.check().is_ok());
/// ```
pub struct HttpWriter<T> {
    name: String,
    scope: StepScope,
    endpoint: HttpEndpoint,
    method: String,
    batch: Batch,
    header: String,
    document: fn(&T) -> serde_json::Result<Json>,
    open: Option<Open>,
}

struct Open {
    caller: Caller,
    method: Method,
    header: HeaderName,
    /// What the keys of all items begin with.
    instance: String,
}

impl<T: Serialize> HttpWriter<T> {
    /// Sends items of a serde type. `name` must be unique in the step.
    pub fn new(name: &str, scope: &StepScope, endpoint: HttpEndpoint) -> Self {
        Self::of(name, scope, endpoint, |item| serde_json::to_value(item))
    }
}

impl HttpWriter<Row> {
    /// Sends rows, each as an object. Decimals, dates and the like are text.
    pub fn rows(name: &str, scope: &StepScope, endpoint: HttpEndpoint) -> Self {
        Self::of(name, scope, endpoint, |row| Ok(row.to_json()))
    }
}

impl<T> HttpWriter<T> {
    fn of(
        name: &str,
        scope: &StepScope,
        endpoint: HttpEndpoint,
        document: fn(&T) -> serde_json::Result<Json>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            scope: scope.clone(),
            endpoint,
            method: "POST".to_owned(),
            batch: Batch::default(),
            header: HEADER.to_owned(),
            document,
            open: None,
        }
    }

    tidemill_domain::setters! {
        /// `POST` by default.
        #[must_use]
        pub fn method(self, method: impl Into<String>) { self.method = method.into() }
        /// [`Batch::Each`] by default.
        #[must_use]
        pub fn batch(self, batch: Batch) { self.batch = batch }
        /// The header that has the key; `Idempotency-Key` by default.
        #[must_use]
        pub fn key_header(self, name: impl Into<String>) { self.header = name.into() }
    }

    /// Sends one request for the items with these numbers.
    async fn send(&mut self, body: &Json, first: u64, last: u64) -> Result<(), ItemError> {
        let Some(open) = &mut self.open else {
            return Err(ItemError::new(ErrorKind::FATAL, "the writer was used before it was opened"));
        };
        // The name tells the writers of a step apart.
        let key = key(&[&open.instance, self.scope.step(), &self.name, &format!("{first}/{last}")]);
        let request = Request {
            method: open.method.clone(),
            url: open.caller.url.clone(),
            content: Some((body.to_string().into_bytes(), (open.header.clone(), key))),
        };
        open.caller.call(&request, |_, _| Ok(())).await.map_err(HttpError::of_item)
    }
}

/// A UUID that is the same for the same parts.
fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

impl<T: 'static> ItemStream for HttpWriter<T> {
    async fn open(&mut self, _context: &ExecutionContext) -> Result<(), ItemError> {
        let bad_header = |_| HttpError::Header {
            name: self.header.clone(),
            why: "this is not a valid header name".into(),
        };
        let header = HeaderName::try_from(&self.header).map_err(bad_header).map_err(HttpError::of_item)?;
        let method = Method::from_bytes(self.method.as_bytes()).map_err(ItemError::fatal)?;
        let caller = Caller::new(&self.endpoint).map_err(HttpError::of_item)?;
        let instance = self.scope.instance_key().await?;
        self.open = Some(Open { caller, method, header, instance });
        Ok(())
    }
}

impl<T: Sync + 'static> ItemWriter<T> for HttpWriter<T> {
    fn is_numbered(&self) -> bool {
        true
    }

    async fn write(&mut self, items: &[T], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let documents = items.iter().map(self.document).collect::<Result<Vec<_>, _>>();
        let documents = documents.map_err(|error| ItemError::of(ErrorKind::WRITE, error))?;
        let numbers: Vec<u64> = chunk.numbers().collect();
        if numbers.len() != items.len() {
            let text = "the writer around this HttpWriter gives it other items than the step; use a CompositeWriter, \
                        ClassifierWriter or MappedWriter";
            return Err(ItemError::new(ErrorKind::FATAL, text));
        }
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return Ok(()) };
        match self.batch {
            Batch::Chunk => self.send(&Json::Array(documents), first, last).await,
            Batch::Each => {
                for (document, number) in documents.iter().zip(numbers) {
                    self.send(document, number, number).await?;
                }
                Ok(())
            }
        }
    }
}

/// Keeps the endpoint out of logs.
impl<T> fmt::Debug for HttpWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpWriter").field("name", &self.name).finish_non_exhaustive()
    }
}
