//! What is refused keeps nothing else from being committed, and what would lead astray is not used.

use super::{all_delivered, committed, groups, guard, owner, publisher};
use crate::broker::{json, record, shared, topic, unique};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use std::time::Duration;
use tidemill_domain::outbox::{Group, Payload, Record, Slot};
use tidemill_engine::outbox::{NotTaken, Outcome, Publisher, SinkRefusal};
use tidemill_kafka::{KafkaOptions, TransactionalPublisher};

#[tokio::test]
async fn a_record_that_the_topic_does_not_take_is_found_and_the_rest_is_committed() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[("max.message.bytes", "20000")]).await;
    let large = |id, aggregate: &str| record(id, aggregate, &name, Payload::Bytes(random(40_000)));
    let small = |id, aggregate: &str| record(id, aggregate, &name, json("{}"));
    // All of one group.
    let mut names = (0..).map(|n| format!("order-{n}")).filter(|name| Group::of(Slot::of(name)).get() == 3);
    let [a, b, c] = [(); 3].map(|()| names.next().unwrap());
    let records =
        [small(1, &a), large(2, &b), small(3, &c), small(4, &b), small(5, &a), large(6, &c), small(7, &c)];
    let (one, _) = owner(&servers, &unique("shop"), &groups(&records), None).await;

    let words = until_decided(&one, &records).await;

    assert_eq!(words, ["delivered", "refused", "delivered", "held", "delivered", "refused", "held"]);
    assert_eq!(committed(&servers, &name), [1, 3, 5]);
    // And it goes on as before.
    assert!(all_delivered(&one.publish(&[small(8, &a)]).await));
    assert_eq!(committed(&servers, &name), [1, 3, 5, 8]);
}

#[tokio::test]
async fn an_unknown_topic_holds_back_its_own_aggregate_only() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    let records: Vec<Record> = [(1, "a", &name), (2, "b", &"no-such-topic".to_owned()), (3, "b", &name)]
        .map(|(id, aggregate, topic)| record(id, aggregate, topic, json("{}")))
        .into();
    let (one, _) = owner(&servers, &unique("shop"), &groups(&records), None).await;

    let outcomes = one.publish(&records).await;

    assert_eq!(outcomes[0], Outcome::Delivered);
    assert!(matches!(&outcomes[1], Outcome::Refused { is_permanent: true, .. }), "{outcomes:?}");
    assert_eq!(outcomes[2], Outcome::Held);
    assert_eq!(committed(&servers, &name), [1]);
}

#[tokio::test]
async fn a_topic_of_receipts_that_is_not_as_it_has_to_be_is_refused() {
    let Some(servers) = shared() else { return };
    for (partitions, policy, told) in
        [(3, "compact", "3 partitions"), (16, "delete", "cleanup.policy=delete")]
    {
        let id = unique("shop");
        make(&servers, &format!("{id}-receipts"), partitions, &[("cleanup.policy", policy)]).await;

        let refusal = refused(&servers, &id).await;

        assert_eq!(refusal.code.to_string(), "TM1440");
        assert!(refusal.what.contains(told), "{}", refusal.what);
    }
}

/// With no event to blame, the relay would otherwise try for ever and say nothing that helps.
#[tokio::test]
async fn a_receipt_that_is_not_taken_is_told_with_what_helps() {
    let Some(servers) = shared() else { return };
    let (id, name) = (unique("shop"), topic(&servers, 1, &[]).await);
    let receipts = [("cleanup.policy", "compact"), ("max.message.bytes", "200")];
    make(&servers, &format!("{id}-receipts"), 16, &receipts).await;
    let records: Vec<Record> = (1..=50).map(|id| record(id, "order-1", &name, json("{}"))).collect();
    let (one, _) = owner(&servers, &id, &groups(&records), None).await;

    let outcomes = one.publish(&records).await;

    let told = "is refused: ";
    let is_told = |outcome: &Outcome| matches!(outcome, Outcome::Unavailable { why } if why.starts_with("the receipt of g") && why.contains(told) && why.ends_with("lower outbox.batch_size or raise message.max.bytes"));
    assert!(outcomes.iter().all(is_told), "{outcomes:?}");
    assert_eq!(committed(&servers, &name), [] as [i64; 0]);
    // A batch whose receipt fits goes out.
    assert!(all_delivered(&one.publish(&records[..1]).await));
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_is_not_guessed_at() {
    let Some(servers) = shared() else { return };
    let id = unique("shop");
    let name = format!("{id}-receipts");
    make(&servers, &name, 16, &[("cleanup.policy", "compact")]).await;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &servers);
    let producer: ThreadedProducer<_> = config.create().unwrap();
    producer.send(BaseRecord::to(&name).partition(0).key("g00").payload("{}")).unwrap();
    producer.flush(Duration::from_secs(60)).unwrap();

    let refusal = refused(&servers, &id).await;

    assert_eq!(refusal.code.to_string(), "TM1442");
    assert!(refusal.what.contains("g00") && refusal.what.contains(&name), "{}", refusal.what);
}

#[tokio::test]
async fn brokers_that_are_not_there_take_no_group_and_refuse_none() {
    let groups: Vec<Group> = Group::all().take(2).collect();

    let taken = publisher("127.0.0.1:1", "shop").take(&groups, None, &guard()).await;

    assert_eq!(taken.len(), 2);
    assert!(taken.iter().all(|taken| matches!(taken, Err(NotTaken::Unavailable { .. }))), "{taken:?}");
}

#[test]
fn a_name_that_kafka_would_not_take_is_refused() {
    for id in ["", "a b", "shop@home", &"x".repeat(241)] {
        let clock = std::sync::Arc::new(tidemill_engine::SystemClock::new());
        let error = TransactionalPublisher::new(KafkaOptions::new("a:1"), id, clock).unwrap_err();
        assert_eq!(error.code().to_string(), "TM1421", "{id}");
        assert!(error.fix().contains("outbox.kafka.transactional_id"), "{}", error.fix());
    }
}

/// Each time takes a producer of its own to find out, and all of them together may take longer than one publication may. So,
/// like a relay, it sends again what was not decided.
async fn until_decided(publisher: &TransactionalPublisher, records: &[Record]) -> Vec<&'static str> {
    let mut words = vec!["open"; records.len()];
    for _ in 0..10 {
        let open: Vec<usize> = (0..records.len()).filter(|n| words[*n] == "open").collect();
        let sent: Vec<Record> = open.iter().map(|n| records[*n].clone()).collect();
        for (n, outcome) in open.into_iter().zip(publisher.publish(&sent).await) {
            let is_behind = |(before, word): (&Record, &&str)| {
                *word == "refused" && before.aggregate == records[n].aggregate
            };
            words[n] = match outcome {
                Outcome::Delivered => "delivered",
                Outcome::Refused { is_permanent: true, .. } => "refused",
                Outcome::Held => "held",
                _ if records[..n].iter().zip(&words).any(is_behind) => "held",
                _ => "open",
            };
        }
        if !words.contains(&"open") {
            break;
        }
    }
    words
}

async fn refused(servers: &str, id: &str) -> SinkRefusal {
    let taken = publisher(servers, id).take(&Group::all().take(1).collect::<Vec<_>>(), None, &guard()).await;
    match taken.into_iter().next() {
        Some(Err(NotTaken::Refused(refusal))) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

async fn make(servers: &str, name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let plain = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let topic = settings.iter().fold(plain, |topic, (name, value)| topic.set(name, value));
    let made = admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
    made.into_iter().for_each(|made| drop(made.unwrap()));
}

/// Bytes that do not get smaller.
fn random(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
