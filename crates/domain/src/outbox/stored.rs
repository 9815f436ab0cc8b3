//! An event as it is stored, for people to look at, and as it is published. Programs of others write the table too, so
//! what the database cannot check may break our rules: it is then shown as it is, and why it is not accepted.

use super::attached::TableName;
use super::event::{Aggregate, BadEvent, EventId, Headers, Payload, Seq, Slot, headers_of};
use crate::lease::Epoch;
use crate::time::Timestamp;

/// An event as it is published, with its place in its slot, so that whoever reads what was published can tell what is
/// missing and what came twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub id: EventId,
    /// The attached table that it is from; none of those of the outbox itself.
    pub table: Option<TableName>,
    pub slot: Slot,
    pub epoch: Epoch,
    pub seq: Seq,
    pub aggregate: Aggregate,
    pub event_type: String,
    pub topic: String,
    /// Whether somebody has said that it goes there, whatever becomes of others of its type.
    pub is_redirected: bool,
    pub headers: Headers,
    pub payload: Payload,
    pub created_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredEvent {
    pub id: EventId,
    /// The number of its transaction; on SQLite, where transactions follow each other, that of the event.
    pub xid: u64,
    pub slot: Slot,
    pub aggregate: Aggregate,
    pub event_type: String,
    pub topic: String,
    pub payload: Payload,
    pub headers: StoredHeaders,
    pub created_at: Timestamp,
    /// What is wrong with one of the texts other than headers; what could not be read of it is replaced by U+FFFD.
    pub garbled: Option<BadEvent>,
}

impl StoredEvent {
    /// The headers, if all of the event can be published; otherwise what is wrong with it.
    pub fn good(&self) -> Result<&Headers, &BadEvent> {
        match &self.garbled {
            Some(why) => Err(why),
            None => self.headers.good(),
        }
    }

    /// Takes the headers out, if all of the event can be published; otherwise what is wrong with it.
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
    /// Such as we would have written.
    Good(Headers),
    /// Such as only others write.
    Bad { text: String, why: BadEvent },
}

impl StoredHeaders {
    /// Reads what is stored; nothing stands for no headers.
    pub fn of(text: Option<String>) -> Self {
        let Some(text) = text else { return Self::Good(Headers::new()) };
        match headers_of(&text) {
            Ok(headers) => Self::Good(headers),
            Err(why) => Self::Bad { text, why },
        }
    }

    /// Headers that are not even a text; what could not be read of them was replaced.
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
