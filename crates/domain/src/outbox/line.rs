//! The line of a record in a file: one JSON object, with all that detects missing and duplicate events.
//!
//! A relay writes a hundred thousand lines per second, so a line is appended to bytes, without a tree of values.

use super::{Aggregate, EventId, Payload, Record, Seq, Slot};
use crate::lease::Epoch;
use crate::time::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::Write as _;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    pub id: EventId,
    pub slot: Slot,
    pub epoch: Epoch,
    pub seq: Seq,
    pub aggregate: Aggregate,
}

/// Appends the line of a record with its line break. It is always one line, and JSON if the payload is.
pub fn write(record: &Record, published_at: Timestamp, into: &mut Vec<u8>) {
    let (id, slot, epoch, seq) = (record.id, record.slot, record.epoch.get(), record.seq);
    let _infallible = write!(into, "{{\"id\":{id},\"slot\":{slot},\"epoch\":{epoch},\"seq\":{seq}");
    let texts = [
        (",\"aggregate_type\":", &record.aggregate.kind),
        (",\"aggregate_id\":", &record.aggregate.id),
        (",\"event_type\":", &record.event_type),
        (",\"topic\":", &record.topic),
    ];
    for (key, text) in texts {
        into.extend_from_slice(key.as_bytes());
        value(text, into);
    }
    into.extend_from_slice(b",\"headers\":");
    value(&record.headers, into);
    into.extend_from_slice(b",\"payload\":");
    match &record.payload {
        Payload::Json(text) => on_one_line(text, into),
        Payload::Tombstone => into.extend_from_slice(b"null"),
        Payload::Bytes(bytes) => {
            into.extend_from_slice(b"null,\"payload_base64\":\"");
            into.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            into.push(b'"');
        }
    }
    let _infallible = writeln!(into, ",\"published_at\":\"{published_at}\"}}");
}

fn value(value: &impl Serialize, into: &mut Vec<u8>) {
    let _infallible = serde_json::to_writer(into, value);
}

/// Appends JSON as written; with line breaks in it, without the white space between its parts. Numbers keep their digits.
fn on_one_line(json: &str, into: &mut Vec<u8>) {
    if !json.bytes().any(|byte| byte < b' ') {
        into.extend_from_slice(json.as_bytes());
        return;
    }
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            // Not valid JSON, but it must not begin another line.
            0..b' ' if is_text => {
                let _infallible = write!(into, "\\u{byte:04x}");
            }
            0..=b' ' if !is_text => {}
            other => into.push(other),
        }
        is_text ^= byte == b'"' && !is_escaped;
        is_escaped = is_text && byte == b'\\' && !is_escaped;
    }
}

/// The fields that verifying needs; others are ignored.
#[derive(Deserialize)]
struct Wire<'a> {
    id: EventId,
    slot: Slot,
    epoch: i64,
    seq: Seq,
    #[serde(borrow)]
    aggregate_type: Cow<'a, str>,
    #[serde(borrow)]
    aggregate_id: Cow<'a, str>,
}

/// Reads a line without its line break. None if it is not a whole record.
pub fn read(line: &[u8]) -> Option<Published> {
    let wire: Wire<'_> = serde_json::from_slice(line).ok()?;
    Some(Published {
        id: wire.id,
        slot: wire.slot,
        epoch: Epoch::new(wire.epoch),
        seq: wire.seq,
        aggregate: Aggregate { kind: wire.aggregate_type.into_owned(), id: wire.aggregate_id.into_owned() },
    })
}

