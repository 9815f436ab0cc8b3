//! Errors that a real broker does not show on demand.

use super::broker::{publisher, record};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::outbox::{Payload, Record};
use tidemill_engine::outbox::{Outcome, Publisher};

pub(crate) type Cluster = MockCluster<'static, DefaultProducerContext>;

pub(crate) fn cluster(partitions: i32) -> (Cluster, String) {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("orders", partitions, 1).unwrap();
    let servers = cluster.bootstrap_servers();
    (cluster, servers)
}

/// What the only partition of `orders` has.
pub(crate) fn messages(servers: &str) -> Vec<OwnedMessage> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "tests");
    let consumer: BaseConsumer = config.create().unwrap();
    let wait = Duration::from_secs(60);
    let (low, high) = consumer.fetch_watermarks("orders", 0, wait).unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    (low..high).map(|_| consumer.poll(wait).expect("a message").unwrap().detach()).collect()
}

/// The ids and keys of these.
fn arrived(servers: &str) -> Vec<(i64, String)> {
    let read = |message: &OwnedMessage| {
        let id = message.headers().unwrap().iter().find(|header| header.key == "tidemill-event-id").unwrap();
        let id = std::str::from_utf8(id.value.unwrap()).unwrap().parse().unwrap();
        (id, String::from_utf8(message.key().unwrap().to_vec()).unwrap())
    };
    messages(servers).iter().map(read).collect()
}

fn records(count: i64) -> Vec<Record> {
    let payload = || Payload::Json("{\"text\":\"some words\"}".into());
    (1..=count).map(|id| record(id, &format!("order-{}", id % 5), "orders", payload())).collect()
}

fn assert_first_in_order(arrived: &[(i64, String)]) {
    let mut last: HashMap<&str, i64> = HashMap::new();
    let mut known = std::collections::HashSet::new();
    for (id, key) in arrived {
        if known.insert(id) {
            let before = last.insert(key, *id).unwrap_or_default();
            assert!(before < *id, "{id} came after {before} of {key}");
        }
    }
}

#[tokio::test]
async fn what_passes_by_itself_is_tried_again_by_the_producer_and_doubles_nothing() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    };
    let (cluster, servers) = cluster(1);
    let publisher = publisher(&servers, |_| {});
    let records = records(2_000);
    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR__TRANSPORT,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        ],
    );

    let outcomes = publisher.publish(&records).await;

    assert_eq!(outcomes, vec![Outcome::Delivered; 2_000]);
    let arrived = arrived(&servers);
    assert_eq!(arrived.len(), 2_000);
    assert_first_in_order(&arrived);
}

#[tokio::test]
async fn a_producer_without_room_is_waited_for() {
    let (_cluster, servers) = cluster(1);
    let publisher = publisher(&servers, |options| {
        options.client = "queue.buffering.max.messages=10".parse().unwrap();
    });

    let outcomes = publisher.publish(&records(1_000)).await;

    assert_eq!(outcomes, vec![Outcome::Delivered; 1_000]);
    let ids: Vec<i64> = arrived(&servers).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, (1..=1_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn after_a_broker_has_forgotten_the_producer_another_one_goes_on() {
    use RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    let (cluster, servers) = cluster(1);
    let publisher = publisher(&servers, |_| {});
    let records = records(100);
    cluster.request_errors(RDKafkaApiKey::Produce, &[RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER; 2]);

    let mut outcomes = Vec::new();
    for _ in 0..5 {
        outcomes = publisher.publish(&records).await;
        if outcomes == vec![Outcome::Delivered; 100] {
            break;
        }
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable { .. })),
            "{outcomes:?}"
        );
    }

    assert_eq!(outcomes, vec![Outcome::Delivered; 100]);
    assert_first_in_order(&arrived(&servers));
}

#[tokio::test]
async fn whoever_gives_up_waiting_leaves_nothing_that_is_sent_later() {
    let (cluster, servers) = cluster(1);
    let publisher = publisher(&servers, |options| options.delivery_timeout = Duration::from_secs(60));
    let delivered = publisher.publish(&records(1)).await;
    cluster.broker_round_trip_time(1, Duration::from_millis(1_500)).unwrap();
    let later = records(5_000);

    let given_up = tokio::time::timeout(Duration::from_millis(300), publisher.publish(&later[1..])).await;
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;

    assert_eq!(delivered, [Outcome::Delivered]);
    assert!(given_up.is_err());
    // At most what was on the wire: it begins with the first record, and has no gap.
    let arrived = arrived(&servers);
    assert!(arrived.len() < 5_000, "{}", arrived.len());
    let ids: Vec<i64> = arrived.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (1..=i64::try_from(ids.len()).unwrap()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_topic_that_may_not_be_written_to_is_refused_at_once() {
    use RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    let (cluster, servers) = cluster(1);
    let publisher = publisher(&servers, |_| {});
    cluster.request_errors(RDKafkaApiKey::Produce, &[RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 5]);

    let outcomes = publisher.publish(&records(10)).await;

    // Five aggregates with two records each.
    let (first, second) = outcomes.split_at(5);
    let is_refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused { why, is_permanent: true } if why.contains("authorization failed"));
    assert!(first.iter().all(is_refused), "{first:?}");
    assert_eq!(second, vec![Outcome::Held; 5]);
    assert!(arrived(&servers).is_empty());
}
