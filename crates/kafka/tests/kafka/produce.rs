//! Records of others, made for readers.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

/// Far longer than anything here takes.
const SOON: Duration = Duration::from_secs(120);

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("linger.ms", "0");
    config
}

/// Sends numbers to a partition, in order.
pub(super) fn send(servers: &str, topic: &str, partition: i32, numbers: impl IntoIterator<Item = i64>) {
    let producer: BaseProducer = config(servers).create().unwrap();
    for number in numbers {
        send_one(&producer, topic, partition, &number.to_string());
    }
    producer.flush(SOON).unwrap();
}

fn send_one(producer: &BaseProducer, topic: &str, partition: i32, text: &str) {
    producer.send(BaseRecord::to(topic).partition(partition).key("k").payload(text)).unwrap();
}

/// Sends whatever this makes of a record.
pub(super) fn send_raw<'a>(
    servers: &str,
    topic: &'a str,
    shape: impl FnOnce(BaseRecord<'a, [u8], [u8]>) -> BaseRecord<'a, [u8], [u8]>,
) {
    let producer: BaseProducer = config(servers).create().unwrap();
    producer.send(shape(BaseRecord::to(topic).partition(0))).unwrap();
    producer.flush(SOON).unwrap();
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    Abort,
}

/// Sends numbers to partition 0 in transactions of one producer.
pub(super) fn send_in_transactions(servers: &str, topic: &str, transactions: &[(&[i64], Ending)]) {
    let producer: BaseProducer =
        config(servers).set("transactional.id", format!("tx-{topic}")).create().unwrap();
    producer.init_transactions(SOON).unwrap();
    for (numbers, ending) in transactions {
        producer.begin_transaction().unwrap();
        for number in *numbers {
            send_one(&producer, topic, 0, &number.to_string());
        }
        producer.flush(SOON).unwrap();
        match ending {
            Ending::Commit => producer.commit_transaction(SOON).unwrap(),
            Ending::Abort => producer.abort_transaction(SOON).unwrap(),
        }
    }
}

fn admin(servers: &str) -> AdminClient<DefaultClientContext> {
    config(servers).create().unwrap()
}

/// Deletes the records of a partition before an offset.
pub(super) async fn delete_before(servers: &str, topic: &str, partition: i32, offset: i64) {
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    admin(servers).delete_records(&offsets, &AdminOptions::new()).await.unwrap();
}

/// Lets a topic have so many partitions.
pub(super) async fn grow(servers: &str, topic: &str, partitions: usize) {
    let more = NewPartitions::new(topic, partitions);
    let made = admin(servers).create_partitions([&more], &AdminOptions::new()).await.unwrap();
    made.into_iter().for_each(|made| drop(made.unwrap()));
}