/// Finds a whole record after a part of another one on the same line, which a crash can leave.
pub fn read_behind(line: &[u8]) -> Option<Published> {
    const BEGINNING: &[u8] = b"{\"id\":";
    let places = line.windows(BEGINNING.len()).enumerate().skip(1);
    places.filter(|(_, bytes)| *bytes == BEGINNING).find_map(|(at, _)| read(&line[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// JSON texts with white space, escapes and numbers that no `f64` can hold.
    fn json() -> impl Strategy<Value = String> {
        let space = || prop::sample::select(vec!["", " ", "\n", "\r\n", "\t", " \n "]);
        let text = ".{0,12}".prop_map(|text: String| Value::from(text).to_string());
        let leaf = prop_oneof![
            text.clone(),
            prop::sample::select(vec![
                "null",
                "true",
                "1.50",
                "-0",
                "12345678901234567890123",
                "1E+400",
                "\"\\\"\\\\\""
            ])
            .prop_map(str::to_owned),
        ];
        leaf.prop_recursive(3, 16, 4, move |inner| {
            let list = (prop::collection::vec(inner.clone(), 0..4), space())
                .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!(",{space}"))));
            let object =
                (prop::collection::vec((text.clone(), inner), 0..4), space()).prop_map(|(fields, space)| {
                    let fields: Vec<String> = fields
                        .into_iter()
                        .map(|(name, value)| format!("{space}{name}{space}:{value}"))
                        .collect();
                    format!("{{{}{space}}}", fields.join(","))
                });
            prop_oneof![list, object]
        })
    }

    fn payload() -> impl Strategy<Value = Payload> {
        prop_oneof![
            json().prop_map(Payload::Json),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(Payload::Bytes),
            Just(Payload::Tombstone),
        ]
    }

    prop_compose! {
        fn record()(
            (id, epoch, seq) in (1..i64::MAX, 0..i64::MAX, 1..i64::MAX),
            (kind, key, event_type) in ("\\PC{1,9}", "[^\\x00]{1,20}", "\\PC{1,9}"),
            headers in prop::collection::btree_map("\\PC{1,5}", "[^\\x00]{0,9}", 0..4),
            payload in payload(),
        ) -> Record {
            Record {
                id: EventId::new(id),
                table: None,
                slot: Slot::of(&key),
                epoch: Epoch::new(epoch),
                seq: Seq::new(seq),
                aggregate: Aggregate { kind, id: key },
                event_type,
                topic: "orders".into(),
                is_redirected: false,
                headers,
                payload,
                created_at: Timestamp::EPOCH,
            }
        }
    }

    fn written(record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(record, Timestamp::EPOCH, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_record_is_one_line_of_json_that_comes_back(record in record()) {
            let bytes = written(&record);

            let (last, line) = bytes.split_last().unwrap();
            prop_assert_eq!(*last, b'\n');
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            let published = read(line).unwrap();
            prop_assert_eq!((published.id, published.slot, published.epoch, published.seq),
                (record.id, record.slot, record.epoch, record.seq));
            prop_assert_eq!(&published.aggregate, &record.aggregate);
            let whole: Value = serde_json::from_slice(&replaced(line)).unwrap();
            prop_assert_eq!(&whole["event_type"], &record.event_type);
            prop_assert_eq!(whole["headers"].as_object().unwrap().len(), record.headers.len());
            match &record.payload {
                Payload::Json(text) => {
                    let payload: Value = serde_json::from_slice(&replaced(text.as_bytes())).unwrap();
                    prop_assert_eq!(&whole["payload"], &payload);
                }
                Payload::Bytes(bytes) => {
                    let text = whole["payload_base64"].as_str().unwrap();
                    prop_assert_eq!(text, STANDARD.encode(bytes));
                }
                Payload::Tombstone => prop_assert!(whole["payload"].is_null()),
            }
        }

        #[test]
        fn a_part_of_a_line_is_none(record in record(), cut in any::<prop::sample::Index>()) {
            let bytes = written(&record);
            let line = &bytes[..bytes.len() - 1];

            prop_assert_eq!(read(&line[..cut.index(line.len())]), None);
            prop_assert_eq!(read(&line[1 + cut.index(line.len() - 1)..]), None);
        }

        #[test]
        fn a_record_behind_a_part_of_another_is_found(one in record(), two in record(), cut in any::<prop::sample::Index>()) {
            let (torn, whole) = (written(&one), written(&two));
            let torn = &torn[..1 + cut.index(torn.len() - 1)];
            let together = [torn, &whole[..whole.len() - 1]].concat();

            prop_assert_eq!(read(&together), None);
            prop_assert_eq!(read_behind(&together), read(&whole));
            prop_assert_eq!(read_behind(torn), None);
        }

        #[test]
        fn whatever_a_payload_is_the_record_is_one_line(text in "(?s).{0,40}") {
            let mut bytes = Vec::new();
            on_one_line(&text, &mut bytes);
            prop_assert!(!bytes.iter().any(|byte| *byte < b' '), "{:?}", bytes);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _answer = read(&bytes);
        }
    }

    /// The number that is too large for a `Value`, as a text.
    fn replaced(json: &[u8]) -> Vec<u8> {
        String::from_utf8(json.to_vec()).unwrap().replace("1E+400", "\"1E+400\"").into_bytes()
    }

    #[test]
    fn numbers_and_texts_stay_as_they_were_written() {
        let mut bytes = Vec::new();
        on_one_line("{\r\n\t\"a b\" : [1.50, 12345678901234567890123 ,\n\"x \\\" \\\\\" ] }", &mut bytes);

        let expected = "{\"a b\":[1.50,12345678901234567890123,\"x \\\" \\\\\"]}";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn a_line_with_more_in_it_is_read() {
        let line = br#" {"new":{"deep":[1]},"seq":3,"id":7,"slot":110,"epoch":2,"aggregate_id":"a","aggregate_type":"\u00fc"} "#;

        let published = read(line).unwrap();

        assert_eq!(published.aggregate, Aggregate { kind: "ü".into(), id: "a".into() });
        assert_eq!(
            read(br#"{"id":7,"slot":256,"epoch":2,"seq":3,"aggregate_id":"a","aggregate_type":"b"}"#),
            None
        );
    }

    #[test]
    fn a_record_is_one_line_of_json() {
        use crate::lease::Epoch;
        use crate::outbox::{Aggregate, EventId, Payload, Record, Seq, Slot, line};
        use crate::time::Timestamp;
        let record = Record {
            id: EventId::new(7),
            table: None,
            slot: Slot::of("order-1"),
            epoch: Epoch::new(2),
            seq: Seq::new(3),
            aggregate: Aggregate { kind: "order".into(), id: "order-1".into() },
            event_type: "order.paid".into(),
            topic: "orders".into(),
            is_redirected: false,
            headers: Default::default(),
            payload: Payload::Json("{\n  \"amount\": 1.50\n}".into()),
            created_at: Timestamp::EPOCH,
        };
        let mut bytes = Vec::new();
        line::write(&record, Timestamp::EPOCH, &mut bytes);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"id\":7,\"slot\":110,\"epoch\":2,\"seq\":3,\"aggregate_type\":\"order\",\"aggregate_id\":\"order-1\",\
             \"event_type\":\"order.paid\",\"topic\":\"orders\",\"headers\":{},\"payload\":{\"amount\":1.50},\
             \"published_at\":\"1970-01-01T00:00:00.000000Z\"}\n"
        );
    }
}
