//! In transactions each event is there once, for whoever reads what was committed.

mod outage;
mod refusal;

use super::broker::{Read, consume, doubles_in_order, json, record, shared, topic, unique};
use super::site::Site;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::{EventId, Group, NewEvent, Record};
use tidemill_domain::time::{Clock as _, FakeClock, Timestamp};
use tidemill_engine::LeaseGuard;
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::{NotTaken, Outcome, Publisher};
use tidemill_kafka::{KafkaOptions, TransactionalPublisher};

const LEASE: Duration = Duration::from_secs(5);

fn publisher(servers: &str, id: &str) -> TransactionalPublisher {
    let mut options = KafkaOptions::new(servers);
    // The machine may be busy with other tests.
    options.delivery_timeout = Duration::from_secs(30);
    TransactionalPublisher::new(options, id, Arc::new(SystemClock::new())).unwrap()
}

/// In a lease that lasts until somebody moves this clock.
fn guard_by(clock: &Arc<FakeClock>) -> LeaseGuard {
    LeaseGuard::new(clock.clone(), LEASE, clock.monotonic())
}

/// In a lease that does not end.
fn guard() -> LeaseGuard {
    guard_by(&Arc::new(FakeClock::at(Timestamp::EPOCH)))
}

/// One that has taken some groups, and what their receipts name.
async fn owner(
    servers: &str,
    id: &str,
    groups: &[Group],
    system: Option<&str>,
) -> (TransactionalPublisher, Vec<i64>) {
    let publisher = publisher(servers, id);
    let taken = publisher.take(groups, system, &guard()).await;
    let mut ids: Vec<i64> = taken.into_iter().flat_map(|taken| taken.unwrap()).map(EventId::get).collect();
    ids.sort_unstable();
    (publisher, ids)
}

