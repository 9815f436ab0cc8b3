//! The events that a step writes.

use super::names::rendered;
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{Names, OutboxFile};
use crate::template::Template;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_domain::outbox::event::{check_name, check_topic};
use tidemill_domain::outbox::{Headers, NewEvent, Payload};
use tidemill_engine::item::OutboxWriter;

/// Compiled once, and used for each run.
#[derive(Clone, Debug)]
pub(super) struct Events {
    topic: Template,
    aggregate_type: Template,
    event_type: Template,
    aggregate_id: Arc<Expression>,
    payload: Option<Arc<Expression>>,
    headers: Vec<(String, Arc<Expression>)>,
}

impl Builder<'_> {
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

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text),
        other => Some(other.to_string()),
    }
}
