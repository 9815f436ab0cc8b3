//! A key has the same partition, whether we send it or a producer in Java.

use super::broker::{consume, publisher, record, shared, topic};
use std::collections::HashMap;
use std::io::Write;
use std::process::Stdio;
use tidemill_domain::outbox::Payload;
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_testkit::java;
use tidemill_testkit::kafka::find_home;
use tidemill_testkit::skip::require;

#[tokio::test]
async fn keys_go_where_the_producer_of_kafka_itself_sends_them() {
    let Some(servers) = shared() else { return };
    let home = require("kafka", find_home()).expect("is not skipped");
    let (ours, theirs) = (topic(&servers, 17, &[]).await, topic(&servers, 17, &[]).await);
    let mut keys: Vec<String> = (0..200).map(|n| format!("order-{n}")).collect();
    keys.extend(["", "주문-1", "고객 서울", "é", "🦀", "a b\tc", "0"].map(str::to_owned));
    keys.push("long".repeat(250));

    let records: Vec<_> =
        (1..).zip(&keys).map(|(id, key)| record(id, key, &ours, Payload::Tombstone)).collect();
    let outcomes = publisher(&servers, |_| {}).publish(&records).await;
    let mut command = java::command(&home).unwrap();
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/Partitions.java")).args([&servers, &theirs]);
    let mut program =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    program.stdin.take().unwrap().write_all((keys.join("\n") + "\n").as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    assert_eq!(outcomes, vec![Outcome::Delivered; keys.len()]);
    let by_key: HashMap<String, i64> =
        consume(&servers, &ours, &[]).into_iter().map(|read| (read.key, read.partition)).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    let partitions: Vec<i64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(partitions.len(), keys.len());
    for (key, partition) in keys.iter().zip(partitions) {
        assert_eq!(by_key[key], partition, "{key:?}");
    }
}