/// The groups of these records.
fn groups(records: &[Record]) -> Vec<Group> {
    let mut groups: Vec<Group> = records.iter().map(|record| Group::of(record.slot)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Two events of each of five aggregates, from this number on.
fn records(topic: &str, from: i64) -> Vec<Record> {
    (from..from + 10)
        .map(|id| record(id, &format!("order-{}", id % 5), topic, json(&format!("{{\"n\":{id}}}"))))
        .collect()
}

/// Ids of what a reader of what was committed sees, in the order of each key.
fn committed(servers: &str, topic: &str) -> Vec<i64> {
    let reads = consume(servers, topic, &["isolation.level=read_committed".to_owned()]);
    let mut ids: Vec<i64> = reads.iter().map(Read::id).collect();
    ids.sort_unstable();
    ids
}

fn all_delivered(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| *outcome == Outcome::Delivered)
}

fn all_unavailable(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_two_relays_arrive_once_and_in_order() {
    let (Some(servers), Some(site)) = (shared(), Site::new().await) else { return };
    let (name, id) = (topic(&servers, 6, &[]).await, unique("shop"));
    let write = async |count: usize| {
        let event = |n: usize| {
            NewEvent::new("order", format!("order-{}", n % 100), "order.paid", &name, json("{}")).unwrap()
        };
        site.write(&(0..count).map(event).collect::<Vec<_>>()).await;
    };
    write(3_000).await;

    let one = site.relay(Arc::new(publisher(&servers, &id))).await;
    site.until_settled(3_000).await;
    // It hands over half of its groups.
    let two = site.relay(Arc::new(publisher(&servers, &id))).await;
    for _ in 0..20 {
        write(100).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    site.until_settled(5_000).await;
    one.stop().await;
    write(1_000).await;
    site.until_settled(6_000).await;
    two.stop().await;

    let reads = consume(&servers, &name, &["isolation.level=read_committed".to_owned()]);
    assert_eq!(doubles_in_order(&reads), 0);
    assert_eq!(reads.len(), 6_000);
    let epochs: std::collections::BTreeSet<&str> =
        reads.iter().map(|read| read.header("tidemill-epoch")).collect();
    assert!(epochs.len() > 1, "no group was handed over: {epochs:?}");
}

#[tokio::test]
async fn what_is_on_a_receipt_is_not_sent_again_until_the_database_knows_of_it() {
    let Some(servers) = shared() else { return };
    let (name, id) = (topic(&servers, 3, &[]).await, unique("shop"));
    let (first, second, third) = (records(&name, 1), records(&name, 11), records(&name, 21));
    let groups = groups(&first);
    let (one, nothing) = owner(&servers, &id, &groups, Some("7")).await;
    assert!(nothing.is_empty());
    assert!(all_delivered(&one.publish(&first).await) && all_delivered(&one.publish(&second).await));
    // It dies before it has said so to the database.
    drop(one);

    let (two, named) = owner(&servers, &id, &groups, Some("7")).await;
    let again = two.publish(&[first, second, third].concat()).await;

    assert_eq!(named, (1..=20).collect::<Vec<_>>());
    assert!(all_delivered(&again), "{again:?}");
    assert_eq!(committed(&servers, &name), (1..=30).collect::<Vec<_>>());

    // What the database knows of is named by no further receipt.
    two.settled(&(1..=30).map(EventId::new).collect::<Vec<_>>());
    let last = record(31, "order-1", &name, json("{}"));
    assert!(all_delivered(&two.publish(std::slice::from_ref(&last)).await));
    let (_three, named) = owner(&servers, &id, &[Group::of(last.slot)], Some("7")).await;
    assert_eq!(named, [31]);
}

#[tokio::test]
async fn a_record_that_was_changed_goes_out_again_with_those_behind_it() {
    let Some(servers) = shared() else { return };
    let (name, id) = (topic(&servers, 1, &[]).await, unique("shop"));
    let mut records: Vec<Record> = (1..=3).map(|id| record(id, "order-1", &name, json("{}"))).collect();
    let (one, _) = owner(&servers, &id, &groups(&records), None).await;
    assert!(all_delivered(&one.publish(&records).await));
    drop(one);

    records[1].payload = json("{\"edited\":true}");
    let (two, _) = owner(&servers, &id, &groups(&records), None).await;
    assert!(all_delivered(&two.publish(&records).await));

    let ids: Vec<i64> = consume(&servers, &name, &[]).iter().map(Read::id).collect();
    assert_eq!(ids, [1, 2, 3, 2, 3]);
}

#[tokio::test]
async fn whoever_was_ousted_can_commit_nothing() {
    let Some(servers) = shared() else { return };
    let (name, id) = (topic(&servers, 3, &[]).await, unique("shop"));
    let (first, second) = (records(&name, 1), records(&name, 11));
    let groups = groups(&first);
    let (ghost, _) = owner(&servers, &id, &groups, None).await;
    assert!(all_delivered(&ghost.publish(&first).await));

    let (heir, named) = owner(&servers, &id, &groups, None).await;
    let late = ghost.publish(&second).await;

    assert!(all_unavailable(&late), "{late:?}");
    assert!(ghost.is_ousted() && !heir.is_ousted());
    assert_eq!(named.len(), 10);
    assert_eq!(committed(&servers, &name), (1..=10).collect::<Vec<_>>());
    assert!(all_delivered(&heir.publish(&second).await));
    assert_eq!(committed(&servers, &name), (1..=20).collect::<Vec<_>>());
    // Whoever lets go of its groups begins anew.
    ghost.leave(&[]);
    assert!(!ghost.is_ousted());
    assert!(all_unavailable(&ghost.publish(&second).await));
}

/// Whether a transaction was committed that nobody waited for is read from its receipt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publication_that_was_given_up_is_there_once_in_the_end() {
    let Some(servers) = shared() else { return };
    let (name, id) = (topic(&servers, 3, &[]).await, unique("shop"));
    let all: Vec<Record> = (0..20).flat_map(|n| records(&name, 1 + 10 * n)).collect();
    let (one, _) = owner(&servers, &id, &groups(&all), None).await;

    let mut given_up = 0;
    for (n, records) in all.chunks(10).enumerate() {
        let patience = Duration::from_millis(3 * n as u64);
        given_up += usize::from(tokio::time::timeout(patience, one.publish(records)).await.is_err());
        let outcomes = one.publish(records).await;
        assert!(all_delivered(&outcomes), "{outcomes:?}");
    }

    assert!(given_up > 5, "{given_up}");
    assert!(!one.is_ousted());
    assert_eq!(committed(&servers, &name), (1..=200).collect::<Vec<_>>());
}

/// What the rightful owner has published and settled is on no receipt any more, so only the lease can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_lost_its_producer_and_its_lease_takes_nothing_back() {
    let Some(servers) = shared() else { return };
    let (name, id) = (topic(&servers, 1, &[]).await, unique("shop"));
    let records: Vec<Record> = (1..=6).map(|id| record(id, "order-1", &name, json("{}"))).collect();
    let groups = groups(&records);
    let (ghost, clock) = (publisher(&servers, &id), Arc::new(FakeClock::at(Timestamp::EPOCH)));
    assert!(ghost.take(&groups, None, &guard_by(&clock)).await.iter().all(Result::is_ok));
    // It is given up in the middle, so its producer is of no use.
    assert!(tokio::time::timeout(Duration::ZERO, ghost.publish(&records)).await.is_err());

    let (heir, _) = owner(&servers, &id, &groups, None).await;
    for records in records.chunks(3) {
        assert!(all_delivered(&heir.publish(records).await));
        heir.settled(&records.iter().map(|record| record.id).collect::<Vec<_>>());
    }
    clock.advance(LEASE);
    let late = ghost.publish(&records).await;

    assert!(all_unavailable(&late), "{late:?}");
    assert_eq!(committed(&servers, &name), (1..=6).collect::<Vec<_>>());
    // Nor does it oust whoever has the group.
    let last = record(7, "order-1", &name, json("{}"));
    assert!(all_delivered(&heir.publish(std::slice::from_ref(&last)).await));
    assert!(!heir.is_ousted());
}

#[tokio::test]
async fn receipts_of_another_database_are_refused_and_named() {
    let Some(servers) = shared() else { return };
    let (name, id) = (topic(&servers, 1, &[]).await, unique("shop"));
    let records = records(&name, 1);
    let (one, _) = owner(&servers, &id, &groups(&records), Some("7001")).await;
    assert!(all_delivered(&one.publish(&records).await));

    let taken = publisher(&servers, &id).take(&groups(&records)[..1], Some("7002"), &guard()).await;

    let Some(Err(NotTaken::Refused(refusal))) = taken.into_iter().next() else { panic!("it was taken") };
    assert_eq!(refusal.code.to_string(), "TM1441");
    assert!(refusal.what.contains("7001") && refusal.what.contains("7002"), "{}", refusal.what);
    assert!(refusal.fix.contains("outbox.kafka.transactional_id"), "{}", refusal.fix);
}
