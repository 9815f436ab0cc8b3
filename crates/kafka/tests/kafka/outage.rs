//! A broker that is paused, killed and started again costs time, and nothing else.

use super::broker::{Read, consume, doubles_in_order, json, publisher, record};
use super::site::Site;
use super::watched::Watched;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_engine::outbox::{Outcome, Publisher};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_paused_and_restarted_loses_and_reorders_nothing() {
    let Some((site, mut kafka, name)) = Site::with_broker().await else { return };
    let servers = kafka.bootstrap_servers();
    let sink = Watched::new(publisher(&servers, |options| options.delivery_timeout = Duration::from_secs(5)));
    let relay = site.relay(Arc::new(sink.clone())).await;
    let mut written: i64 = 0;
    let mut write = async || {
        let events: Vec<NewEvent> = (0..200)
            .map(|n| {
                let payload = json(&format!("{{\"n\":{n}}}"));
                NewEvent::new("order", format!("order-{}", n % 20), "order.paid", &name, payload).unwrap()
            })
            .collect();
        site.write(&events).await;
        written += 200;
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    for _ in 0..5 {
        write().await;
    }
    kafka.pause().unwrap();
    let before = sink.unanswered();
    for _ in 0..40 {
        write().await;
    }
    sink.until_more_than(before).await;
    kafka.resume().unwrap();
    for _ in 0..10 {
        write().await;
    }
    kafka.crash();
    let before = sink.unanswered();
    for _ in 0..5 {
        write().await;
    }
    sink.until_more_than(before).await;
    kafka.restart().unwrap();
    for _ in 0..5 {
        write().await;
    }
    site.until_settled(written).await;
    relay.stop().await;

    let reads = consume(&servers, &name, &[]);
    let doubles = doubles_in_order(&reads);
    let ids: HashSet<i64> = reads.iter().map(Read::id).collect();
    assert_eq!(ids.len(), usize::try_from(written).unwrap());
    // Only what was under way when the broker did not answer.
    let in_doubt = sink.in_doubt();
    assert!(doubles <= in_doubt, "{doubles} doubles, and {in_doubt} records without an answer");
    assert!(site.failed_events().await.is_empty());
}

#[tokio::test]
async fn brokers_that_are_not_there_refuse_no_record() {
    let sink = publisher("127.0.0.1:1", |options| options.delivery_timeout = Duration::from_millis(500));

    let outcomes = sink.publish(&[record(1, "a", "orders", Payload::Tombstone)]).await;

    let [Outcome::Unavailable { why }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(!why.is_empty());
}
