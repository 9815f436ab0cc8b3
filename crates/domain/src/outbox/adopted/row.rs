//! What a row of an adopted table says. Programs of others write it, so much is taken as it comes: a payload that is not
//! JSON goes out as bytes, and a header that is no text goes out as its JSON.

use super::AdoptedTable;
use crate::outbox::event::{
    AGGREGATE_ID_BYTES_MAX, Aggregate, BadEvent, EventId, Headers, Payload, check_headers, check_name,
    check_payload,
};
use crate::time::Timestamp;
use serde_json::Value;

/// Headers that say what happened, the first one before the other.
pub const EVENT_TYPE_HEADERS: [&str; 2] = ["eventType", "event_type"];

/// A row as it was claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedRow {
    /// Its number.
    pub id: EventId,
    /// What it happened to.
    pub aggregate_id: String,
    /// What it says.
    pub payload: RowPayload,
    /// Further words, as they stand there.
    pub headers: Option<String>,
    /// When it was last changed before it was claimed.
    pub updated_at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
}

/// The payload of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowPayload {
    /// From a column of texts or JSON.
    Text(String),
    /// From a column of bytes.
    Bytes(Vec<u8>),
    /// Null.
    Nothing,
}

impl RowPayload {
    /// How long it is.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Nothing => 0,
        }
    }
}

/// What is published of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowContent {
    /// What it happened to.
    pub aggregate: Aggregate,
    /// What happened.
    pub event_type: String,
    /// Further words.
    pub headers: Headers,
    /// What it says.
    pub payload: Payload,
}

/// What is published of a row, or why it cannot be.
pub fn content(table: &AdoptedTable, row: &ClaimedRow) -> Result<RowContent, BadEvent> {
    let id = &row.aggregate_id;
    if id.is_empty() || id.len() > AGGREGATE_ID_BYTES_MAX {
        return Err(BadEvent::AggregateId);
    }
    let headers = headers(row.headers.as_deref())?;
    let named = EVENT_TYPE_HEADERS.iter().find_map(|name| headers.get(*name));
    let event_type = named.unwrap_or(&table.event_type).clone();
    check_name("event type", &event_type)?;
    let aggregate = Aggregate { kind: table.aggregate_type.clone(), id: id.clone() };
    Ok(RowContent { aggregate, event_type, payload: payload(&row.payload)?, headers })
}

fn headers(text: Option<&str>) -> Result<Headers, BadEvent> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    let Some(text) = text else { return Ok(Headers::new()) };
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

    fn table() -> AdoptedTable {
        let name = TableName::new("public", "transfer_events").unwrap();
        AdoptedTable::new(name, "transfers", None, Some("transfer.done"), None).unwrap()
    }

    fn row(payload: RowPayload, headers: Option<&str>) -> ClaimedRow {
        ClaimedRow {
            id: EventId::new(7),
            aggregate_id: "account-1".to_owned(),
            payload,
            headers: headers.map(str::to_owned),
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
