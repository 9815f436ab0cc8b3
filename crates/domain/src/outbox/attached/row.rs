//! Reads a row of an attached table. Other programs write it, so it is read tolerantly: a payload that is not JSON is
//! published as bytes, and a header that is not text as its JSON. Values that are too large were not fetched.

use super::AttachedTable;
use crate::outbox::event::{
    AGGREGATE_ID_BYTES_MAX, Aggregate, BadEvent, EventId, HEADER_BYTES_MAX, Headers, Payload, check_headers,
    check_name, check_payload,
};
use crate::time::Timestamp;
use serde_json::Value;

/// Headers with the event type, in order of preference.
pub const EVENT_TYPE_HEADERS: [&str; 2] = ["eventType", "event_type"];

/// JSON may need six bytes for one, and quotes.
pub const HEADERS_TEXT_BYTES_MAX: usize = 8 * HEADER_BYTES_MAX;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedRow {
    pub id: EventId,
    pub aggregate_id: String,
    pub payload: RowPayload,
    pub headers: RowHeaders,
    /// Before it was claimed.
    pub updated_at: Timestamp,
    pub attempts: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowPayload {
    /// From a text or JSON column.
    Text(String),
    /// From a bytea column.
    Bytes(Vec<u8>),
    /// The column is null.
    Nothing,
    /// Not fetched.
    TooLarge { len: usize },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowHeaders {
    Text(String),
    Nothing,
    /// Not fetched.
    TooLarge,
}

impl ClaimedRow {
    pub fn bytes(&self) -> usize {
        let payload = match &self.payload {
            RowPayload::Text(text) => text.len(),
            RowPayload::Bytes(bytes) => bytes.len(),
            RowPayload::Nothing | RowPayload::TooLarge { .. } => 0,
        };
        let headers = match &self.headers {
            RowHeaders::Text(text) => text.len(),
            RowHeaders::Nothing | RowHeaders::TooLarge => 0,
        };
        payload.saturating_add(headers)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowContent {
    pub aggregate: Aggregate,
    pub event_type: String,
    pub headers: Headers,
    pub payload: Payload,
}

pub fn content(table: &AttachedTable, row: &ClaimedRow) -> Result<RowContent, BadEvent> {
    let id = &row.aggregate_id;
    if id.is_empty() || id.len() > AGGREGATE_ID_BYTES_MAX {
        return Err(BadEvent::AggregateId);
    }
    let headers = headers(&row.headers)?;
    let named = EVENT_TYPE_HEADERS.iter().find_map(|name| headers.get(*name));
    let event_type = named.unwrap_or(&table.event_type).clone();
    check_name("event type", &event_type)?;
    let aggregate = Aggregate { kind: table.aggregate_type.clone(), id: id.clone() };
    Ok(RowContent { aggregate, event_type, payload: payload(&row.payload)?, headers })
}

fn headers(found: &RowHeaders) -> Result<Headers, BadEvent> {
    let text = match found {
        RowHeaders::Text(text) if !text.trim().is_empty() => text,
        RowHeaders::Text(_) | RowHeaders::Nothing => return Ok(Headers::new()),
        RowHeaders::TooLarge => return Err(BadEvent::TooManyHeaders),
    };
    let object = match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        Ok(Value::Null) => return Ok(Headers::new()),
        _ => return Err(BadEvent::HeadersNotAnObject),
    };
    let words = object.into_iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some((name, text)),
        other => Some((name, other.to_string())),
    });
    let headers = words.collect();
    check_headers(&headers)?;
    Ok(headers)
}

fn payload(found: &RowPayload) -> Result<Payload, BadEvent> {
    let payload = match found {
        RowPayload::Nothing => Payload::Tombstone,
        RowPayload::Bytes(bytes) => Payload::Bytes(bytes.clone()),
        RowPayload::Text(text) => Payload::Json(text.clone()),
        RowPayload::TooLarge { len } => return Err(BadEvent::PayloadTooLarge { len: *len }),
    };
    match (check_payload(&payload), payload) {
        (Ok(()), payload) => Ok(payload),
        (Err(BadEvent::PayloadNotJson(_)), Payload::Json(text)) => Ok(Payload::Bytes(text.into_bytes())),
        (Err(bad), _) => Err(bad),
    }
}

#[cfg(test)]
mod tests {
    use super::super::TableName;
    use super::*;
    use proptest::prelude::*;

    fn table() -> AttachedTable {
        let name = TableName::new("public", "transfer_events").unwrap();
        AttachedTable::new(name, "transfers", None, Some("transfer.done"), None).unwrap()
    }

    fn row(payload: RowPayload, headers: Option<&str>) -> ClaimedRow {
        ClaimedRow {
            id: EventId::new(7),
            aggregate_id: "account-1".to_owned(),
            payload,
            headers: headers.map_or(RowHeaders::Nothing, |text| RowHeaders::Text(text.to_owned())),
            updated_at: Timestamp::EPOCH,
            attempts: 0,
        }
    }

    #[test]
    fn headers_may_say_what_happened() {
        let of = |headers| content(&table(), &row(RowPayload::Nothing, headers)).unwrap();

        assert_eq!(of(None).event_type, "transfer.done");
        assert_eq!(of(Some("{\"event_type\":\"a\"}")).event_type, "a");
        assert_eq!(of(Some("{\"event_type\":\"a\",\"eventType\":\"b\"}")).event_type, "b");
        let headers = of(Some("{\"n\":5,\"none\":null,\"deep\":{\"a\":[1]}}")).headers;
        assert_eq!(headers, [("n".into(), "5".into()), ("deep".into(), "{\"a\":[1]}".into())].into());
        assert_eq!(of(Some(" ")).headers, Headers::new());
    }

    #[test]
    fn headers_that_are_no_object_are_refused() {
        let bad = content(&table(), &row(RowPayload::Nothing, Some("[1]")));
        assert_eq!(bad, Err(BadEvent::HeadersNotAnObject));
    }

    #[test]
    fn what_was_too_large_to_be_fetched_is_refused() {
        let large = row(RowPayload::TooLarge { len: 3 << 20 }, None);
        assert_eq!(content(&table(), &large), Err(BadEvent::PayloadTooLarge { len: 3 << 20 }));
        assert_eq!(large.bytes(), 0);
        let wordy = ClaimedRow { headers: RowHeaders::TooLarge, ..row(RowPayload::Nothing, None) };
        assert_eq!(content(&table(), &wordy), Err(BadEvent::TooManyHeaders));
    }

    #[test]
    fn headers_that_are_allowed_are_fetched_however_they_are_written() {
        let value = "\u{1}".repeat(HEADER_BYTES_MAX - 1);
        let text = serde_json::json!({ "n": value }).to_string();

        assert!(text.len() <= HEADERS_TEXT_BYTES_MAX);
        let taken = content(&table(), &row(RowPayload::Nothing, Some(&text)));
        assert!(!matches!(taken, Err(BadEvent::TooManyHeaders)), "{taken:?}");
    }

    proptest! {
        #[test]
        fn any_text_goes_out_as_it_stands(text in "\\PC{0,80}") {
            let found = content(&table(), &row(RowPayload::Text(text.clone()), None)).unwrap();
            let out = match found.payload {
                Payload::Json(out) => out,
                Payload::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
                Payload::Tombstone => unreachable!("a text is something"),
            };
            prop_assert_eq!(out, text);
        }

        #[test]
        fn any_headers_are_taken_or_refused(text in "\\PC{0,80}") {
            let taken = content(&table(), &row(RowPayload::Nothing, Some(&text)));
            let is_object = matches!(serde_json::from_str(&text), Ok(Value::Object(_) | Value::Null));
            prop_assert_eq!(taken.is_ok(), is_object || text.trim().is_empty());
        }
    }
}
