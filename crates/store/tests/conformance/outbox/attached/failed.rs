//! Rows that have FAILED, and what people do with them.

use super::{
    TRANSFER_EVENTS, attach, attached, claim, failed, ids, insert, mark, name, number, numbers, statuses,
    table,
};
use crate::Bench;
use crate::outbox::reader::Reader;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::{RowOutcome, RowRefusal};
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::{RowsOrdered, Skipped};

/// Rows 1 and 2 of one aggregate, the first of which has FAILED.
async fn poisoned() -> Option<(Bench, Reader)> {
    let bench = attached().await?;
    insert(&bench, &["a", "a"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(ids(&mut relay).await, [1, 2]);
    mark(&mut relay, &[(1, failed()), (2, RowOutcome::Back)]).await.unwrap();
    assert_eq!(ids(&mut relay).await, [] as [i64; 0]);
    Some((bench, relay))
}

async fn order(bench: &Bench, order: RowOrder, ids: &[i64]) -> RowsOrdered {
    let ids: Vec<EventId> = ids.iter().copied().map(EventId::new).collect();
    let mut tx = bench.begin().await;
    let ordered =
        tx.outbox().order_attached(&table(), order, &ids, &Actor::system(), "for a test").await.unwrap();
    tx.commit().await.unwrap();
    ordered
}

#[tokio::test]
async fn what_failed_is_listed_with_its_reason() {
    let Some((bench, _relay)) = poisoned().await else { return };

    let mut tx = bench.begin().await;
    let found = tx.outbox().attached_failed(&table(), EventId::ZERO, 10, Skipped::Not).await.unwrap();

    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id.get(), found[0].attempts), (1, 10));
    assert_eq!(found[0].error.as_deref(), Some("too ugly"));
    assert_eq!(tx.outbox().attached_failed(&table(), EventId::new(1), 10, Skipped::Not).await.unwrap(), []);
}

#[tokio::test]
async fn what_is_replayed_goes_first_and_begins_anew() {
    let Some((bench, mut relay)) = poisoned().await else { return };

    let ordered = order(&bench, RowOrder::Replay, &[1, 2]).await;

    assert_eq!(ordered.changed, [EventId::new(1)]);
    assert_eq!(ordered.refused, [(EventId::new(2), RowRefusal::NotFailed)]);
    let claimed = claim(&mut relay, &[], 10).await.unwrap();
    assert_eq!(numbers(&claimed), [1, 2]);
    assert_eq!(claimed.rows[0].attempts, 0);
    assert_eq!(number(&bench, "select count(*) from tidemill_audit where action = 'event.replay'").await, 1);
}

#[tokio::test]
async fn what_is_skipped_stays_failed_and_holds_nobody_back() {
    let Some((bench, mut relay)) = poisoned().await else { return };

    assert_eq!(order(&bench, RowOrder::Skip, &[1]).await.changed, [EventId::new(1)]);

    assert_eq!(ids(&mut relay).await, [2]);
    assert_eq!(statuses(&bench).await, ["FAILED", "SENDING"]);
    let again = order(&bench, RowOrder::Replay, &[1]).await;
    assert_eq!(again.refused, [(EventId::new(1), RowRefusal::Skipped)]);
    let mut tx = bench.begin().await;
    assert_eq!(tx.outbox().attached_failed(&table(), EventId::ZERO, 10, Skipped::Not).await.unwrap(), []);
    let found = tx.outbox().attached_failed(&table(), EventId::ZERO, 10, Skipped::Too).await.unwrap();
    assert!(found[0].is_skipped && found[0].attempts == 10);
}

