//! What a relay claims and marks.

use super::{
    SOON, again, attached, claim, failed, ids, insert, mark, name, number, numbers, statuses, try_mark,
};
use crate::outbox::reader::{LEASE, Reader, retire};
use crate::outbox::run;
use crate::outbox::stage::Writer;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::attached::RowOutcome;
use tidemill_domain::outbox::attached::row::RowPayload;
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::TableLook;
use tidemill_store::outbox::attached::serve::Marked;

#[tokio::test]
async fn what_is_due_is_claimed_in_order_and_once() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b", "a", "c", "a"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;

    let first = claim(&mut relay, &[], 3).await.unwrap();

    assert_eq!(numbers(&first), [1, 2, 3]);
    assert_eq!(first.rows[0].payload, RowPayload::Text("{}".into()));
    assert_eq!(statuses(&bench).await, ["SENDING", "SENDING", "SENDING", "PENDING", "PENDING"]);
    // The last one of a waits for those that are on their way.
    assert_eq!(ids(&mut relay).await, [4]);
    let published = [1, 2, 3, 4].map(|id| (id, RowOutcome::Published));
    assert_eq!(mark(&mut relay, &published).await, Some(4));
    assert_eq!(ids(&mut relay).await, [5]);
}

#[tokio::test]
async fn each_relay_claims_of_its_own_slots_only() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b", "a", "b"]).await;
    let (mut one, mut two) =
        (Reader::join(&bench.store, 1, 10).await, Reader::join(&bench.store, 2, 10).await);
    one.take(&[Slot::of("a")]).await.unwrap();
    two.take(&[Slot::of("b")]).await.unwrap();

    assert_eq!(ids(&mut two).await, [2, 4]);
    assert_eq!(ids(&mut one).await, [1, 3]);
}

#[tokio::test]
async fn a_row_that_was_refused_holds_back_its_aggregate_until_its_time() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b", "a"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(ids(&mut relay).await, [1, 2, 3]);

    let marks = [(1, again(&bench)), (2, RowOutcome::Published), (3, RowOutcome::Back)];
    mark(&mut relay, &marks).await.unwrap();

    assert_eq!(statuses(&bench).await, ["PENDING", "PUBLISHED", "PENDING"]);
    assert_eq!(ids(&mut relay).await, [] as [i64; 0]);
    bench.advance(Duration::from_secs(4));
    assert!(relay.look().await.is_some());
    bench.advance(Duration::from_secs(1));
    let claimed = claim(&mut relay, &[], 10).await.unwrap();
    assert_eq!(numbers(&claimed), [1, 3]);
    assert_eq!((claimed.rows[0].attempts, claimed.rows[1].attempts), (1, 0));
    mark(&mut relay, &[(1, RowOutcome::Published), (3, RowOutcome::Published)]).await.unwrap();
    assert_eq!(number(&bench, "select count(*) from tidemill_outbox_attempt").await, 0);
}

#[tokio::test]
async fn whoever_failed_holds_back_its_aggregate_and_no_other() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "a", "b"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(numbers(&claim(&mut relay, &[], 1).await.unwrap()), [1]);

    mark(&mut relay, &[(1, failed())]).await.unwrap();

    assert_eq!(statuses(&bench).await, ["FAILED", "PENDING", "PENDING"]);
    assert_eq!(ids(&mut relay).await, [3]);
}

#[tokio::test]
async fn a_row_that_somebody_has_locked_is_not_overtaken() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "a", "b"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    let mut other = Writer::new(bench.scratch.url()).await;
    other.begin().await;
    other.run("update transfer_events set payload = '{\"n\":2}' where event_id = 1").await;

    assert_eq!(ids(&mut relay).await, [3]);

    other.commit().await;
    let claimed = claim(&mut relay, &[], 10).await.unwrap();
    assert_eq!(numbers(&claimed), [1, 2]);
    assert_eq!(claimed.rows[0].payload, RowPayload::Text("{\"n\":2}".into()));
}

#[tokio::test]
async fn what_a_dead_relay_was_sending_is_recovered_by_its_successor() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "a"]).await;
    let mut dead = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(numbers(&claim(&mut dead, &[], 1).await.unwrap()), [1]);
    bench.advance(LEASE * 2);
    assert_eq!(retire(&bench.store).await.len(), 1);
    let mut successor = Reader::of_all(&bench.store, 2, 10).await;
    // Without the recovery nobody would touch them.
    assert_eq!(ids(&mut successor).await, [] as [i64; 0]);

    let slots = successor.slots();
    let claimed = claim(&mut successor, &slots, 10).await.unwrap();

    assert_eq!(numbers(&claimed), [1, 2]);
    assert_eq!(claimed.unrecovered, []);
}

#[tokio::test]
async fn what_is_locked_is_recovered_later() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b"]).await;
    run(&bench.store, "update transfer_events set status = 'SENDING'").await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    let mut other = Writer::new(bench.scratch.url()).await;
    other.begin().await;
    other.run("select from transfer_events where event_id = 1 for update").await;

    let slots = relay.slots();
    let claimed = claim(&mut relay, &slots, 10).await.unwrap();

    assert_eq!(numbers(&claimed), [2]);
    assert_eq!(claimed.unrecovered, [Slot::of("a")]);
    other.commit().await;
    assert_eq!(numbers(&claim(&mut relay, &claimed.unrecovered, 10).await.unwrap()), [1]);
}

