//! Relays serve a table that was there before, filled by plain SQL.

use super::site::{Going, Kept, Running, SOON, Site, assert_in_order};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::outbox::attached::{AttachedTable, TableName};
use tidemill_domain::outbox::failed_event::RetryPolicy;
use tidemill_domain::outbox::{EventId, Payload};
use tidemill_engine::outbox::RelayOptions;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::Skipped;
use tidemill_store::sqlx::{AssertSqlSafe, query_scalar};

fn table() -> AttachedTable {
    let name = TableName::new("public", "transfer_events").unwrap();
    AttachedTable::new(name, "transfers", Some("account"), Some("transfer.done"), None).unwrap()
}

/// So often the sink may refuse a row before it is given up.
const ATTEMPTS_MAX: u32 = 3;

fn quick(options: &mut RelayOptions) {
    options.poll = Duration::from_millis(50);
    options.lease = Duration::from_secs(20);
    options.batch = NonZeroU32::new(20).unwrap();
    let backoff = Backoff::new(Duration::from_millis(20), 2.0, Duration::from_millis(40), 0.0).unwrap();
    options.retry = RetryPolicy { backoff, attempts_max: ATTEMPTS_MAX };
}

/// A database with the table of the document, attached.
async fn site() -> Option<Site> {
    let site = Site::postgres().await?;
    run(
        &site,
        "create table transfer_events (
             event_id bigserial primary key, aggregate_id varchar(100) not null, payload text, headers text,
             status varchar(20) not null default 'PENDING', next_retry_at timestamptz not null default now(),
             updated_at timestamptz not null default now()
         )",
    )
    .await;
    site.store.index_attached(&table().name).await.unwrap();
    let mut tx = site.store.begin().await.unwrap();
    tx.outbox().attach_table(&table(), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    Some(site)
}

async fn run(site: &Site, sql: &str) {
    let mut tx = site.store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// Writes a row of each of these aggregates, in one transaction.
async fn write(site: &Site, aggregates: &[&str]) {
    let rows: Vec<String> =
        aggregates.iter().map(|aggregate| format!("('{aggregate}', '{{\"n\": 1}}')")).collect();
    run(site, &format!("insert into transfer_events (aggregate_id, payload) values {}", rows.join(", ")))
        .await;
}

async fn count(site: &Site, status: &str) -> i64 {
    let sql = format!("select count(*) from transfer_events where status = '{status}'");
    let mut tx = site.store.begin().await.unwrap();
    query_scalar(AssertSqlSafe(sql)).fetch_one(tx.postgres().unwrap()).await.unwrap()
}

async fn until(site: &Site, status: &str, expected: i64) {
    let reached = async {
        while count(site, status).await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, reached).await;
    assert!(in_time.is_ok(), "{} instead of {expected} {status}", count(site, status).await);
}

#[tokio::test]
async fn rows_that_others_insert_are_published_and_marked() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    let relay = site.relay(&kept, quick).await;
    let headers = "{\"eventType\": \"transfer.undone\", \"trace\": \"abc\"}";
    write(&site, &["a"]).await;
    run(
        &site,
        &format!("insert into transfer_events (aggregate_id, payload, headers) values ('b', 'no JSON', '{headers}')"),
    )
    .await;
    site.write(&["own"]).await;

    until(&site, "PUBLISHED", 2).await;
    until_own(&kept).await;
    relay.stop().await;

    let records = kept.records();
    let one = records.iter().find(|record| record.aggregate.id == "a").unwrap();
    assert_eq!((one.id, one.seq.get(), one.slot), (EventId::new(1), 1, one.aggregate.slot()));
    assert_eq!((one.topic.as_str(), one.aggregate.kind.as_str()), ("transfers", "account"));
    assert_eq!(
        (one.event_type.as_str(), &one.payload),
        ("transfer.done", &Payload::Json("{\"n\": 1}".into()))
    );
    assert!(one.epoch.get() > 0);
    let two = records.iter().find(|record| record.aggregate.id == "b").unwrap();
    assert_eq!((two.event_type.as_str(), two.headers["trace"].as_str()), ("transfer.undone", "abc"));
    assert_eq!(two.payload, Payload::Bytes(b"no JSON".to_vec()));
}

