//! What goes with a record: its place in the outbox, the event's own headers, and those of CloudEvents if wanted.

use rdkafka::message::{Header, OwnedHeaders};
use std::borrow::Cow;
use tidemill_domain::outbox::{Payload, Record};

/// What the names of our own headers begin with. Headers of events that begin so are left out: they would pretend to be
/// ours.
pub const PREFIX: &str = "tidemill-";
/// The number of the event in its table; readers know by it what they have seen.
pub const EVENT_ID: &str = "tidemill-event-id";
/// The slot of the event.
pub const SLOT: &str = "tidemill-slot";
/// The epoch of the slot under which it was published.
pub const EPOCH: &str = "tidemill-epoch";
/// Its place among the events of its slot.
pub const SEQ: &str = "tidemill-seq";
/// What happened.
pub const EVENT_TYPE: &str = "tidemill-event-type";
/// To what sort of thing.
pub const AGGREGATE_TYPE: &str = "tidemill-aggregate-type";

/// The header by which traces are followed, as the W3C names it.
const TRACE_PARENT: &str = "traceparent";

/// A name and a text. Most are there already, and are copied only by the client.
pub(crate) type Named<'a> = (&'a str, Cow<'a, str>);

/// The headers of a record, in the order in which they are sent.
pub(crate) fn of<'a>(record: &'a Record, cloud_events_source: Option<&'a str>) -> Vec<Named<'a>> {
    let mut headers = Vec::with_capacity(6 + record.headers.len());
    headers.extend([
        (EVENT_ID, Cow::Owned(record.id.to_string())),
        (SLOT, Cow::Owned(record.slot.to_string())),
        (EPOCH, Cow::Owned(record.epoch.to_string())),
        (SEQ, Cow::Owned(record.seq.to_string())),
        (EVENT_TYPE, Cow::Borrowed(record.event_type.as_str())),
        (AGGREGATE_TYPE, Cow::Borrowed(record.aggregate.kind.as_str())),
    ]);
    if let Some(source) = cloud_events_source {
        headers.extend(cloud_event(record, source));
    }
    let is_cloud =
        |name: &str| cloud_events_source.is_some() && (name.starts_with("ce_") || name == CONTENT_TYPE);
    let own = record.headers.iter().filter(|(name, _)| !name.starts_with(PREFIX) && !is_cloud(name));
    headers.extend(own.map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_str()))));
    headers
}

const CONTENT_TYPE: &str = "content-type";

/// The event in the binary mode of CloudEvents 1.0.
fn cloud_event<'a>(record: &'a Record, source: &'a str) -> Vec<Named<'a>> {
    let mut headers = vec![
        ("ce_specversion", Cow::Borrowed("1.0")),
        ("ce_id", Cow::Owned(record.id.to_string())),
        ("ce_source", Cow::Borrowed(source)),
        ("ce_type", Cow::Borrowed(record.event_type.as_str())),
        ("ce_subject", Cow::Borrowed(record.aggregate.id.as_str())),
        ("ce_time", Cow::Owned(record.created_at.to_string())),
    ];
    if let Some(parent) = record.headers.get(TRACE_PARENT) {
        headers.push(("ce_traceparent", Cow::Borrowed(parent.as_str())));
    }
    let given = record.headers.get(CONTENT_TYPE).map(String::as_str);
    let content = given.or(match record.payload {
        Payload::Json(_) => Some("application/json"),
        Payload::Bytes(_) => Some("application/octet-stream"),
        Payload::Tombstone => None,
    });
    headers.extend(content.map(|content| (CONTENT_TYPE, Cow::Borrowed(content))));
    headers
}

/// As the client takes them.
pub(crate) fn owned(headers: &[Named<'_>]) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |owned, (name, value)| {
        owned.insert(Header { key: name, value: Some(value.as_ref()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::outbox::{Aggregate, EventId, Seq};
    use tidemill_domain::time::Timestamp;

    fn record(headers: &[(&str, &str)], payload: Payload) -> Record {
        let aggregate = Aggregate { kind: "order".into(), id: "주문-1".into() };
        Record {
            id: EventId::new(7),
            slot: aggregate.slot(),
            epoch: Epoch::new(2),
            seq: Seq::new(3),
            aggregate,
            event_type: "order.paid".into(),
            topic: "orders".into(),
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            payload,
            created_at: Timestamp::EPOCH,
        }
    }

    fn find<'a>(headers: &'a [Named<'_>], name: &str) -> Vec<&'a str> {
        headers.iter().filter(|(other, _)| *other == name).map(|(_, value)| value.as_ref()).collect()
    }

    #[test]
    fn a_record_says_where_it_comes_from_and_what_the_event_said() {
        let record = record(&[("traceparent", "00-1-2-01"), ("tidemill-seq", "99")], Payload::Tombstone);

        let headers = of(&record, None);

        assert_eq!(find(&headers, EVENT_ID), ["7"]);
        assert_eq!(find(&headers, SLOT), [record.slot.to_string()]);
        assert_eq!((find(&headers, EPOCH), find(&headers, SEQ)), (vec!["2"], vec!["3"]));
        assert_eq!(find(&headers, EVENT_TYPE), ["order.paid"]);
        assert_eq!(find(&headers, AGGREGATE_TYPE), ["order"]);
        assert_eq!(find(&headers, "traceparent"), ["00-1-2-01"]);
        assert!(!headers.iter().any(|(name, _)| name.starts_with("ce_") || *name == "content-type"));
    }

    #[test]
    fn as_a_cloud_event_it_has_what_the_standard_demands_once() {
        let given =
            [("traceparent", "00-1-2-01"), ("ce_id", "forged"), ("content-type", "application/x-order")];
        let named = record(&given, Payload::Json("{}".into()));
        let headers = of(&named, Some("/shop"));

        assert_eq!(find(&headers, "ce_specversion"), ["1.0"]);
        assert_eq!(find(&headers, "ce_id"), ["7"]);
        assert_eq!(find(&headers, "ce_source"), ["/shop"]);
        assert_eq!(find(&headers, "ce_type"), ["order.paid"]);
        assert_eq!(find(&headers, "ce_subject"), ["주문-1"]);
        assert_eq!(find(&headers, "ce_time"), ["1970-01-01T00:00:00.000000Z"]);
        assert_eq!(find(&headers, "ce_traceparent"), ["00-1-2-01"]);
        assert_eq!(find(&headers, "content-type"), ["application/x-order"]);
        let plain = record(&[], Payload::Json("{}".into()));
        let json = of(&plain, Some("/shop"));
        assert_eq!(find(&json, "content-type"), ["application/json"]);
        assert!(find(&of(&record(&[], Payload::Tombstone), Some("/shop")), "content-type").is_empty());
    }
}
