//! Lists failed events for people. Pages go from the oldest to the newest, each from the last id of the previous one.

use super::aggregate;
use crate::codec::{DbText, DbTime};
use crate::error::{Result, damaged};
use crate::outbox::FAILED_EVENT;
use crate::statement::{Columns, Stored, stored};
use crate::tx::Outbox;
use tidemill_domain::outbox::event::{BadEvent, Headers, headers_of};
use tidemill_domain::outbox::failed_event::{FailedEvent, FailedEventFacts, Original, StateWord};
use tidemill_domain::outbox::{Aggregate, Count, EventId, Payload, Seq, Slot};
use tidemill_domain::time::Timestamp;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailedEventFilter {
    /// Empty matches any state.
    pub states: Vec<StateWord>,
    pub slot: Option<Slot>,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    /// The current topic.
    pub topic: Option<String>,
    pub event_type: Option<String>,
    pub error_contains: Option<String>,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FailedEventRecord in FAILED_EVENT |row| {
        pub id: EventId = "event_id",
        pub slot: Slot,
        pub seq: Seq,
        pub aggregate: Aggregate => aggregate(row)?,
        pub event_type: String,
        /// After redirection; `None` if the event itself is gone.
        pub topic: Option<String> => topic(row)?,
        pub failed_event: FailedEvent => Stored::from_columns(row)?,
        /// The first open event of its aggregate, when it is held.
        pub behind: Option<EventId>,
        pub error: Option<String>,
        pub since: Timestamp,
        pub updated_at: Timestamp,
        pub is_edited: bool,
        pub is_redirected: bool => row.get::<Option<String>>("own_topic")?.is_some(),
        pub original: Original => match row.get::<Option<DbText>>("event_topic")? {
            Some(_) => Original::Kept,
            None => Original::Gone,
        },
    }
}

fn topic(row: &Columns<'_>) -> Result<Option<String>, sqlx::Error> {
    let of_event: Option<DbText> = row.get("event_topic")?;
    Ok(row.get::<Option<String>>("own_topic")?.or(of_event.map(|topic| topic.text)))
}

/// What would be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub topic: String,
    pub headers: Headers,
    pub payload: Payload,
    pub created_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedEventDetail {
    pub record: FailedEventRecord,
    /// `None` if the event itself is gone; an error if it is invalid.
    pub content: Option<Result<Content, BadEvent>>,
}

impl FailedEventRecord {
    /// The facts that orders are judged by.
    pub fn facts(&self) -> FailedEventFacts {
        FailedEventFacts { failed_event: self.failed_event, behind: self.behind, original: self.original }
    }
}

impl FailedEventFilter {
    /// The same condition as in the listing statements.
    pub fn matches(&self, record: &FailedEventRecord) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let is_in_state = self.states.is_empty() || self.states.contains(&record.failed_event.state.word());
        let error = record.error.as_deref().unwrap_or_default();
        let has_error = self.error_contains.as_deref().is_none_or(|part| error.contains(part));
        is_in_state
            && has_error
            && is(self.slot.as_ref(), Some(&record.slot))
            && is(self.aggregate_type.as_deref(), Some(&record.aggregate.kind))
            && is(self.aggregate_id.as_deref(), Some(&record.aggregate.id))
            && is(self.topic.as_deref(), record.topic.as_deref())
            && is(self.event_type.as_deref(), Some(&record.event_type))
    }

    pub(crate) fn state_words(&self) -> Vec<&'static str> {
        let wanted = if self.states.is_empty() { &StateWord::ALL[..] } else { &self.states };
        wanted.iter().map(|state| state.as_str()).collect()
    }
}

crate::statement::row! {
    /// Without `created_at` the event itself is gone.
    pub(crate) struct ContentRow {
        created_at: Option<DbTime>,
        topic: Option<DbText>,
        payload: Option<DbText>,
        payload_bytes: Option<Vec<u8>>,
        headers: Option<DbText>,
    }
}

impl ContentRow {
    /// `None` if the event itself is gone; an inner error if it is invalid.
    pub(super) fn content(self, id: i64) -> Result<Option<Result<Content, BadEvent>>> {
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
            (Some(_), Some(_)) => return Err(damaged("tidemill_outbox_exception", "payload_bytes", id)),
        };
        Ok(Some(Ok(Content { topic: topic.text, headers, payload, created_at: created_at.into() })))
    }
}

impl Outbox<'_> {
    /// Counted up to `count_max`.
    pub async fn count_failed_events(&mut self, filter: &FailedEventFilter, count_max: u32) -> Result<Count> {
        let count = self.failed_event_count(filter, i64::from(count_max) + 1).await?;
        Ok(Count::up_to(count_max.into(), u64::try_from(count).unwrap_or(0)))
    }

    #[crate::boxed]
    pub async fn failed_event(&mut self, id: EventId) -> Result<Option<FailedEventDetail>> {
        let Some(record) = self.failed_event_find(&[id.get()]).await?.pop() else { return Ok(None) };
        let content = match self.failed_event_content(id).await? {
            Some(row) => row.content(id.get())?,
            None => None,
        };
        Ok(Some(FailedEventDetail { record, content }))
    }
}
