//! What is in the topics, compared with the table: what is lost, came twice or in the wrong order is found, with its
//! place.

use super::broker::{json, publisher, record, shared, topic, unique};
use super::produce::{Ending, send, send_in_transactions};
use std::time::Duration;
use tidemill_domain::outbox::verify::{Place, Verdict};
use tidemill_domain::outbox::{EventId, NewEvent, Record};
use tidemill_engine::outbox::{Outcome, Publisher, Verifier};
use tidemill_kafka::{KafkaOptions, Route, Topics, TopicsBack};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

/// An outbox of which all events count as read.
async fn outbox(scratch: &Scratch, events: &[(&str, &str, &str)]) -> Store {
    let store = scratch.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    for (aggregate, event_type, topic) in events {
        let event = NewEvent::new("order", *aggregate, *event_type, *topic, json("{}")).unwrap();
        tx.publish(&event).await.unwrap();
    }
    tx.execute_for_test(&format!("update tidemill_outbox set floor_id = {}", events.len())).await.unwrap();
    tx.commit().await.unwrap();
    store
}

async fn publish(servers: &str, records: &[Record]) {
    let outcomes = publisher(servers, |_| {}).publish(records).await;
    assert_eq!(outcomes, vec![Outcome::Delivered; records.len()]);
}

fn back(servers: &str, adapt: impl FnOnce(&mut KafkaOptions)) -> TopicsBack {
    let mut options = KafkaOptions::new(servers);
    adapt(&mut options);
    TopicsBack::new(options, Vec::new(), Duration::from_secs(30))
}

fn counts(verdict: &Verdict) -> [u64; 5] {
    [verdict.records, verdict.lost.count, verdict.reordered.count, verdict.repeated.count, verdict.foreign]
}

#[tokio::test]
async fn lost_repeated_and_reordered_records_are_found_with_their_places() {
    let Some(servers) = shared() else { return };
    let (scratch, name) = (Scratch::file(), topic(&servers, 1, &[]).await);
    let event = ("order-1", "order.paid", name.as_str());
    let store = outbox(&scratch, &[event; 6]).await;
    for id in [1, 2, 4, 3, 2, 6] {
        publish(&servers, &[record(id, "order-1", &name, json("{}"))]).await;
    }
    send(&servers, &name, 0, [7]);
    let mut verifier = Verifier::of(store, back(&servers, |_| {}));

    let verified = verifier.look().await.unwrap();

    let verdict = &verified.verdict;
    assert_eq!(counts(verdict), [6, 1, 1, 1, 1], "{verdict}");
    assert_eq!(verdict.lost.first, [EventId::new(5)]);
    assert_eq!(verified.lost[&EventId::new(5)].id, "order-1");
    let found = &verdict.reordered.first[0];
    assert_eq!((found.id, found.after), (EventId::new(3), EventId::new(4)));
    assert_eq!(verifier.place(found.place), format!("{name}/0 offset 3"));
    assert_eq!(verifier.place(found.after_place), format!("{name}/0 offset 2"));
    assert_eq!(verifier.place(verdict.repeated.first[0].place), format!("{name}/0 offset 4"));
    assert_eq!(verifier.place(Place { file: 9, line: 0 }), "");
}

#[tokio::test]
async fn a_second_look_goes_on_where_the_first_one_ended() {
    let Some(servers) = shared() else { return };
    let (scratch, name) = (Scratch::file(), topic(&servers, 3, &[]).await);
    let aggregates: Vec<String> = (0..40).map(|n| format!("order-{n}")).collect();
    let events: Vec<(&str, &str, &str)> =
        aggregates.iter().map(|aggregate| (aggregate.as_str(), "order.paid", name.as_str())).collect();
    let store = outbox(&scratch, &events).await;
    let records: Vec<Record> =
        (1..).zip(&aggregates).map(|(id, aggregate)| record(id, aggregate, &name, json("{}"))).collect();
    let mut verifier = Verifier::of(store, back(&servers, |_| {}));

    publish(&servers, &records[..30]).await;
    let first = verifier.look().await.unwrap().verdict;
    publish(&servers, &records[30..]).await;
    let second = verifier.look().await.unwrap().verdict;

    assert_eq!((first.records, first.lost.count), (30, 10));
    assert_eq!(counts(&second), [40, 0, 0, 0, 0]);
    assert!(!first.is_clean() && second.is_clean());
}

#[tokio::test]
async fn topics_are_found_by_routes_and_between_two_of_them_there_is_no_order() {
    let Some(servers) = shared() else { return };
    let (scratch, paid, sent) =
        (Scratch::file(), topic(&servers, 1, &[]).await, topic(&servers, 1, &[]).await);
    let store = outbox(
        &scratch,
        &[("order-1", "order.paid", "a"), ("order-1", "order.sent", "a"), ("order-1", "order.paid", "a")],
    )
    .await;
    let route = |event_type: &str, topic: &str| Route { event_type: event_type.into(), topic: topic.into() };
    let topics = Topics::new("", vec![route("order.paid", &paid), route("order.sent", &sent)]).unwrap();
    // The second is in another topic than the first and the third.
    for (id, name) in [(1, &paid), (3, &paid), (2, &sent)] {
        publish(&servers, &[record(id, "order-1", name, json("{}"))]).await;
    }

    let verdict =
        Verifier::of(store, back(&servers, |options| options.topics = topics)).look().await.unwrap().verdict;

    assert_eq!(counts(&verdict), [3, 0, 0, 0, 0], "{verdict}");
}

#[tokio::test]
async fn what_is_in_an_aborted_transaction_or_in_no_topic_counts_as_lost() {
    let Some(servers) = shared() else { return };
    let (scratch, name, nowhere) = (Scratch::file(), topic(&servers, 1, &[]).await, unique("nowhere"));
    let store = outbox(&scratch, &[("a", "order.paid", &name), ("b", "order.paid", &nowhere)]).await;
    send_in_transactions(&servers, &name, &[(&[1, 2], Ending::Abort), (&[3], Ending::Commit)]);

    let verdict = Verifier::of(store, back(&servers, |_| {})).look().await.unwrap().verdict;

    assert_eq!(counts(&verdict), [0, 2, 0, 0, 1], "{verdict}");
}
