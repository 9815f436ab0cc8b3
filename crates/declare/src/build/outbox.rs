//! The events that a step writes.

use super::names::rendered;
use super::{Builder, optional};
use crate::expression::{Expression, Scope};
use crate::model::{Names, OutboxFile};
use crate::template::Template;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_domain::outbox::event::{check_name, check_topic};
use tidemill_domain::outbox::{BadEvent, Headers, NewEvent, Payload};
use tidemill_engine::item::OutboxWriter;

/// Compiled once, and used for each run.
#[derive(Clone, Debug)]
pub(super) struct Events {
    topic: Template,
    aggregate_type: Template,
    event_type: Template,
    of_item: Arc<OfItem>,
}

#[derive(Debug)]
struct OfItem {
    aggregate_id: Arc<Expression>,
    payload: Option<Arc<Expression>>,
    headers: Vec<(String, Arc<Expression>)>,
}

impl Builder<'_> {
    pub(super) fn events(&mut self, file: &OutboxFile) -> Option<Events> {
        let payload = optional(file.payload.as_ref(), |text| self.expression(text))?;
        let headers =
            file.headers.iter().map(|(name, text)| Some((name.value.clone(), self.expression(text)?)));
        let headers = headers.collect::<Option<Vec<_>>>()?;
        let aggregate_id = self.expression(&file.aggregate_id)?;
        Some(Events {
            topic: self.template(&file.topic)?,
            aggregate_type: self.template(&file.aggregate_type)?,
            event_type: self.template(&file.event_type)?,
            of_item: Arc::new(OfItem { aggregate_id, payload, headers }),
        })
    }
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
            .map_err(unusable)?;
        let (of_item, parameters) = (self.of_item.clone(), names.clone());
        Ok(OutboxWriter::new(move |row: &Row| {
            let scope = Scope { row: Some(row), parameters: &parameters, others: &Names::new() };
            // An item without a key gets an empty one, which is refused.
            let key = text(of_item.aggregate_id.value(&scope)?).unwrap_or_default();
            let payload = of_item.payload(row, &scope)?;
            let event = NewEvent::new(&*aggregate_type, key, &*event_type, &*topic, payload)?;
            Ok(event.with_headers(of_item.headers(&scope)?)?)
        }))
    }
}

impl OfItem {
    /// JSON, bytes, or a tombstone for null.
    fn payload(&self, row: &Row, scope: &Scope<'_>) -> Result<Payload, ItemError> {
        let Some(expression) = &self.payload else { return Ok(Payload::Json(row.to_json().to_string())) };
        Ok(match expression.value(scope)? {
            Value::Null => Payload::Tombstone,
            Value::Bytes(bytes) => Payload::Bytes(bytes),
            value => Payload::Json(value.to_json().to_string()),
        })
    }

    /// Leaves out null values.
    fn headers(&self, scope: &Scope<'_>) -> Result<Headers, ItemError> {
        let mut headers = Headers::new();
        for (name, expression) in &self.headers {
            headers.extend(text(expression.value(scope)?).map(|value| (name.clone(), value)));
        }
        Ok(headers)
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn unusable(bad: BadEvent) -> ItemError {
    ItemError::fatal(format!("{}: the events are not accepted: {bad}", bad.code()))
}