#[tokio::test]
async fn what_was_skipped_is_forgotten_when_the_table_is_given_up() {
    let Some((bench, mut relay)) = poisoned().await else { return };
    assert_eq!(order(&bench, RowOrder::Skip, &[1]).await.changed, [EventId::new(1)]);
    // Of another table, which is not concerned.
    crate::outbox::run(
        &bench.store,
        "insert into tidemill_outbox_attempt (schema_name, table_name, event_id, state, attempts, updated_at)
         values ('public', 'others', 1, 'skipped', 1, now())",
    )
    .await;

    let mut tx = bench.begin().await;
    tx.outbox().detach_table(&name(), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();

    let left = "select count(*) from tidemill_outbox_attempt";
    assert_eq!(number(&bench, left).await, 1);
    // The first row of the table that comes after it is another one.
    crate::outbox::run(&bench.store, "drop table transfer_events").await;
    crate::outbox::run(&bench.store, TRANSFER_EVENTS).await;
    attach(&bench, &table()).await;
    insert(&bench, &["b", "b"]).await;
    crate::outbox::run(&bench.store, "update transfer_events set status = 'FAILED' where event_id = 1").await;
    assert_eq!(ids(&mut relay).await, [] as [i64; 0]);
}

#[tokio::test]
async fn what_was_left_of_an_attaching_of_before_does_not_count() {
    let Some(bench) = Bench::postgres().await else { return };
    crate::outbox::run(&bench.store, TRANSFER_EVENTS).await;
    crate::outbox::run(
        &bench.store,
        "insert into tidemill_outbox_attempt (schema_name, table_name, event_id, state, attempts, updated_at)
         values ('public', 'transfer_events', 1, 'skipped', 1, now())",
    )
    .await;

    attach(&bench, &table()).await;
    assert_eq!(number(&bench, "select count(*) from tidemill_outbox_attempt").await, 0);

    // Attached again in another way, it is still the same attaching.
    insert(&bench, &["a"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(ids(&mut relay).await, [1]);
    mark(&mut relay, &[(1, failed())]).await.unwrap();
    attach(&bench, &table()).await;
    assert_eq!(number(&bench, "select count(*) from tidemill_outbox_attempt").await, 1);
}

#[tokio::test]
async fn what_stands_where_is_counted_and_a_table_that_is_gone_is_unknown() {
    let Some((bench, _relay)) = poisoned().await else { return };

    let stats = bench.begin().await.outbox().attached_stats(100).await.unwrap().remove(0);

    let counts = stats.counts.unwrap();
    assert_eq!((counts.pending.least(), counts.sending.least(), counts.failed.least()), (1, 0, 1));
    assert_eq!(counts.oldest, Some(bench.now()));
    crate::outbox::run(&bench.store, "drop table transfer_events").await;
    assert_eq!(bench.begin().await.outbox().attached_stats(100).await.unwrap()[0].counts, None);
}

/// For how long something has been due, and how many rows nobody tries any more.
async fn watched(bench: &Bench) -> (Option<Duration>, Option<u64>) {
    let mut tx = bench.begin().await;
    let (_, wait) = tx.outbox().attached_waits().await.unwrap().remove(0);
    let (_, parked) = tx.outbox().attached_parked(100).await.unwrap().remove(0);
    (wait, parked.map(|rows| rows.least()))
}

#[tokio::test]
async fn what_failed_is_watched_until_it_is_skipped_and_what_waits_behind_it_is_not_due() {
    let Some((bench, mut relay)) = poisoned().await else { return };
    assert_eq!(watched(&bench).await, (Some(Duration::ZERO), Some(1)));

    let _ordered = order(&bench, RowOrder::Skip, &[1]).await;
    let (wait, parked) = watched(&bench).await;
    assert!(wait > Some(Duration::ZERO) && parked == Some(0), "{wait:?} {parked:?}");

    // A claim alone brings nothing out, however often it is made.
    assert_eq!(ids(&mut relay).await, [2]);
    bench.advance(Duration::from_secs(1));
    assert_eq!(watched(&bench).await.0, wait.map(|wait| wait + Duration::from_secs(1)));
    mark(&mut relay, &[(2, RowOutcome::Back)]).await.unwrap();
    assert_eq!(watched(&bench).await.0, wait.map(|wait| wait + Duration::from_secs(1)));

    assert_eq!(ids(&mut relay).await, [2]);
    mark(&mut relay, &[(2, RowOutcome::Published)]).await.unwrap();
    assert_eq!(watched(&bench).await, (Some(Duration::ZERO), Some(0)));
    crate::outbox::run(&bench.store, "drop table transfer_events").await;
    assert_eq!(watched(&bench).await, (None, None));
}
