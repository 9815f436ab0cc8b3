//! Headers of a record: its place in the outbox, the event's own headers, and CloudEvents headers if enabled.

use rdkafka::message::{Header, OwnedHeaders};
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::outbox::{Payload, Record};

/// Prefix of our own headers. Headers of events with this prefix are dropped, because they would look like ours.
pub const PREFIX: &str = "tidemill-";
/// The event's number in its table; readers deduplicate by it.
pub const EVENT_ID: &str = "tidemill-event-id";
pub const SLOT: &str = "tidemill-slot";
/// The epoch of the slot that published it.
pub const EPOCH: &str = "tidemill-epoch";
/// Its position among the events of its slot.
pub const SEQ: &str = "tidemill-seq";
pub const EVENT_TYPE: &str = "tidemill-event-type";
pub const AGGREGATE_TYPE: &str = "tidemill-aggregate-type";

/// In the order in which they are sent.
pub(crate) fn of(record: &Record, cloud_events_source: Option<&str>) -> OwnedHeaders {
    let mut headers = Some(OwnedHeaders::new_with_capacity(6 + record.headers.len()));
    each(record, cloud_events_source, |key, value| {
        headers = headers.take().map(|headers| headers.insert(Header { key, value: Some(value) }));
    });
    headers.unwrap_or_default()
}

pub(crate) fn len(record: &Record, cloud_events_source: Option<&str>) -> usize {
    let mut sum = 0;
    each(record, cloud_events_source, |name, value| sum += name.len() + value.len());
    sum
}

/// Runs once per record sent, so it copies nothing that the client copies anyway.
fn each(record: &Record, cloud_events_source: Option<&str>, mut take: impl FnMut(&str, &str)) {
    let mut digits = itoa::Buffer::new();
    take(EVENT_ID, digits.format(record.id.get()));
    take(SLOT, digits.format(record.slot.get()));
    take(EPOCH, digits.format(record.epoch.get()));
    take(SEQ, digits.format(record.seq.get()));
    take(EVENT_TYPE, &record.event_type);
    take(AGGREGATE_TYPE, &record.aggregate.kind);
    if let Some(source) = cloud_events_source {
        each_of_cloud_event(record, source, &mut take);
    }
    let is_cloud =
        |name: &str| cloud_events_source.is_some() && (name.starts_with("ce_") || name == CONTENT_TYPE);
    let own = record.headers.iter().filter(|(name, _)| !name.starts_with(PREFIX) && !is_cloud(name));
    own.for_each(|(name, value)| take(name, value));
}

const CONTENT_TYPE: &str = "content-type";

/// CloudEvents 1.0, binary mode.
fn each_of_cloud_event(record: &Record, source: &str, take: &mut impl FnMut(&str, &str)) {
    take("ce_specversion", "1.0");
    take("ce_id", itoa::Buffer::new().format(record.id.get()));
    match &record.table {
        None => take("ce_source", source),
        Some(table) => take("ce_source", &source_of(source, table)),
    }
    take("ce_type", &record.event_type);
    take("ce_subject", &record.aggregate.id);
    take("ce_time", &record.created_at.to_string());
    if let Some(parent) = record.headers.get("traceparent") {
        take("ce_traceparent", parent);
    }
    let given = record.headers.get(CONTENT_TYPE).map(String::as_str);
    let content = given.or(match record.payload {
        Payload::Json(_) => Some("application/json"),
        Payload::Bytes(_) => Some("application/octet-stream"),
        Payload::Tombstone => None,
    });
    if let Some(content) = content {
        take(CONTENT_TYPE, content);
    }
}