/// What is in the outbox itself is published, too.
async fn until_own(kept: &Kept) {
    let reached = async {
        while kept.of("own").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, reached).await.expect("the event of the outbox itself");
}

#[tokio::test]
async fn a_poison_row_fails_others_flow_and_a_replay_keeps_the_order() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    kept.refuse("bad", false);
    let relay = site.relay(&kept, quick).await;
    write(&site, &["bad", "good", "bad", "good"]).await;
    until(&site, "FAILED", 1).await;
    until(&site, "PUBLISHED", 2).await;
    write(&site, &["bad", "good"]).await;
    until(&site, "PUBLISHED", 3).await;
    assert_eq!(kept.of("bad"), []);

    kept.accept_all();
    let mut tx = site.store.begin().await.unwrap();
    let ids = [EventId::new(1)];
    let ordered = tx
        .outbox()
        .order_attached(&table(), RowOrder::Replay, &ids, &Actor::system(), "for a test")
        .await
        .unwrap();
    assert_eq!(ordered.changed, ids);
    tx.commit().await.unwrap();
    until(&site, "PUBLISHED", 6).await;
    relay.stop().await;

    assert_eq!(kept.of("bad"), [1, 3, 5].map(EventId::new));
}

#[tokio::test]
async fn a_row_that_is_too_large_fails_with_its_code_and_others_flow() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    run(
        &site,
        "insert into transfer_events (aggregate_id, payload) values ('large', repeat('x', 3 * 1024 * 1024))",
    )
    .await;
    write(&site, &["good", "large", "good"]).await;

    let relay = site.relay(&kept, quick).await;
    until(&site, "FAILED", 1).await;
    until(&site, "PUBLISHED", 2).await;
    relay.stop().await;

    assert_eq!((kept.of("large"), kept.of("good")), (vec![], [2, 4].map(EventId::new).to_vec()));
    let mut tx = site.store.begin().await.unwrap();
    let failed = tx.outbox().attached_failed(&table(), EventId::ZERO, 10, Skipped::Not).await.unwrap();
    let error = failed[0].error.as_deref().unwrap();
    assert_eq!(error, "TM1401: the payload has 3145728 bytes; 1048576 are allowed");
}

#[tokio::test]
async fn a_sink_that_takes_nothing_costs_no_row_an_attempt() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    kept.is_down.store(true, Ordering::Relaxed);
    write(&site, &["a", "b", "a"]).await;
    let relay = site.relay(&kept, quick).await;
    // Once more than it would be asked if these were attempts.
    kept.until_asked(ATTEMPTS_MAX as usize + 1).await;
    assert_eq!(count(&site, "FAILED").await, 0);

    kept.is_down.store(false, Ordering::Relaxed);
    until(&site, "PUBLISHED", 3).await;
    relay.stop().await;

    assert_eq!(kept.records().len(), 3);
    assert!(kept.of("a").is_sorted());
}

#[tokio::test]
async fn a_row_that_somebody_has_locked_is_marked_later_and_others_flow() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    let closed = kept.gate.lock().await;
    let relay = site.relay(&kept, quick).await;
    write(&site, &["locked"]).await;
    until(&site, "SENDING", 1).await;
    let mut other = site.store.begin().await.unwrap();
    other.execute_for_test("select from transfer_events where event_id = 1 for update").await.unwrap();

    drop(closed);
    for _ in 0..3 {
        write(&site, &["good", "locked"]).await;
    }
    until(&site, "PUBLISHED", 3).await;
    assert_eq!((kept.of("good").len(), kept.of("locked")), (3, vec![EventId::new(1)]));
    other.rollback().await.unwrap();
    until(&site, "PUBLISHED", 7).await;
    relay.stop().await;

    assert_eq!(kept.of("locked"), [1, 3, 5, 7].map(EventId::new));
    let mut tx = site.store.begin().await.unwrap();
    let published: i64 = query_scalar("select sum(published)::bigint from tidemill_outbox_relay")
        .fetch_one(tx.postgres().unwrap())
        .await
        .unwrap();
    assert_eq!(published, 7);
}

