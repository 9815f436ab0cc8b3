//! Failed events: events that the sink refused, and events that wait for one.

use crate::outbox::EventPayload;
use crate::shapes;
use std::collections::BTreeMap;
use std::fmt::Display;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::failed_event::{Original, StateWord};
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_domain::time::Timestamp;
use tidemill_domain::words::UnknownWord;
use tidemill_store::outbox::attached::failed::RowsOrdered;
use tidemill_store::outbox::failed_event::{self, FailedEventFilter, FailedEventRecord, OperationResult};

shapes! {
    /// An event that the sink refused, or an event that waits for one. Without its payload.
    pub struct FailedEvent from record: &FailedEventRecord {
        /// Id of the event.
        id: i64 = record.id.get(),
        slot: u8 = record.slot.get(),
        /// Position of the event in its slot.
        seq: i64 = record.seq.get(),
        aggregate_type: String = record.aggregate.kind.clone(),
        aggregate_id: String = record.aggregate.id.clone(),
        event_type: String = record.event_type.clone(),
        /// Null if the event was deleted from its table.
        topic: Option<String> = record.topic.clone(),
        /// `waiting` (retried automatically), `held` (waits for an earlier event of its aggregate), `parked` (no more
        /// retries) or `skipped` (never published).
        state: &'static str = record.failed_event.state.word().as_str(),
        next_attempt_at: Option<Timestamp> = record.failed_event.state.next_attempt_at(),
        /// Id of the earlier event that a held event waits for.
        behind: Option<i64> = record.behind.map(EventId::get),
        attempts: u32 = record.failed_event.attempts,
        /// Why the sink last refused it.
        error: Option<String> = record.error.clone(),
        /// When it first failed.
        since: Timestamp = record.since,
        updated_at: Timestamp = record.updated_at,
        /// Whether an operator changed the payload or the headers.
        is_edited: bool = record.is_edited,
        /// Whether an operator changed the topic.
        is_redirected: bool = record.is_redirected,
        /// Whether the event was deleted from its table.
        is_gone: bool = record.original == Original::Gone,
    }

    /// A failed event with its payload.
    pub struct FailedEventDetail {
        #[serde(flatten)]
        failed_event: FailedEvent,
        /// When the event was written; null if it was deleted from its table.
        created_at: Option<Timestamp>,
        /// Null if the event was deleted or cannot be read.
        payload: Option<EventPayload>,
        headers: Option<BTreeMap<String, String>>,
        /// Why the event cannot be read.
        unreadable: Option<String>,
    }

    /// Filters for a list of failed events.
    pub struct ListFailedEvents in query {
        /// Maximum number of events, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only events after this id: `next` of the previous page.
        after: Option<i64>,
        /// `waiting`, `held`, `parked` or `skipped`.
        state: Option<String>,
        /// From 0 to 255.
        slot: Option<u8>,
        aggregate_type: Option<String>,
        aggregate_id: Option<String>,
        topic: Option<String>,
        event_type: Option<String>,
        /// Text in the error.
        error: Option<String>,
    }

    /// Filters failed events. Conditions that are left out match every event.
    #[derive(Default)]
    pub struct EventFilter in body {
        /// `waiting`, `held` or `parked`.
        state: Option<String>,
        /// From 0 to 255.
        slot: Option<u8>,
        aggregate_type: Option<String>,
        aggregate_id: Option<String>,
        topic: Option<String>,
        event_type: Option<String>,
        /// Text in the error.
        error: Option<String>,
    }

    /// Request to skip or replay events: `ids` or a `filter`.
    #[schema(example = json!({ "reason": "the broker is back", "filter": { "topic": "orders" } }))]
    pub struct ChangeEvents in body {
        /// Kept in the audit log.
        reason: String,
        /// At most 500 ids.
        ids: Option<Vec<i64>>,
        /// An empty filter matches all events.
        filter: Option<EventFilter>,
        /// With a filter: only events after this id, which is `next` of the previous answer.
        after: Option<i64>,
        /// With a filter: maximum number of events, from 1 to 500. Default 50.
        limit: Option<u32>,
    }

    /// Request to redirect events.
    #[schema(example = json!({ "topic": "orders.late", "events": { "reason": "the topic was renamed", "ids": [17, 18] } }))]
    pub struct RedirectEvents in body {
        /// The new topic.
        topic: String,
        events: ChangeEvents,
    }

    /// Request to edit an event. Parts that are left out do not change.
    #[schema(example = json!({ "reason": "the amount was missing", "payload": { "type": "json", "text": "{\"total\": 12.50}" } }))]
    pub struct EditEvent in body {
        /// Kept in the audit log.
        reason: String,
        payload: Option<EventPayload>,
        /// Replaces all headers.
        headers: Option<BTreeMap<String, String>>,
    }

    /// Request to redirect an event.
    #[schema(example = json!({ "reason": "the topic was renamed", "topic": "orders.late" }))]
    pub struct RedirectEvent in body {
        /// Kept in the audit log.
        reason: String,
        /// The new topic.
        topic: String,
    }

    /// Request to skip or replay rows of an attached table.
    #[schema(example = json!({ "reason": "the broker is back", "ids": [17, 18] }))]
    pub struct ChangeRows in body {
        /// Kept in the audit log.
        reason: String,
        /// 1 to 500 ids.
        ids: Vec<i64>,
    }

    /// Which events or rows were changed.
    pub struct ChangedEvents {
        changed: Vec<i64>,
        refused: Vec<RefusedEvent>,
        /// If set, there may be more: repeat the request with this as `after`.
        next: Option<i64>,
    }

    /// An event or a row that was not changed.
    pub struct RefusedEvent {
        id: i64,
        /// The error code.
        #[serde(serialize_with = "as_text")]
        #[schema(value_type = String)]
        code: Code,
        /// Why it was not changed.
        detail: String,
        /// What helps.
        remedy: String,
    }
}

