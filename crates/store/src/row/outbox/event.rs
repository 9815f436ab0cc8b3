//! Rows of `outbox_event`.

use super::{EVENT, slot_of};
use crate::codec::{DbText, DbTime, DbXid};
use crate::error::StoreError;
use crate::outbox::EventRecord;
use tidemill_domain::outbox::receipt::Receipted;
use tidemill_domain::outbox::{Aggregate, BadEvent, EventId, NewEvent, Payload, StoredEvent, StoredHeaders};

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct EventRow {
    pub(crate) id: i64,
    pub(crate) xid: DbXid,
    /// None on SQLite where another program wrote the event and no relay has looked yet.
    pub(crate) slot: Option<i16>,
    pub(crate) aggregate_type: DbText,
    pub(crate) aggregate_id: DbText,
    pub(crate) event_type: DbText,
    pub(crate) topic: DbText,
    pub(crate) payload: Option<DbText>,
    pub(crate) payload_bytes: Option<Vec<u8>>,
    pub(crate) headers: Option<DbText>,
    pub(crate) created_at: DbTime,
}

impl EventRow {
    /// How large payload and headers are.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(self.payload.as_ref(), self.payload_bytes.as_deref(), self.headers.as_ref())
    }
}

impl TryFrom<EventRow> for StoredEvent {
    type Error = StoreError;

    fn try_from(row: EventRow) -> Result<Self, StoreError> {
        let texts = [
            ("aggregate type", Some(&row.aggregate_type)),
            ("aggregate id", Some(&row.aggregate_id)),
            ("event type", Some(&row.event_type)),
            ("topic", Some(&row.topic)),
            ("payload", row.payload.as_ref()),
        ];
        let garbled = texts.iter().find(|(_, text)| text.is_some_and(|text| text.is_garbled));
        let garbled = garbled.map(|(what, _)| BadEvent::NotUtf8 { what });
        let aggregate = Aggregate { kind: row.aggregate_type.text, id: row.aggregate_id.text };
        let slot = match row.slot {
            Some(slot) => slot_of(slot, EVENT, row.id)?,
            None => aggregate.slot(),
        };
        Ok(Self {
            id: EventId::new(row.id),
            xid: row.xid.0,
            slot,
            aggregate,
            event_type: row.event_type.text,
            topic: row.topic.text,
            payload: payload_of(row.payload.map(|payload| payload.text), row.payload_bytes),
            headers: match row.headers {
                Some(headers) if headers.is_garbled => StoredHeaders::garbled(headers.text),
                headers => StoredHeaders::of(headers.map(|headers| headers.text)),
            },
            created_at: row.created_at.into(),
            garbled,
        })
    }
}

/// Where an event is, without anything that it says.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct WhereRow {
    id: i64,
    xid: DbXid,
    slot: Option<i16>,
}

impl WhereRow {
    /// None on SQLite when no relay has looked yet; then nobody can have published it.
    pub(crate) fn receipted(&self) -> Result<Option<Receipted>, StoreError> {
        let Some(slot) = self.slot else { return Ok(None) };
        Ok(Some(Receipted {
            id: EventId::new(self.id),
            xid: self.xid.0,
            slot: slot_of(slot, EVENT, self.id)?,
        }))
    }
}

/// How large payload and headers are together.
pub(crate) fn bytes_of(
    payload: Option<&DbText>,
    payload_bytes: Option<&[u8]>,
    headers: Option<&DbText>,
) -> usize {
    let text = |text: Option<&DbText>| text.map_or(0, |text| text.text.len());
    text(payload) + payload_bytes.map_or(0, <[u8]>::len) + text(headers)
}

/// An event without what it says.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct EventRecordRow {
    id: i64,
    slot: Option<i16>,
    aggregate_type: DbText,
    aggregate_id: DbText,
    event_type: DbText,
    topic: DbText,
    bytes: Option<i64>,
    created_at: DbTime,
}

impl TryFrom<EventRecordRow> for EventRecord {
    type Error = StoreError;

    fn try_from(row: EventRecordRow) -> Result<Self, StoreError> {
        let aggregate = Aggregate { kind: row.aggregate_type.text, id: row.aggregate_id.text };
        let slot = match row.slot {
            Some(slot) => slot_of(slot, EVENT, row.id)?,
            None => aggregate.slot(),
        };
        Ok(Self {
            id: EventId::new(row.id),
            slot,
            aggregate,
            event_type: row.event_type.text,
            topic: row.topic.text,
            bytes: row.bytes.and_then(|bytes| usize::try_from(bytes).ok()),
            created_at: row.created_at.into(),
        })
    }
}

/// The payload of its two columns, of which at most one has a value.
pub(crate) fn payload_of(text: Option<String>, bytes: Option<Vec<u8>>) -> Payload {
    match (text, bytes) {
        (Some(text), _) => Payload::Json(text),
        (None, Some(bytes)) => Payload::Bytes(bytes),
        (None, None) => Payload::Tombstone,
    }
}

/// The two columns of a payload.
pub(crate) fn payload_columns(payload: &Payload) -> (Option<&str>, Option<&[u8]>) {
    match payload {
        Payload::Json(text) => (Some(text), None),
        Payload::Bytes(bytes) => (None, Some(bytes)),
        Payload::Tombstone => (None, None),
    }
}

/// The headers of an event as they are stored; nothing where there are none.
pub(crate) fn headers_column(event: &NewEvent) -> Option<String> {
    (!event.headers().is_empty()).then(|| serde_json::json!(event.headers()).to_string())
}
