//! A record, and how it becomes a row.

use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use tidemill_domain::item::{Row, Value};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KafkaRecord {
    pub topic: Arc<str>,
    pub partition: i32,
    pub offset: i64,
    /// When it was created, or when the broker received it; records of very old clients have none.
    pub timestamp: Option<Timestamp>,
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// In order; a name may repeat.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl KafkaRecord {
    pub(super) fn of(topic: &Arc<str>, message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map(|headers| {
            let header = |header: rdkafka::message::Header<'_, &[u8]>| {
                (header.key.to_owned(), header.value.map(<[u8]>::to_vec))
            };
            headers.iter().map(header).collect()
        });
        Self {
            topic: topic.clone(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message
                .timestamp()
                .to_millis()
                .map(|millis| Timestamp::from_micros(millis.saturating_mul(1000))),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
        }
    }

    /// Approximate memory use.
    pub(super) fn bytes(&self) -> usize {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + len(value)).sum();
        len(&self.key) + len(&self.payload) + headers
    }

    pub fn place(&self) -> String {
        format!("{}/{} offset {}", self.topic, self.partition, self.offset)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Json,
    Text,
    Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowFormat {
    pub key: Format,
    pub payload: Format,
}

impl Default for RowFormat {
    fn default() -> Self {
        Self { key: Format::Text, payload: Format::Json }
    }
}

pub const COLUMNS: [&str; 7] = ["key", "payload", "headers", "topic", "partition", "offset", "timestamp"];

impl RowFormat {
    /// A row with these column names. Header values that are not UTF-8 become hexadecimal digits.
    pub(super) fn row(self, record: KafkaRecord, names: &Arc<[String]>) -> Result<Row, String> {
        let key = self.key.value(record.key).map_err(|fault| format!("the key is {fault}"))?;
        let payload =
            self.payload.value(record.payload).map_err(|fault| format!("the payload is {fault}"))?;
        let headers: Map<String, Json> =
            record.headers.into_iter().map(|(name, value)| (name, header(value))).collect();
        let values = vec![
            key,
            payload,
            Json::Object(headers).into(),
            Value::Text(record.topic.as_ref().to_owned()),
            record.partition.into(),
            record.offset.into(),
            record.timestamp.into(),
        ];
        Ok(Row::new(names.clone(), values))
    }
}

impl Format {
    fn value(self, bytes: Option<Vec<u8>>) -> Result<Value, String> {
        let Some(bytes) = bytes else { return Ok(Value::Null) };
        match self {
            Self::Bytes => Ok(bytes.into()),
            Self::Text => String::from_utf8(bytes).map(Value::Text).map_err(|_| "not UTF-8".to_owned()),
            Self::Json => serde_json::from_slice(&bytes)
                .map(Value::from_json)
                .map_err(|error| format!("not JSON: {error}")),
        }
    }
}

fn header(value: Option<Vec<u8>>) -> Json {
    match value.map(String::from_utf8) {
        None => Json::Null,
        Some(Ok(text)) => text.into(),
        Some(Err(error)) => Value::Bytes(error.into_bytes()).to_json(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(key: Option<&[u8]>, payload: Option<&[u8]>) -> KafkaRecord {
        KafkaRecord {
            topic: "orders".into(),
            partition: 3,
            offset: 17,
            timestamp: Some(Timestamp::EPOCH),
            key: key.map(<[u8]>::to_vec),
            payload: payload.map(<[u8]>::to_vec),
            headers: vec![
                ("a".into(), Some(b"x".to_vec())),
                ("b".into(), None),
                ("c".into(), Some(vec![255])),
            ],
        }
    }

    fn row(format: RowFormat, record: KafkaRecord) -> Result<Json, String> {
        let names: Arc<[String]> = COLUMNS.map(str::to_owned).into();
        format.row(record, &names).map(|row| row.to_json())
    }

    #[test]
    fn a_record_is_a_row_with_what_it_says_and_where_it_is() {
        let found = row(RowFormat::default(), record(Some(b"order-1"), Some(b"{\"n\": [1]}")));

        let expected = json!({
            "key": "order-1",
            "payload": { "n": [1] },
            "headers": { "a": "x", "b": null, "c": "ff" },
            "topic": "orders",
            "partition": 3,
            "offset": 17,
            "timestamp": "1970-01-01T00:00:00.000000Z",
        });
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn a_tombstone_has_no_payload_and_is_no_error_in_any_format() {
        for payload in [Format::Json, Format::Text, Format::Bytes] {
            let found = row(RowFormat { payload, ..RowFormat::default() }, record(None, None)).unwrap();
            assert_eq!((&found["key"], &found["payload"]), (&Json::Null, &Json::Null));
        }
    }

    #[test]
    fn what_is_not_of_its_format_is_told() {
        let bytes = RowFormat { key: Format::Bytes, payload: Format::Bytes };

        let not_json = row(RowFormat::default(), record(None, Some(b"{"))).unwrap_err();
        assert!(not_json.starts_with("the payload is not JSON: "), "{not_json}");
        let not_text = row(RowFormat::default(), record(Some(&[255]), None)).unwrap_err();
        assert_eq!(not_text, "the key is not UTF-8");
        assert_eq!(row(bytes, record(Some(&[255]), Some(b""))).unwrap()["key"], "ff");
    }
}
