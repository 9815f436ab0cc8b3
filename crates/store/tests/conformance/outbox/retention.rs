//! What is forgotten.

use super::{except, go_to, numbers, read_all, relay, rest, rest_all, run, snapshot, write, write_in};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::outbox::partition::Range;
use tidemill_domain::outbox::{EventId, Slot, Snapshot, Window};
use tidemill_store::outbox::Retained;

crate::on_both![
    events_go_that_were_read_and_are_old_and_not_needed,
    what_goes_is_what_the_rule_says_was_read,
    relays_that_ended_long_ago_go,
];

const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

const LEFT: &str = "select id from outbox_event order by id";

/// On PostgreSQL, events come into the default partition, which is never dropped.
async fn beside_partitions(bench: &Bench) {
    if bench.begin().await.postgres().is_some() {
        go_to(&bench.store, 5_000_000).await;
    }
}

async fn retain(bench: &Bench) -> Retained {
    bench.store.retain_outbox(WEEK, 5).await.unwrap()
}

async fn events_go_that_were_read_and_are_old_and_not_needed(bench: Bench) {
    beside_partitions(&bench).await;
    let (old, young) = (bench.now(), bench.now().plus(DAY * 2));
    let read = write(&bench.store, "read", old).await;
    let skipped = write(&bench.store, "skipped", old).await;
    let parked = write(&bench.store, "parked", old).await;
    let late = write(&bench.store, "late", young).await;
    except(&bench, skipped, "skipped", "skipped").await;
    except(&bench, parked, "parked", "parked").await;
    read_all(&bench.store).await;
    let unread = write(&bench.store, "unread", old).await;
    bench.advance(WEEK + DAY);

    let retained = retain(&bench).await;

    assert_eq!((retained.deleted, retained.is_short), (2, false), "{read} {skipped}");
    assert_eq!(numbers(&bench.store, LEFT).await, [parked.get(), late.get(), unread.get()]);
    assert_eq!(numbers(&bench.store, "select event_id from tidemill_outbox_exception").await, [parked.get()]);
    assert_eq!(retain(&bench).await, Retained::default());
}

/// Nobody else can write while it is looked for them, so each look is at a portion and goes on behind the last one.
#[tokio::test]
async fn on_sqlite_events_go_in_portions_whatever_lies_before_them() {
    let bench = Bench::sqlite().await;
    let unread = write(&bench.store, "unread", bench.now()).await;
    run(
        &bench.store,
        &format!(
            "with recursive number (n) as (select 1 union all select n + 1 from number where n < 2500)
             insert into outbox_event (slot, aggregate_type, aggregate_id, event_type, topic, payload, created_at)
             select {}, 'order', 'many', 'order.paid', 'orders', '1', {} from number",
            Slot::of("many").get(),
            bench.now().as_micros(),
        ),
    )
    .await;
    read_all(&bench.store).await;
    except(&bench, unread, "unread", "parked").await;
    let late = write(&bench.store, "late", bench.now().plus(DAY * 2)).await;
    bench.advance(WEEK + DAY);

    let first = bench.store.retain_outbox(WEEK, 2).await.unwrap();
    let second = bench.store.retain_outbox(WEEK, 2).await.unwrap();

    assert_eq!((first.deleted, first.is_short), (2_000, true));
    assert_eq!((second.deleted, second.is_short), (500, false));
    assert_eq!(numbers(&bench.store, LEFT).await, [unread.get(), late.get()]);
}

