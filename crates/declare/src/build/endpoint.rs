//! Readers, and the events that a step writes.

use super::names::{hinted, rendered};
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{ChunkFile, Names, OutboxFile, ReadFile};
use crate::template::Template;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_domain::outbox::event::{check_name, check_topic};
use tidemill_domain::outbox::{Headers, NewEvent, Payload};
use tidemill_engine::item::sql::{CursorReader, Database, KeysetReader};
use tidemill_engine::item::{BoxReader, OutboxWriter};
use tidemill_engine::job::StepScope;
use tidemill_kafka::{From, KafkaReader, PATIENCE};

/// The position is saved under this name. It must never change, or steps could not be restarted by a later version.
pub(super) const READ: &str = "read";

/// Default number of rows per page of a query, or per fetch of a cursor.
const PAGE: usize = 1000;

/// Makes the reader or the writer for one run of the step.
pub(super) type Make<T> = Box<dyn Fn(&StepScope, &Names) -> Result<T, ItemError> + Send + Sync>;

impl Builder<'_> {
    pub(super) fn reader(&self, chunk: &ChunkFile) -> Built<Make<BoxReader<Row>>> {
        Ok(match &chunk.read.value {
            ReadFile::File(file) => self.file_reader(file, chunk)?,
            ReadFile::Sql { query, key, connection, page, is_counted } => {
                let query = self.parsed(query, Template::parse_sql, "correct the text")?;
                let (connection, key) = (self.connection(connection.as_ref())?, key.clone());
                let (page, is_counted) = (page.unwrap_or(PAGE), *is_counted);
                Box::new(move |scope, names| {
                    let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
                    let query = hinted(&query, scope).bind(names, &database).map_err(ItemError::fatal)?;
                    Ok(if key.is_empty() {
                        let reader = CursorReader::new(READ, database, query).fetch_size(page);
                        BoxReader::new(if is_counted { reader.count_total() } else { reader })
                    } else {
                        let reader = KeysetReader::new(READ, database, query, &key, page);
                        BoxReader::new(if is_counted { reader.count_total() } else { reader })
                    })
                })
            }
            ReadFile::Http(file) => self.http_reader(file, chunk)?,
            ReadFile::Kafka(file) => {
                let topic = self.template(&file.topic)?;
                let from = file.from.as_ref().map(|from| self.template(from)).transpose()?;
                let options = self.kafka_options(file.topic.place)?;
                let file = file.clone();
                Box::new(move |scope, names| {
                    let mut reader = KafkaReader::rows(READ, &options, rendered(&topic, names)?, file.format)
                        .isolation(file.isolation)
                        .patience(file.timeout.unwrap_or(PATIENCE));
                    if let Some(from) = &from {
                        let from: From = rendered(from, names)?.parse().map_err(ItemError::fatal)?;
                        reader = reader.from(from);
                    }
                    let is_every_run = file.is_every_run == Some(true);
                    Ok(BoxReader::new(if is_every_run { reader } else { reader.continuing(scope) }))
                })
            }
        })
    }

    pub(super) fn events(&self, file: &OutboxFile) -> Built<Events> {
        let headers =
            file.headers.iter().map(|(name, text)| Ok((name.value.clone(), self.expression(text)?)));
        Ok(Events {
            topic: self.template(&file.topic)?,
            aggregate_type: self.template(&file.aggregate_type)?,
            event_type: self.template(&file.event_type)?,
            aggregate_id: self.expression(&file.aggregate_id)?,
            payload: file.payload.as_ref().map(|text| self.expression(text)).transpose()?,
            headers: headers.collect::<Built<_>>()?,
        })
    }
}

/// The events of a step, compiled once and used for each run.
#[derive(Clone, Debug)]
pub(super) struct Events {
    topic: Template,
    aggregate_type: Template,
    event_type: Template,
    aggregate_id: Arc<Expression>,
    payload: Option<Arc<Expression>>,
    headers: Vec<(String, Arc<Expression>)>,
}

impl Events {
    /// Checks what all events of a run share: with an invalid topic no item could be written, so skipping is no help.
    pub(super) fn writer(
        &self,
        names: &Names,
    ) -> Result<OutboxWriter<impl FnMut(&Row) -> Result<NewEvent, ItemError> + Send + 'static>, ItemError>
    {
        let topic = rendered(&self.topic, names)?;
        let aggregate_type = rendered(&self.aggregate_type, names)?;
        let event_type = rendered(&self.event_type, names)?;
        check_topic(&topic)
            .and_then(|()| check_name("aggregate type", &aggregate_type))
            .and_then(|()| check_name("event type", &event_type))
            .map_err(|bad| ItemError::fatal(format!("{}: the events are not accepted: {bad}", bad.code())))?;
        let (events, parameters) = (self.clone(), names.clone());
        Ok(OutboxWriter::new(move |row: &Row| {
            let scope = Scope { row: Some(row), parameters: &parameters, others: &Names::new() };
            // An item without a key gets an empty one, which is refused.
            let key = text(events.aggregate_id.value(&scope)?).unwrap_or_default();
            let payload = match &events.payload {
                Some(expression) => match expression.value(&scope)? {
                    Value::Null => Payload::Tombstone,
                    Value::Bytes(bytes) => Payload::Bytes(bytes),
                    value => Payload::Json(value.to_json().to_string()),
                },
                None => Payload::Json(row.to_json().to_string()),
            };
            // Headers without a value are left out.
            let mut headers = Headers::new();
            for (name, expression) in &events.headers {
                headers.extend(text(expression.value(&scope)?).map(|value| (name.clone(), value)));
            }
            let event = NewEvent::new(&*aggregate_type, key, &*event_type, &*topic, payload)?;
            Ok(event.with_headers(headers)?)
        }))
    }
}

/// None for null.
pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text),
        other => Some(other.to_string()),
    }
}
