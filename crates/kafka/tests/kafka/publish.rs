//! Everything arrives, in order for each aggregate, and says where it comes from.

use super::broker::{consume, doubles_in_order, json, publisher, record, shared, topic};
use super::site::Site;
use std::collections::HashSet;
use std::sync::Arc;
use tidemill_domain::outbox::{NewEvent, Payload, Slot};
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_kafka::{Compression, Route, Topics};

#[tokio::test]
async fn ten_thousand_events_of_a_relay_arrive_once_and_in_order() {
    let (Some(servers), Some(site)) = (shared(), Site::new().await) else { return };
    let name = topic(&servers, 12, &[]).await;
    let events: Vec<NewEvent> = (0..10_000)
        .map(|n| {
            let aggregate = format!("주문-{}", n % 100);
            let payload = json(&format!("{{\"n\":{n}}}"));
            NewEvent::new("order", aggregate, "order.paid", &name, payload)
                .unwrap()
                .header("traceparent", format!("00-{n:032x}-0000000000000001-01"))
                .unwrap()
        })
        .collect();
    site.write(&events).await;

    let relay = site.relay(Arc::new(publisher(&servers, |_| {}))).await;
    site.until_settled(10_000).await;
    relay.stop().await;

    let reads = consume(&servers, &name, &[]);
    assert_eq!(doubles_in_order(&reads), 0);
    assert_eq!(reads.len(), 10_000);
    let mut seqs = HashSet::new();
    for read in &reads {
        let n: usize = usize::try_from(read.id()).unwrap() - 1;
        assert_eq!(read.key, format!("주문-{}", n % 100));
        assert_eq!(read.header("tidemill-slot"), Slot::of(&read.key).to_string());
        assert_eq!(read.header("tidemill-epoch"), "1");
        assert_eq!(read.header("tidemill-event-type"), "order.paid");
        assert_eq!(read.header("tidemill-aggregate-type"), "order");
        assert_eq!(read.header("traceparent"), format!("00-{n:032x}-0000000000000001-01"));
        assert!(seqs.insert((read.header("tidemill-slot"), read.header("tidemill-seq"))));
    }
    let partitions: HashSet<i64> = reads.iter().map(|read| read.partition).collect();
    assert!(partitions.len() > 6, "{partitions:?}");
}

#[tokio::test]
async fn payloads_arrive_byte_for_byte_with_every_compression_and_a_tombstone_is_null() {
    let Some(servers) = shared() else { return };
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Snappy] {
        let name = topic(&servers, 1, &[]).await;
        let records = [
            record(1, "a", &name, json("{\"é\": [1,  2]}")),
            record(2, "a", &name, Payload::Bytes(vec![0, 255, 10])),
            record(3, "a", &name, Payload::Bytes(Vec::new())),
            record(4, "a", &name, Payload::Tombstone),
        ];

        let outcomes =
            publisher(&servers, |options| options.compression = compression).publish(&records).await;

        assert_eq!(outcomes, vec![Outcome::Delivered; 4]);
        let values: Vec<Option<String>> =
            consume(&servers, &name, &[]).into_iter().map(|read| read.value).collect();
        let expected = [Some("eyLDqSI6IFsxLCAgMl19"), Some("AP8K"), Some(""), None];
        assert_eq!(values, expected.map(|value| value.map(str::to_owned)), "{compression}");
    }
}

#[tokio::test]
async fn events_are_routed_by_their_type_and_come_as_cloud_events_where_wanted() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    let (prefix, rest) = name.split_at(5);
    let route = Route { event_type: "order.*".into(), topic: rest.into() };
    let topics = Topics::new(prefix, vec![route]).unwrap();
    let publisher = publisher(&servers, |options| {
        options.topics = topics;
        options.cloud_events_source = Some("/shop".into());
    });

    let outcomes = publisher.publish(&[record(7, "order-1", "elsewhere", json("{}"))]).await;

    assert_eq!(outcomes, [Outcome::Delivered]);
    let read = &consume(&servers, &name, &[])[0];
    for (header, text) in [
        ("ce_specversion", "1.0"),
        ("ce_id", "7"),
        ("ce_source", "/shop"),
        ("ce_type", "order.paid"),
        ("ce_subject", "order-1"),
        ("ce_time", "1970-01-01T00:00:00.000000Z"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(read.header(header), text);
    }
}
