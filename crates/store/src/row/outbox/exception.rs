//! Rows of excepted events.

use super::{EXCEPTION, slot_of};
use crate::codec::{DbText, DbTime};
use crate::error::StoreError;
use crate::outbox::exception::{Content, ExceptionRecord};
use crate::row::damaged;
use tidemill_domain::outbox::event::{BadEvent, Headers, headers_of};
use tidemill_domain::outbox::exception::{Exception, ExceptionState, Original};
use tidemill_domain::outbox::{Aggregate, EventId, Payload, Seq, Slot};

/// An aggregate and its slot.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AggregateRow {
    pub(crate) slot: i16,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
}

impl AggregateRow {
    pub(crate) fn new(slot: Slot, aggregate: &Aggregate) -> Self {
        let (aggregate_type, aggregate_id) = (aggregate.kind.clone(), aggregate.id.clone());
        Self { slot: i16::from(slot.get()), aggregate_type, aggregate_id }
    }

    pub(crate) fn key(self) -> Result<(Slot, Aggregate), StoreError> {
        let slot = slot_of(self.slot, EXCEPTION, &self.aggregate_id)?;
        Ok((slot, Aggregate { kind: self.aggregate_type, id: self.aggregate_id }))
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct StandingRow {
    pub(crate) event_id: i64,
    slot: i16,
    aggregate_type: String,
    aggregate_id: String,
    state: String,
    pub(crate) revision: i64,
    attempts: i64,
    next_attempt_at: Option<DbTime>,
}

impl StandingRow {
    pub(crate) fn key(&self) -> Result<(Slot, Aggregate), StoreError> {
        let aggregate = Aggregate { kind: self.aggregate_type.clone(), id: self.aggregate_id.clone() };
        Ok((slot_of(self.slot, EXCEPTION, self.event_id)?, aggregate))
    }

    pub(crate) fn exception(&self) -> Result<Exception, StoreError> {
        Ok(Exception {
            state: state_of(&self.state, self.next_attempt_at, self.event_id)?,
            attempts: attempts_of(self.attempts, self.event_id)?,
            revision: self.revision,
        })
    }
}

/// An exception as it is shown.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ExceptionRow {
    event_id: i64,
    slot: i16,
    seq: i64,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    state: String,
    revision: i64,
    attempts: i64,
    next_attempt_at: Option<DbTime>,
    error: Option<String>,
    since: DbTime,
    updated_at: DbTime,
    is_edited: bool,
    own_topic: Option<String>,
    event_topic: Option<DbText>,
    behind: Option<i64>,
}

impl TryFrom<ExceptionRow> for ExceptionRecord {
    type Error = StoreError;

    fn try_from(row: ExceptionRow) -> Result<Self, StoreError> {
        let id = row.event_id;
        Ok(Self {
            id: EventId::new(id),
            slot: slot_of(row.slot, EXCEPTION, id)?,
            seq: Seq::new(row.seq),
            aggregate: Aggregate { kind: row.aggregate_type, id: row.aggregate_id },
            event_type: row.event_type,
            exception: Exception {
                state: state_of(&row.state, row.next_attempt_at, id)?,
                attempts: attempts_of(row.attempts, id)?,
                revision: row.revision,
            },
            behind: row.behind.map(EventId::new),
            error: row.error,
            since: row.since.into(),
            updated_at: row.updated_at.into(),
            is_edited: row.is_edited,
            is_redirected: row.own_topic.is_some(),
            original: if row.event_topic.is_some() { Original::Kept } else { Original::Gone },
            topic: row.own_topic.or(row.event_topic.map(|topic| topic.text)),
        })
    }
}

/// What would be published of an excepted event. Without `created_at` the event itself is gone.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ContentRow {
    created_at: Option<DbTime>,
    topic: Option<DbText>,
    payload: Option<DbText>,
    payload_bytes: Option<Vec<u8>>,
    headers: Option<DbText>,
}

impl ContentRow {
    /// None when the event itself is gone; an error in it when it makes no sense.
    pub(crate) fn content(self, id: i64) -> Result<Option<Result<Content, BadEvent>>, StoreError> {
        let (Some(created_at), Some(topic)) = (self.created_at, self.topic) else { return Ok(None) };
        let texts =
            [("topic", Some(&topic)), ("payload", self.payload.as_ref()), ("headers", self.headers.as_ref())];
        if let Some((what, _)) = texts.iter().find(|(_, text)| text.is_some_and(|text| text.is_garbled)) {
            return Ok(Some(Err(BadEvent::NotUtf8 { what })));
        }
        let headers = match self.headers.as_ref().map(|headers| headers_of(&headers.text)) {
            None => Headers::new(),
            Some(Ok(headers)) => headers,
            Some(Err(bad)) => return Ok(Some(Err(bad))),
        };
        let payload = match (self.payload, self.payload_bytes) {
            (Some(payload), None) => Payload::Json(payload.text),
            (None, Some(bytes)) => Payload::Bytes(bytes),
            (None, None) => Payload::Tombstone,
            (Some(_), Some(_)) => return Err(damaged(EXCEPTION, "payload_bytes", id)),
        };
        Ok(Some(Ok(Content { topic: topic.text, headers, payload, created_at: created_at.into() })))
    }
}

/// An exception that is to be tried now, or one behind such a one.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct DueRow {
    pub(crate) event_id: i64,
    /// The event that is due, of this aggregate.
    pub(crate) head: i64,
    slot: i16,
    pub(crate) seq: i64,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
    pub(crate) event_type: String,
    pub(crate) revision: i64,
    attempts: i64,
    pub(crate) is_redirected: bool,
    #[sqlx(flatten)]
    pub(crate) content: ContentRow,
}

impl DueRow {
    pub(crate) fn slot(&self) -> Result<Slot, StoreError> {
        slot_of(self.slot, EXCEPTION, self.event_id)
    }

    pub(crate) fn attempts(&self) -> Result<u32, StoreError> {
        attempts_of(self.attempts, self.event_id)
    }
}

fn state_of(word: &str, next: Option<DbTime>, id: i64) -> Result<ExceptionState, StoreError> {
    match (word, next) {
        ("waiting", Some(at)) => Ok(ExceptionState::Waiting { next_attempt_at: at.0 }),
        ("held", None) => Ok(ExceptionState::Held),
        ("parked", None) => Ok(ExceptionState::Parked),
        ("skipped", None) => Ok(ExceptionState::Skipped),
        _ => Err(damaged(EXCEPTION, "state", id)),
    }
}

fn attempts_of(attempts: i64, id: i64) -> Result<u32, StoreError> {
    u32::try_from(attempts).map_err(|_| damaged(EXCEPTION, "attempts", id))
}
