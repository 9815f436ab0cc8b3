//! What is refused for good holds back its aggregate, and nothing else.

use super::broker::{Read, consume, doubles_in_order, json, publisher, record, shared, topic, unique};
use super::site::Site;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{NewEvent, Payload, Record};
use tidemill_engine::outbox::{Outcome, Publisher};

fn words(outcomes: &[Outcome]) -> Vec<&'static str> {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Refused { is_permanent: true, .. } => "refused",
        Outcome::Refused { is_permanent: false, .. } => "refused for now",
        Outcome::Held => "held",
        Outcome::Unavailable { .. } => "unavailable",
    };
    outcomes.iter().map(word).collect()
}

/// Bytes that no compression makes smaller.
fn noise(len: usize, mut seed: u64) -> Payload {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    Payload::Bytes((0..len).map(|_| next()).collect())
}

#[tokio::test]
async fn what_a_broker_finds_too_large_is_parked_while_others_flow() {
    // All in one batch, which is refused as a whole; and in many, those behind it under way already.
    for options in ["", "batch.num.messages=10"] {
        let (Some(servers), Some(site)) = (shared(), Site::new().await) else { return };
        let name = topic(&servers, 1, &[("max.message.bytes", "20000")]).await;
        let event = |aggregate: &str, payload| {
            NewEvent::new("order", aggregate, "order.paid", &name, payload).unwrap()
        };
        let mut events: Vec<NewEvent> =
            (0..300).map(|n| event(&format!("good-{}", n % 7), noise(300, n))).collect();
        events.insert(100, event("bad", json("{\"n\":1}")));
        events.insert(150, event("bad", noise(50_000, 5)));
        events.insert(200, event("bad", json("{\"n\":3}")));
        let relay =
            site.relay(Arc::new(publisher(&servers, |kafka| kafka.client = options.parse().unwrap()))).await;
        // The broker knows the producer before it has something to refuse.
        site.write(&[event("first", Payload::Tombstone)]).await;
        site.until_settled(1).await;

        site.write(&events).await;
        site.until_settled(304).await;
        relay.stop().await;

        let failed_events = site.failed_events().await;
        let states: Vec<(i64, StateWord)> =
            failed_events.iter().map(|(id, state, _)| (id.get(), *state)).collect();
        assert_eq!(states, [(152, StateWord::Parked), (202, StateWord::Held)]);
        assert!(failed_events[0].2.as_ref().unwrap().contains("too large"), "{:?}", failed_events[0].2);
        let reads = consume(&servers, &name, &[]);
        doubles_in_order(&reads);
        let bad: Vec<i64> = reads.iter().filter(|read| read.key == "bad").map(Read::id).collect();
        assert_eq!(bad, [102]);
        assert_eq!(reads.iter().map(Read::id).collect::<HashSet<_>>().len(), 302);
    }
}

#[tokio::test]
async fn what_the_client_finds_too_large_is_never_sent() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 3, &[]).await;
    let limits: [fn(&mut tidemill_kafka::KafkaOptions); 2] = [
        |options| options.client = "message.max.bytes=2000".parse().unwrap(),
        |options| options.max_record_bytes = Some(2_000),
    ];
    for limit in limits {
        let records = [
            record(1, "a", &name, noise(3_000, 1)),
            record(2, "a", &name, Payload::Tombstone),
            record(3, "b", &name, Payload::Tombstone),
        ];

        let outcomes = publisher(&servers, limit).publish(&records).await;

        assert_eq!(words(&outcomes), ["refused", "held", "delivered"]);
    }
    let ids: Vec<i64> = consume(&servers, &name, &[]).iter().map(Read::id).collect();
    assert_eq!(ids, [3, 3]);
}

#[tokio::test]
async fn an_unknown_topic_is_refused_before_anything_behind_it_is_sent() {
    let Some(servers) = shared() else { return };
    let (known, unknown) = (topic(&servers, 3, &[]).await, unique("nobody-made-this"));
    let records: Vec<Record> = vec![
        record(1, "a", &known, Payload::Tombstone),
        record(2, "a", &unknown, Payload::Tombstone),
        record(3, "a", &known, Payload::Tombstone),
        record(4, "b", &known, Payload::Tombstone),
        record(5, "c", "not a topic", Payload::Tombstone),
    ];

    let publisher = publisher(&servers, |_| {});
    let outcomes = publisher.publish(&records).await;

    assert_eq!(words(&outcomes), ["delivered", "refused", "held", "delivered", "refused"]);
    let Outcome::Refused { why, .. } = &outcomes[1] else { panic!("{outcomes:?}") };
    assert!(why.contains(&unknown) && why.contains("Unknown topic"), "{why}");
    let ids: BTreeSet<i64> = consume(&servers, &known, &[]).iter().map(Read::id).collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), [1, 4]);
}