/// Event numbers are unique within one table only, so each attached table is its own source. A source is a URI, so
/// non-ASCII letters are percent-encoded.
fn source_of(source: &str, table: &TableName) -> String {
    let mut text = format!("{}/", source.trim_end_matches('/'));
    for byte in table.to_string().bytes() {
        match byte {
            byte if byte.is_ascii() => text.push(byte.into()),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::message::Headers as _;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::outbox::{Aggregate, EventId, Seq};
    use tidemill_domain::time::Timestamp;

    fn record(headers: &[(&str, &str)], payload: Payload) -> Record {
        let aggregate = Aggregate { kind: "order".into(), id: "주문-1".into() };
        Record {
            id: EventId::new(7),
            table: None,
            slot: aggregate.slot(),
            epoch: Epoch::new(2),
            seq: Seq::new(3),
            aggregate,
            event_type: "order.paid".into(),
            topic: "orders".into(),
            is_redirected: false,
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            payload,
            created_at: Timestamp::EPOCH,
        }
    }

    fn all(record: &Record, cloud_events_source: Option<&str>) -> Vec<(String, String)> {
        let mut all = Vec::new();
        each(record, cloud_events_source, |name, value| all.push((name.to_owned(), value.to_owned())));
        let sum: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert_eq!(len(record, cloud_events_source), sum);
        assert_eq!(of(record, cloud_events_source).count(), all.len());
        all
    }

    fn find<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn a_record_says_where_it_comes_from_and_what_the_event_said() {
        let record = record(&[("traceparent", "00-1-2-01"), ("tidemill-seq", "99")], Payload::Tombstone);

        let headers = all(&record, None);

        assert_eq!(find(&headers, EVENT_ID), ["7"]);
        assert_eq!(find(&headers, SLOT), [record.slot.to_string()]);
        assert_eq!((find(&headers, EPOCH), find(&headers, SEQ)), (vec!["2"], vec!["3"]));
        assert_eq!(find(&headers, EVENT_TYPE), ["order.paid"]);
        assert_eq!(find(&headers, AGGREGATE_TYPE), ["order"]);
        assert_eq!(find(&headers, "traceparent"), ["00-1-2-01"]);
        assert!(!headers.iter().any(|(name, _)| name.starts_with("ce_") || name == "content-type"));
    }

    #[test]
    fn rows_of_attached_tables_are_other_events_than_those_of_the_same_number() {
        let of = |source: &str, table: Option<(&str, &str)>| {
            let table = table.map(|(schema, table)| TableName::new(schema, table).unwrap());
            let record = Record { table, ..record(&[], Payload::Tombstone) };
            find(&all(&record, Some(source)), "ce_source").join(" ")
        };

        assert_eq!(of("/shop", None), "/shop");
        assert_eq!(of("/shop", Some(("public", "transfer_events"))), "/shop/public.transfer_events");
        assert_eq!(of("https://shop/", Some(("public", "a$"))), "https://shop/public.a$");
        assert_eq!(of("/shop", Some(("public", "é"))), "/shop/public.%C3%A9");
    }

    #[test]
    fn as_a_cloud_event_it_has_what_the_standard_demands_once() {
        let given =
            [("traceparent", "00-1-2-01"), ("ce_id", "forged"), ("content-type", "application/x-order")];
        let named = record(&given, Payload::Json("{}".into()));
        let headers = all(&named, Some("/shop"));

        assert_eq!(find(&headers, "ce_specversion"), ["1.0"]);
        assert_eq!(find(&headers, "ce_id"), ["7"]);
        assert_eq!(find(&headers, "ce_source"), ["/shop"]);
        assert_eq!(find(&headers, "ce_type"), ["order.paid"]);
        assert_eq!(find(&headers, "ce_subject"), ["주문-1"]);
        assert_eq!(find(&headers, "ce_time"), ["1970-01-01T00:00:00.000000Z"]);
        assert_eq!(find(&headers, "ce_traceparent"), ["00-1-2-01"]);
        assert_eq!(find(&headers, "content-type"), ["application/x-order"]);
        let plain = record(&[], Payload::Json("{}".into()));
        let json = all(&plain, Some("/shop"));
        assert_eq!(find(&json, "content-type"), ["application/json"]);
        assert!(find(&all(&record(&[], Payload::Tombstone), Some("/shop")), "content-type").is_empty());
    }
}