#[tokio::test]
async fn whoever_was_retired_neither_claims_nor_marks() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b"]).await;
    let mut ghost = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(numbers(&claim(&mut ghost, &[], 1).await.unwrap()), [1]);
    bench.advance(LEASE * 2);
    retire(&bench.store).await;

    assert!(claim(&mut ghost, &[], 10).await.is_none());
    assert!(mark(&mut ghost, &[(1, RowOutcome::Published)]).await.is_none());

    assert_eq!(statuses(&bench).await, ["SENDING", "PENDING"]);
}

#[tokio::test]
async fn only_what_is_still_being_sent_is_marked() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(ids(&mut relay).await, [1, 2]);
    run(&bench.store, "update transfer_events set status = 'CANCELLED' where event_id = 1").await;

    let marked = mark(&mut relay, &[(1, failed()), (2, failed())]).await;

    assert_eq!(marked, Some(1));
    assert_eq!(statuses(&bench).await, ["CANCELLED", "FAILED"]);
    assert_eq!(number(&bench, "select count(*) from tidemill_outbox_attempt").await, 1);
    // Done again, because the answer was lost, it changes nothing.
    assert_eq!(mark(&mut relay, &[(1, failed()), (2, failed())]).await, Some(0));
}

#[tokio::test]
async fn what_somebody_has_locked_is_marked_later_and_holds_up_no_other() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a", "b", "c", "a", "d"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(numbers(&claim(&mut relay, &[], 3).await.unwrap()), [1, 2, 3]);
    let mut other = Writer::new(bench.scratch.url()).await;
    other.begin().await;
    other.run("select from transfer_events where event_id in (1, 3) for update").await;
    let marks = [(1, RowOutcome::Published), (2, RowOutcome::Published), (3, again(&bench))];

    let marked = try_mark(&mut relay, &marks).await.unwrap();

    assert_eq!((marked.changed, marked.locked), (1, [1, 3].map(EventId::new).into()));
    assert_eq!(statuses(&bench).await, ["SENDING", "PUBLISHED", "SENDING", "PENDING", "PENDING"]);
    // Others go on; what comes behind a row that is locked does not.
    assert_eq!(ids(&mut relay).await, [5]);
    other.commit().await;
    let marked = try_mark(&mut relay, &marks).await.unwrap();
    assert_eq!((marked.changed, marked.locked), (2, [].into()));
    assert_eq!(ids(&mut relay).await, [4]);
}

#[tokio::test]
async fn what_whoever_had_it_locked_has_changed_is_not_marked() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    assert_eq!(ids(&mut relay).await, [1]);
    let mut other = Writer::new(bench.scratch.url()).await;
    other.begin().await;
    other.run("update transfer_events set status = 'CANCELLED' where event_id = 1").await;
    let marks = [(1, RowOutcome::Published)];
    assert_eq!(try_mark(&mut relay, &marks).await.unwrap().locked, [EventId::new(1)].into());

    other.commit().await;

    assert_eq!(try_mark(&mut relay, &marks).await, Some(Marked::default()));
    assert_eq!(statuses(&bench).await, ["CANCELLED"]);
}

#[tokio::test]
async fn nothing_is_claimed_of_a_table_that_is_no_longer_attached() {
    let Some(bench) = attached().await else { return };
    insert(&bench, &["a"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    let mut tx = bench.begin().await;
    tx.outbox().detach_table(&name(), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(ids(&mut relay).await, [] as [i64; 0]);
    assert_eq!(relay.look().await.unwrap().attached, []);
}

#[tokio::test]
async fn times_without_a_zone_are_those_of_the_zone_that_was_named() {
    let Some(bench) = attached().await else { return };
    run(&bench.store, "alter table transfer_events alter column next_retry_at type timestamp").await;
    // 02:00 in UTC, which the clock of this test shows, is 11:00 in Seoul.
    run(
        &bench.store,
        "insert into transfer_events (aggregate_id, next_retry_at)
         values ('a', '2026-11-15 10:59:59'), ('b', '2026-11-15 11:00:01')",
    )
    .await;
    run(&bench.store, "update tidemill_outbox_adopted set time_zone = 'Asia/Seoul'").await;
    let relay = Reader::of_all(&bench.store, 1, 10).await;
    let seoul = relay.look().await.unwrap().attached.remove(0);
    let looked = bench.store.look_at_attached(&seoul, &[Slot::of("a")], SOON).await.unwrap();
    assert_eq!(looked, TableLook::Due);
    let looked = bench.store.look_at_attached(&seoul, &[Slot::of("b")], SOON).await.unwrap();
    assert_eq!(looked, TableLook::NotDue);

    let slots = relay.slots();
    let claiming = tidemill_store::outbox::attached::serve::Claiming {
        table: &seoul,
        slots: &slots,
        recover: &[],
        limit: 10,
        within: SOON,
    };
    let claimed = bench.begin().await.outbox().claim_attached(&claiming).await.unwrap();

    assert_eq!(numbers(&claimed), [1]);
}