/// The statement decides for all events at once; the rule decides for each.
async fn what_goes_is_what_the_rule_says_was_read(bench: Bench) {
    beside_partitions(&bench).await;
    let is_postgres = bench.begin().await.postgres().is_some();
    let from: Snapshot = if is_postgres { "20:24:20,22".parse().unwrap() } else { Snapshot::up_to(5) };
    let to: Snapshot = if is_postgres { "22:28:22,26".parse().unwrap() } else { Snapshot::up_to(9) };
    let first = if is_postgres { 5_000_000 } else { 0 };
    let resting = Window::at(from.clone());
    let paging = resting.clone().opened(to).after(EventId::new(first + 7));
    let (a, b) = (Slot::of("a"), Slot::of("b"));
    let mut expected = Vec::new();
    for n in 1..=12_u64 {
        let aggregate = if n % 2 == 0 { "a" } else { "b" };
        let id = write(&bench.store, aggregate, bench.now()).await;
        let xid = if is_postgres { 18 + (n * 5) % 13 } else { n };
        if is_postgres {
            run(&bench.store, &format!("update outbox_event set xid = '{xid}' where id = {id}")).await;
        }
        let window = if n % 2 == 0 { &resting } else { &paging };
        if !window.covers(id, xid) {
            expected.push(id.get());
        }
    }
    rest_all(&bench.store, &Window::at(Snapshot::up_to(0))).await;
    rest(&bench.store, a, &resting).await;
    rest(&bench.store, b, &paging).await;
    let mut tx = bench.store.read().await.unwrap();
    let lag = tx.outbox().lag(100).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    bench.advance(WEEK + DAY);

    retain(&bench).await;

    assert!(expected.len() > 2 && expected.len() < 12, "{expected:?}");
    assert_eq!(numbers(&bench.store, LEFT).await, expected);
    let lag: u64 = lag.iter().map(|lag| lag.rows.least()).sum();
    assert_eq!(lag, expected.len() as u64);
}

async fn relays_that_ended_long_ago_go(bench: Bench) {
    let window = Window::at(snapshot(&bench.store).await);
    relay(&bench, 1, &window, &[(Slot::new(1), 0)], None).await;
    relay(&bench, 2, &window, &[], None).await;
    bench.advance(DAY);
    assert_eq!(retain(&bench).await.relays, 0);
    bench.advance(Duration::from_secs(10));
    relay(&bench, 3, &window, &[], None).await;

    assert_eq!(retain(&bench).await.relays, 1);

    assert_eq!(numbers(&bench.store, "select count(*) from tidemill_outbox_relay").await, [2]);
}

const FIRST: Range = Range { from: 1, to: 1_000_001 };

/// A bench on PostgreSQL with two old events in the first partition, which is behind.
async fn behind() -> Option<(Bench, EventId)> {
    let bench = Bench::postgres().await?;
    let first = write(&bench.store, "a", bench.now()).await;
    write(&bench.store, "b", bench.now()).await;
    go_to(&bench.store, 1_000_005).await;
    write(&bench.store, "c", bench.now().plus(WEEK)).await;
    bench.advance(WEEK + DAY);
    Some((bench, first))
}

async fn is_there(bench: &Bench) -> bool {
    let first = "select count(*) from pg_class where relname = 'outbox_event_p1'";
    numbers(&bench.store, first).await == [1]
}

#[tokio::test]
async fn a_partition_goes_that_every_slot_has_passed() {
    let Some((bench, first)) = behind().await else { return };
    except(&bench, first, "a", "skipped").await;
    read_all(&bench.store).await;

    let retained = retain(&bench).await;

    assert_eq!(retained.dropped, [FIRST]);
    assert!(!is_there(&bench).await);
    assert_eq!(numbers(&bench.store, LEFT).await, [1_000_006]);
    assert_eq!(numbers(&bench.store, "select count(*) from tidemill_outbox_exception").await, [0]);
    go_to(&bench.store, 10).await;
    write(&bench.store, "late", bench.now()).await;
    assert_eq!(numbers(&bench.store, "select id from outbox_event_default").await, [11]);
}