impl From<&failed_event::FailedEventDetail> for FailedEventDetail {
    fn from(detail: &failed_event::FailedEventDetail) -> Self {
        let content = detail.content.as_ref().and_then(|content| content.as_ref().ok());
        let bad = detail.content.as_ref().and_then(|content| content.as_ref().err());
        Self {
            failed_event: (&detail.record).into(),
            created_at: content.map(|content| content.created_at),
            payload: content.map(|content| (&content.payload).into()),
            headers: content.map(|content| content.headers.clone()),
            unreadable: bad.map(ToString::to_string),
        }
    }
}

impl From<ListFailedEvents> for EventFilter {
    fn from(query: ListFailedEvents) -> Self {
        Self {
            state: query.state,
            slot: query.slot,
            aggregate_type: query.aggregate_type,
            aggregate_id: query.aggregate_id,
            topic: query.topic,
            event_type: query.event_type,
            error: query.error,
        }
    }
}

impl TryFrom<EventFilter> for FailedEventFilter {
    type Error = UnknownWord;

    fn try_from(filter: EventFilter) -> Result<Self, UnknownWord> {
        let state: Option<StateWord> = filter.state.map(|word| word.parse()).transpose()?;
        Ok(Self {
            states: state.into_iter().collect(),
            slot: filter.slot.map(Slot::new),
            aggregate_type: filter.aggregate_type,
            aggregate_id: filter.aggregate_id,
            topic: filter.topic,
            event_type: filter.event_type,
            error_contains: filter.error,
        })
    }
}

impl RefusedEvent {
    fn new(id: EventId, code: Code, why: &impl Display, remedy: impl Into<String>) -> Self {
        Self { id: id.get(), code, detail: why.to_string(), remedy: remedy.into() }
    }
}

fn as_text<S: serde::Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl From<OperationResult> for ChangedEvents {
    fn from(operated: OperationResult) -> Self {
        let refused = operated.refused.iter();
        let refused = refused.map(|(id, why)| RefusedEvent::new(*id, why.code(), why, why.fix()));
        Self {
            changed: operated.changed.into_iter().map(EventId::get).collect(),
            refused: refused.collect(),
            next: operated.next.map(EventId::get),
        }
    }
}

impl From<RowsOrdered> for ChangedEvents {
    fn from(ordered: RowsOrdered) -> Self {
        let refused = ordered.refused.iter();
        let refused = refused.map(|(id, why)| RefusedEvent::new(*id, why.code(), why, why.fix()));
        Self {
            changed: ordered.changed.into_iter().map(EventId::get).collect(),
            refused: refused.collect(),
            next: None,
        }
    }
}
