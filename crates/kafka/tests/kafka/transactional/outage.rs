//! A broker that is paused for longer than a transaction may take, killed and started again: nothing comes twice.

use crate::broker::{Read, consume, doubles_in_order, json};
use crate::site::Site;
use crate::watched::Watched;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::NewEvent;
use tidemill_engine::SystemClock;
use tidemill_kafka::TransactionalPublisher;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_paused_and_restarted_doubles_nothing() {
    let Some((site, mut kafka, name)) = Site::with_broker().await else { return };
    let servers = kafka.bootstrap_servers();
    let mut options = tidemill_kafka::KafkaOptions::new(&servers);
    options.delivery_timeout = Duration::from_secs(5);
    let sink = TransactionalPublisher::new(options, "shop", Arc::new(SystemClock::new())).unwrap();
    let sink = Watched::new(sink);
    let relay = site.relay(Arc::new(sink.clone())).await;
    let mut written: i64 = 0;
    let mut write = async |times: u32| {
        for _ in 0..times {
            let event = |n: u32| {
                NewEvent::new("order", format!("order-{}", n % 20), "order.paid", &name, json("{}")).unwrap()
            };
            site.write(&(0..200).map(event).collect::<Vec<_>>()).await;
            written += 200;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };

    write(20).await;
    kafka.pause().unwrap();
    let before = sink.unanswered();
    write(60).await;
    sink.until_more_than(before).await;
    kafka.resume().unwrap();
    write(20).await;
    kafka.crash();
    let before = sink.unanswered();
    write(10).await;
    sink.until_more_than(before).await;
    kafka.restart().unwrap();
    write(10).await;
    site.until_settled(written).await;
    relay.stop().await;

    let reads = consume(&servers, &name, &["isolation.level=read_committed".to_owned()]);
    assert_eq!(doubles_in_order(&reads), 0);
    let ids: HashSet<i64> = reads.iter().map(Read::id).collect();
    assert_eq!(ids.len(), usize::try_from(written).unwrap());
    assert!(site.failed_events().await.is_empty());
}