#[tokio::test]
async fn a_partition_stays_that_one_slot_has_not_passed() {
    let Some((bench, _)) = behind().await else { return };
    let before = Window::at(Snapshot::up_to(2));
    read_all(&bench.store).await;
    rest(&bench.store, Slot::of("b"), &before).await;
    assert_eq!(retain(&bench).await, Retained::default());

    // Also when a relay has the slot and says so.
    read_all(&bench.store).await;
    relay(&bench, 1, &before, &[(Slot::of("b"), 0)], None).await;
    assert_eq!(retain(&bench).await, Retained::default());

    // And while only a part of its window was read.
    let window = before.opened(snapshot(&bench.store).await).after(EventId::new(1));
    run(&bench.store, "update tidemill_outbox_slot set owner = null").await;
    rest(&bench.store, Slot::of("b"), &window).await;
    assert_eq!(retain(&bench).await.dropped, []);
    rest(&bench.store, Slot::of("b"), &window.after(EventId::new(2))).await;
    assert_eq!(retain(&bench).await.dropped, [FIRST]);
}

#[tokio::test]
async fn a_partition_stays_while_one_of_its_events_is_needed() {
    let Some((bench, first)) = behind().await else { return };
    read_all(&bench.store).await;
    for state in ["waiting", "held", "parked"] {
        except(&bench, first, "a", state).await;

        assert_eq!(retain(&bench).await, Retained::default(), "{state}");
        run(&bench.store, "delete from tidemill_outbox_exception").await;
    }
    assert_eq!(retain(&bench).await.dropped, [FIRST]);
}

#[tokio::test]
async fn a_partition_stays_that_is_young_or_in_use() {
    let Some((bench, _)) = behind().await else { return };
    read_all(&bench.store).await;
    // The newest event is not the one with the highest id.
    run(&bench.store, &format!("update outbox_event_p1 set created_at = '{}' where id = 1", bench.now()))
        .await;
    assert_eq!(retain(&bench).await, Retained::default());
    bench.advance(WEEK * 2);

    let retained = retain(&bench).await;

    assert_eq!(retained.dropped, [FIRST], "the second one is in use and the default one stays");
}

/// The look is over and nobody has the lock yet when an event comes that the look has not seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_comes_late_keeps_its_partition() {
    let Some((bench, _)) = behind().await else { return };
    read_all(&bench.store).await;
    go_to(&bench.store, 10).await;
    let mut writer = bench.begin().await;
    let late = write_in(&mut writer, "b", bench.now().minus(WEEK * 2)).await;
    go_to(&bench.store, 1_000_010).await;

    let store = bench.store.clone();
    let retaining = tokio::spawn(async move { store.retain_outbox(WEEK, 5).await.unwrap() });
    let waits = "select count(*) from pg_locks
                 where not granted and relation = 'outbox_event'::regclass
                   and database = (select oid from pg_database where datname = current_database())";
    let looking = async {
        while numbers(&bench.store, waits).await == [0] {
            assert!(!retaining.is_finished(), "the partition was not waited for");
        }
    };
    tokio::time::timeout(crate::SOON, looking).await.expect("a wait for the lock on the outbox");
    writer.commit().await.unwrap();

    assert_eq!(retaining.await.unwrap().dropped, []);
    assert!(numbers(&bench.store, LEFT).await.contains(&late.get()));
    assert_eq!(retain(&bench).await.dropped, [], "it was not read yet");
    read_all(&bench.store).await;
    assert_eq!(retain(&bench).await.dropped, [FIRST]);
}

#[tokio::test]
async fn who_is_in_the_way_of_dropping_is_not_waited_for_long() {
    let Some((bench, _)) = behind().await else { return };
    read_all(&bench.store).await;
    let mut reader = bench.begin().await;
    reader.execute_for_test("select count(*) from outbox_event").await.unwrap();

    let hindered = retain(&bench).await;
    reader.rollback().await.unwrap();

    assert_eq!(hindered, Retained { is_short: true, ..Retained::default() });
    assert_eq!(retain(&bench).await.dropped, [FIRST]);
}
