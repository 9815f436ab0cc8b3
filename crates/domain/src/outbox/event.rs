//! An event: something that happened to an aggregate. The aggregate decides the slot, so all events of one aggregate are
//! in one slot, and one relay at a time publishes them.

use crate::trace::{TRACEPARENT, TraceParent};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Of all headers together, names included.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
pub const HEADERS_MAX: usize = 64;
/// Of an aggregate type or an event type.
pub const NAME_BYTES_MAX: usize = 200;
pub const AGGREGATE_ID_BYTES_MAX: usize = 1000;
/// Kafka's limit.
pub const TOPIC_CHARS_MAX: usize = 249;

crate::newtype::ids! {
    /// The number of an event in its table. Under the lock of one aggregate, later events have higher numbers.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct EventId(i64);

    /// The position of an event in its slot, from 1, in the order in which relays read.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Seq(i64);

    /// One of the 256 shares of the outbox.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Slot(u8);
}

impl EventId {
    pub const ZERO: Self = Self(0);
}

crate::newtype::parsed!(
    EventId, |text| text.parse().ok().filter(|id| *id > 0).map(Self),
    BadEventId: "the id of an event is a whole number of 1 or more"
);

impl Seq {
    /// Before the first event of a slot.
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Slot {
    /// Never changes when relays come and go.
    pub const COUNT: usize = 256;

    /// The first byte of the MD5 of the aggregate id in UTF-8, which every language and PostgreSQL can compute.
    pub fn of(aggregate_id: &str) -> Self {
        let [first, ..]: [u8; 16] = Md5::digest(aggregate_id.as_bytes()).into();
        Self(first)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }
}

/// The thing whose events keep their order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Aggregate {
    pub kind: String,
    /// The key of published records.
    pub id: String,
}

impl Aggregate {
    pub fn slot(&self) -> Slot {
        Slot::of(&self.id)
    }
}

crate::newtype::display!(Aggregate, aggregate => "{}/{}", aggregate.kind, aggregate.id);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Kept as it was written.
    Json(String),
    Bytes(Vec<u8>),
    /// No payload: a compacted topic may drop the aggregate.
    Tombstone,
}

impl Payload {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Tombstone => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

pub type Headers = BTreeMap<String, String>;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadEvent {
    #[error("the {what} is 1 to {NAME_BYTES_MAX} bytes without control characters")]
    Name { what: &'static str },
    /// Without a key there is no order.
    #[error("the aggregate id is 1 to {AGGREGATE_ID_BYTES_MAX} bytes without NUL")]
    AggregateId,
    #[error("a topic is 1 to {TOPIC_CHARS_MAX} of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'")]
    Topic,
    #[error("the payload has {len} bytes; {PAYLOAD_BYTES_MAX} are allowed")]
    PayloadTooLarge { len: usize },
    #[error("the payload is not valid JSON: {0}")]
    PayloadNotJson(String),
    #[error("the header {name:?} is not allowed: {why}")]
    Header { name: String, why: &'static str },
    #[error("at most {HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes together are allowed")]
    TooManyHeaders,
    /// Only possible in SQLite, by other programs.
    #[error("the text of the {what} is not valid UTF-8")]
    NotUtf8 { what: &'static str },
    #[error("headers must be a JSON object with text values")]
    HeadersNotAnObject,
}

crate::code::coded!(BadEvent, BadEvent);

/// An event that was checked and may be written.
///
/// ```
/// # use tidemill_domain::outbox::{NewEvent, Payload};
/// let paid = NewEvent::new("order", "order-1", "order.paid", "orders", Payload::Json("{\"amount\":5}".into()))
///     .unwrap()
///     .header("trace", "abc")
///     .unwrap();
/// assert_eq!(paid.slot().get(), 0x6e);
/// assert!(NewEvent::new("order", "", "order.paid", "orders", Payload::Tombstone).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent {
    aggregate: Aggregate,
    event_type: String,
    topic: String,
    payload: Payload,
    headers: Headers,
}

crate::getters!(NewEvent {
    &aggregate: Aggregate,
    &event_type: str,
    &topic: str,
    &payload: Payload,
    &headers: Headers,
});

impl NewEvent {
    pub fn new(
        aggregate_type: impl Into<String>,
        aggregate_id: impl Into<String>,
        event_type: impl Into<String>,
        topic: impl Into<String>,
        payload: Payload,
    ) -> Result<Self, BadEvent> {
        let aggregate = Aggregate { kind: aggregate_type.into(), id: aggregate_id.into() };
        let (event_type, topic) = (event_type.into(), topic.into());
        check_name("aggregate type", &aggregate.kind)?;
        check_name("event type", &event_type)?;
        let id_len = aggregate.id.len();
        if id_len == 0 || id_len > AGGREGATE_ID_BYTES_MAX || aggregate.id.contains('\0') {
            return Err(BadEvent::AggregateId);
        }
        check_topic(&topic)?;
        check_payload(&payload)?;
        Ok(Self { aggregate, event_type, topic, payload, headers: Headers::new() })
    }

    /// Replaces a header of the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Result<Self, BadEvent> {
        self.headers.insert(name.into(), value.into());
        check_headers(&self.headers)?;
        Ok(self)
    }

    pub fn with_headers(mut self, headers: Headers) -> Result<Self, BadEvent> {
        check_headers(&headers)?;
        self.headers = headers;
        Ok(self)
    }

    pub fn slot(&self) -> Slot {
        self.aggregate.slot()
    }

    /// Its headers, with the place in a trace at which it is written. A header of that name stays as it is, and without room
    /// for another one nothing is added.
    pub fn headers_in(&self, trace: Option<TraceParent>) -> Cow<'_, Headers> {
        let own = Cow::Borrowed(&self.headers);
        let Some(trace) = trace.filter(|_| !self.headers.contains_key(TRACEPARENT)) else { return own };
        let mut headers = self.headers.clone();
        headers.insert(TRACEPARENT.to_owned(), trace.to_string());
        check_headers(&headers).map_or(own, |()| Cow::Owned(headers))
    }
}

pub fn check_name(what: &'static str, name: &str) -> Result<(), BadEvent> {
    let is_good = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    if is_good { Ok(()) } else { Err(BadEvent::Name { what }) }
}

pub fn check_topic(topic: &str) -> Result<(), BadEvent> {
    let is_good = !topic.is_empty()
        && topic.len() <= TOPIC_CHARS_MAX
        && topic != "."
        && topic != ".."
        && topic.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if is_good { Ok(()) } else { Err(BadEvent::Topic) }
}

pub fn check_payload(payload: &Payload) -> Result<(), BadEvent> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(BadEvent::PayloadTooLarge { len: payload.len() });
    }
    if let Payload::Json(text) = payload {
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|error| BadEvent::PayloadNotJson(error.to_string()))?;
    }
    Ok(())
}

