//! An event as it is stored, and as it is published. Other programs write to the table too, so an event may break rules
//! that the database cannot check: it is then shown with the reason.

use super::attached::TableName;
use super::event::{Aggregate, BadEvent, EventId, Headers, Payload, Seq, Slot, headers_of};
use crate::lease::Epoch;
use crate::time::Timestamp;

/// An event as it is published, with its position in its slot, so that readers can detect gaps and duplicates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub id: EventId,
    /// None for the outbox's own table.
    pub table: Option<TableName>,
    pub slot: Slot,
    pub epoch: Epoch,
    pub seq: Seq,
    pub aggregate: Aggregate,
    pub event_type: String,
    pub topic: String,
    /// Whether an operator chose the topic, so that no routing applies.
    pub is_redirected: bool,
    pub headers: Headers,
    pub payload: Payload,
    pub created_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredEvent {
    pub id: EventId,
    /// Its transaction; on SQLite the event's own id.
    pub xid: u64,
    pub slot: Slot,
    pub aggregate: Aggregate,
    pub event_type: String,
    pub topic: String,
    pub payload: Payload,
    pub headers: StoredHeaders,
    pub created_at: Timestamp,
    /// What is wrong with a text other than the headers; unreadable parts are replaced by U+FFFD.
    pub garbled: Option<BadEvent>,
}

impl StoredEvent {
    /// The headers, if the event can be published; otherwise what is wrong with it.
    pub fn take_good(&mut self) -> Result<Headers, &BadEvent> {
        match (&self.garbled, &mut self.headers) {
            (Some(why), _) => Err(why),
            (None, StoredHeaders::Good(headers)) => Ok(std::mem::take(headers)),
            (None, StoredHeaders::Bad { why, .. }) => Err(why),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredHeaders {
    Good(Headers),
    Bad { text: String, why: BadEvent },
}

impl StoredHeaders {
    /// None means no headers.
    pub fn of(text: Option<String>) -> Self {
        let Some(text) = text else { return Self::Good(Headers::new()) };
        match headers_of(&text) {
            Ok(headers) => Self::Good(headers),
            Err(why) => Self::Bad { text, why },
        }
    }

    /// Headers that are not valid UTF-8; unreadable parts were replaced.
    pub fn garbled(text: String) -> Self {
        Self::Bad { text, why: BadEvent::NotUtf8 { what: "headers" } }
    }

    pub fn good(&self) -> Result<&Headers, &BadEvent> {
        match self {
            Self::Good(headers) => Ok(headers),
            Self::Bad { why, .. } => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{HEADERS_MAX, NewEvent};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_that_were_accepted_are_read_back(
            headers in prop::collection::btree_map("[^\\x00-\\x1f\\x7f-\\x9f]{1,40}", "[^\\x00]{0,40}", 0..HEADERS_MAX),
        ) {
            let event = NewEvent::new("order", "1", "order.paid", "orders", Payload::Tombstone);
            let event = event.unwrap().with_headers(headers.clone()).unwrap();
            let text = serde_json::to_string(event.headers()).unwrap();
            prop_assert_eq!(StoredHeaders::of(Some(text)), StoredHeaders::Good(headers));
        }

        #[test]
        fn any_text_is_headers_or_is_kept_as_it_is(text in "\\PC{0,40}") {
            match StoredHeaders::of(Some(text.clone())) {
                StoredHeaders::Good(headers) => prop_assert_eq!(headers_of(&text), Ok(headers)),
                StoredHeaders::Bad { text: kept, why } => {
                    prop_assert_eq!(&kept, &text);
                    prop_assert_eq!(headers_of(&text), Err(why));
                }
            }
        }
    }

    #[test]
    fn headers_that_are_no_texts_are_shown_and_refused() {
        use crate::outbox::{BadEvent, StoredHeaders};
        assert_eq!(StoredHeaders::of(None), StoredHeaders::Good(Default::default()));
        let bad = StoredHeaders::of(Some("{\"a\":1}".to_owned()));
        assert_eq!(bad.good(), Err(&BadEvent::HeadersNotAnObject));
    }
}