#[tokio::test]
async fn a_table_that_is_gone_does_not_stop_a_relay() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    run(&site, "drop table transfer_events").await;

    let relay = site.relay(&kept, quick).await;
    site.write(&["one", "two"]).await;

    assert_eq!(kept.until(2).await.len(), 2);
    relay.stop().await;
}

/// The events of the outbox itself go out meanwhile, by a relay that did not have to join anew.
async fn assert_keeps_its_lease(site: &Site, kept: &Kept) {
    for _ in 0..15 {
        site.write(&["own"]).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    kept.until(15).await;
    let mut tx = site.store.begin().await.unwrap();
    let joined: i64 = query_scalar("select count(*) from tidemill_outbox_relay")
        .fetch_one(tx.postgres().unwrap())
        .await
        .unwrap();
    assert_eq!(joined, 1, "the relay had to join anew");
}

#[tokio::test]
async fn without_its_index_a_table_is_not_served_and_the_lease_is_kept() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    run(&site, "drop index tidemill_transfer_events_slot").await;
    write(&site, &["a"]).await;

    let relay = site.relay(&kept, quick).await;
    assert_keeps_its_lease(&site, &kept).await;
    assert_eq!(count(&site, "PENDING").await, 1);

    site.store.index_attached(&table().name).await.unwrap();
    until(&site, "PUBLISHED", 1).await;
    relay.stop().await;
}

#[tokio::test]
async fn a_table_that_takes_long_to_look_at_costs_no_relay_its_lease() {
    let Some(site) = site().await else { return };
    let kept = Kept::default();
    write(&site, &["a"]).await;
    // As if there were very much to read.
    run(&site, "alter table transfer_events rename to slow_events").await;
    run(
        &site,
        "create view transfer_events as select * from slow_events where pg_sleep(300)::text is not null",
    )
    .await;

    let relay = site.relay(&kept, quick).await;
    assert_keeps_its_lease(&site, &kept).await;
    run(&site, "drop view transfer_events").await;
    run(&site, "alter table slow_events rename to transfer_events").await;
    until(&site, "PUBLISHED", 1).await;
    relay.stop().await;
}

/// Relays join and leave while rows are written: two of them leave as `going` says, one is told to stop. Returns how many
/// records too many were published, once all rows are marked and all relays have ended.
async fn doubles_of_relays_that_come_and_go(going: Going) -> Option<usize> {
    let site = site().await?;
    let kept = Kept::default();
    // Nobody loses its lease to a busy machine.
    let steady = |options: &mut RelayOptions| {
        quick(options);
        options.lease = Duration::from_secs(600);
    };
    let aggregates: Vec<String> = (0..40).map(|n| format!("account-{n}")).collect();
    let names: Vec<&str> = aggregates.iter().map(String::as_str).collect();
    let mut relays: Vec<Running> = Vec::new();
    for _ in 0..2 {
        relays.push(site.relay(&kept, steady).await);
    }
    let mut written = 0;
    for step in 0..40 {
        write(&site, &names).await;
        written += names.len();
        match step {
            8 | 12 => relays.push(site.relay(&kept, steady).await),
            18 | 24 => {
                written += names.len();
                relays.remove(0).go(&site, &kept, going, write(&site, &names)).await;
            }
            32 => relays.remove(0).stop().await,
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until(&site, "PUBLISHED", i64::try_from(written).unwrap()).await;
    for relay in relays {
        relay.stop().await;
    }

    let records = kept.records();
    assert_in_order(&records);
    Some(records.len() - written)
}

#[tokio::test]
async fn relays_that_come_and_go_in_order_publish_each_row_once() {
    let Some(doubles) = doubles_of_relays_that_come_and_go(Going::Stopped).await else { return };

    assert_eq!(doubles, 0);
}

#[tokio::test]
async fn each_relay_that_is_killed_leaves_one_batch_of_rows_at_most_that_comes_again() {
    let Some(doubles) = doubles_of_relays_that_come_and_go(Going::Killed).await else { return };

    assert!(doubles <= 2 * 20, "{doubles} doubles after two kills with batches of 20");
}