pub fn check_headers(headers: &Headers) -> Result<(), BadEvent> {
    let bad = |name: &str, why| Err(BadEvent::Header { name: name.to_owned(), why });
    for (name, value) in headers {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return bad(name, "its name is 1 to 200 bytes without control characters");
        }
        if value.contains('\0') {
            return bad(name, "its value contains NUL");
        }
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
        return Err(BadEvent::TooManyHeaders);
    }
    Ok(())
}

/// Headers are stored as a JSON object of texts.
pub fn headers_of(text: &str) -> Result<Headers, BadEvent> {
    let headers: Headers = serde_json::from_str(text).map_err(|_| BadEvent::HeadersNotAnObject)?;
    check_headers(&headers)?;
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(topic: &str, payload: Payload) -> Result<NewEvent, BadEvent> {
        NewEvent::new("order", "order-1", "order.paid", topic, payload)
    }

    #[test]
    fn the_slot_is_the_first_byte_of_the_md5_of_the_id() {
        // `printf %s a | md5sum`, and the same of nothing.
        assert_eq!(Slot::of("order-1").get(), 0x6e);
        assert_eq!(Slot::of("a").get(), 0x0c);
        assert_eq!(Slot::of("").get(), 0xd4);
    }

    #[test]
    fn what_cannot_be_published_is_refused() {
        let nul = NewEvent::new("order", "a\0b", "order.paid", "orders", Payload::Tombstone);
        let no_key = NewEvent::new("order", "", "order.paid", "orders", Payload::Tombstone);
        let no_type = NewEvent::new("order", "1", "", "orders", Payload::Tombstone);
        let large = event("orders", Payload::Bytes(vec![0; PAYLOAD_BYTES_MAX + 1]));

        assert_eq!(nul, Err(BadEvent::AggregateId));
        assert_eq!(no_key, Err(BadEvent::AggregateId));
        assert_eq!(no_type, Err(BadEvent::Name { what: "event type" }));
        assert_eq!(large, Err(BadEvent::PayloadTooLarge { len: PAYLOAD_BYTES_MAX + 1 }));
        assert!(matches!(event("orders", Payload::Json("{".into())), Err(BadEvent::PayloadNotJson(_))));
        for topic in ["", ".", "..", "a b", "ü", &"x".repeat(250)] {
            assert_eq!(event(topic, Payload::Tombstone), Err(BadEvent::Topic), "{topic:?}");
        }
    }

    #[test]
    fn headers_are_texts_by_name() {
        assert_eq!(headers_of("{\"a\":\"b\"}").unwrap().get("a").unwrap(), "b");
        assert_eq!(headers_of("{\"a\":1}"), Err(BadEvent::HeadersNotAnObject));
        assert_eq!(headers_of("[]"), Err(BadEvent::HeadersNotAnObject));
        assert!(matches!(headers_of("{\"\":\"b\"}"), Err(BadEvent::Header { .. })));
        let large = event("orders", Payload::Tombstone).unwrap().header("a", "b".repeat(HEADER_BYTES_MAX));
        assert_eq!(large, Err(BadEvent::TooManyHeaders));
    }

    #[test]
    fn an_event_has_the_trace_in_which_it_is_written_unless_it_names_one() {
        let trace = TraceParent { trace: 1, span: 2, flags: 1 };
        let plain = event("orders", Payload::Tombstone).unwrap();
        let named = plain.clone().header(TRACEPARENT, "mine").unwrap();
        let full: Headers = (0..HEADERS_MAX).map(|n| (n.to_string(), String::new())).collect();
        let full = plain.clone().with_headers(full).unwrap();

        assert_eq!(plain.headers_in(Some(trace)).get(TRACEPARENT), Some(&trace.to_string()));
        assert_eq!(plain.headers_in(None).len(), 0);
        assert_eq!(named.headers_in(Some(trace)).as_ref(), named.headers());
        assert_eq!(full.headers_in(Some(trace)).as_ref(), full.headers());
    }

    proptest! {
        #[test]
        fn an_event_is_in_the_slot_of_its_aggregate(id in "[^\\x00]{1,40}") {
            let event = NewEvent::new("order", id.clone(), "order.paid", "orders", Payload::Tombstone).unwrap();
            prop_assert_eq!(event.slot(), Slot::of(&id));
        }
    }
}
