//! What is measured.

use super::{except, read_all, relay, rest, run, snapshot, write, write_in};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::outbox::{Count, RelayId, Slot, Snapshot, Window};
use tidemill_store::outbox::{Backlog, SlotLag};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, skip};
use uuid::Uuid;

crate::on_both![
    what_was_not_read_is_counted_by_slot,
    a_count_that_was_stopped_is_told_as_such,
    failed_events_are_counted_by_state,
    what_was_not_taken_is_not_out,
    slots_of_the_dead_count_as_unowned,
    an_outbox_that_nobody_uses_has_no_lag,
];

async fn lag(bench: &Bench, count_max: u32) -> Vec<SlotLag> {
    bench.store.read().await.unwrap().outbox().lag(count_max).await.unwrap().unwrap()
}

fn of(lag: &[SlotLag], aggregate: &str) -> SlotLag {
    lag[usize::from(Slot::of(aggregate).get())].clone()
}

async fn an_outbox_that_nobody_uses_has_no_lag(bench: Bench) {
    let mut tx = bench.store.read().await.unwrap();

    let stats = tx.outbox().stats(100).await.unwrap();

    assert_eq!(Backlog::of(&stats.lag.unwrap()), Backlog { rows: Count::Exactly(0), oldest: None });
    assert_eq!((stats.relays.len(), stats.unowned, stats.missing_shares), (0, 256, Vec::new()));
    assert_eq!(stats.wal_bytes_per_event, None);
}

async fn what_was_not_read_is_counted_by_slot(bench: Bench) {
    let before = Window::at(snapshot(&bench.store).await);
    write(&bench.store, "a", bench.now()).await;
    write(&bench.store, "b", bench.now()).await;
    read_all(&bench.store).await;
    rest(&bench.store, Slot::of("b"), &before).await;
    let start = bench.now();
    bench.advance(Duration::from_secs(60));
    write(&bench.store, "a", bench.now()).await;
    write(&bench.store, "b", bench.now()).await;
    let owner = Slot::of("a");
    let window = Window::at(
        bench.store.read().await.unwrap().outbox().places().await.unwrap()[owner.get() as usize]
            .window
            .from
            .clone(),
    );
    relay(&bench, 1, &window, &[(owner, 4)], None).await;

    let lag = lag(&bench, 100).await;

    assert_eq!(of(&lag, "a").rows, Count::Exactly(1));
    assert_eq!(of(&lag, "a").oldest, Some(bench.now()));
    assert_eq!(of(&lag, "a").owner, Some(RelayId::new(Uuid::from_u128(1))));
    assert_eq!((of(&lag, "b").rows, of(&lag, "b").oldest), (Count::Exactly(2), Some(start)));
    assert_eq!(Backlog::of(&lag), Backlog { rows: Count::Exactly(3), oldest: Some(start) });
}

async fn a_count_that_was_stopped_is_told_as_such(bench: Bench) {
    read_all(&bench.store).await;
    for _ in 0..3 {
        write(&bench.store, "a", bench.now()).await;
    }
    write(&bench.store, "b", bench.now()).await;

    let exact = lag(&bench, 4).await;
    let stopped = lag(&bench, 2).await;

    assert_eq!((of(&exact, "a").rows, of(&exact, "b").rows), (Count::Exactly(3), Count::Exactly(1)));
    assert_eq!((of(&stopped, "a").rows, of(&stopped, "b").rows), (Count::AtLeast(3), Count::AtLeast(0)));
    assert_eq!(of(&stopped, "b").oldest, None);
    assert!(stopped.iter().all(|lag| !lag.rows.is_exact()));
}

async fn failed_events_are_counted_by_state(bench: Bench) {
    for (state, count) in [("waiting", 1), ("held", 2), ("parked", 3)] {
        for n in 0..count {
            let aggregate = format!("{state}{n}");
            let id = write(&bench.store, &aggregate, bench.now()).await;
            except(&bench, id, &aggregate, state).await;
        }
    }

    let counts = bench.store.read().await.unwrap().outbox().failed_event_counts(2).await.unwrap();

    assert_eq!((counts.waiting.rows, counts.held.rows), (Count::Exactly(1), Count::Exactly(2)));
    assert_eq!((counts.parked.rows, counts.skipped), (Count::AtLeast(2), Count::Exactly(0)));
    assert_eq!(counts.open().rows, Count::AtLeast(5));
    // One of the parked was not looked at: no slot is sure to have no more.
    assert_eq!(counts.of_slot(Slot::of("waiting0")).rows, Count::AtLeast(1));
}

async fn what_was_not_taken_is_not_out(bench: Bench) {
    let start = bench.now();
    let parked = write(&bench.store, "a", start).await;
    let skipped = write(&bench.store, "b", start).await;
    bench.advance(Duration::from_secs(60));
    let waiting = write(&bench.store, "c", bench.now()).await;
    read_all(&bench.store).await;
    for (id, aggregate, state) in
        [(parked, "a", "parked"), (skipped, "b", "skipped"), (waiting, "c", "waiting")]
    {
        except(&bench, id, aggregate, state).await;
    }
    bench.advance(Duration::from_secs(60));
    write(&bench.store, "a", bench.now()).await;

    let stats = bench.store.read().await.unwrap().outbox().stats(100).await.unwrap();

    let one = |oldest| Backlog { rows: Count::Exactly(1), oldest: Some(oldest) };
    let failed = &stats.failed_events;
    assert_eq!((failed.parked, failed.held), (one(start), Backlog::NONE));
    assert_eq!(failed.waiting, one(start.plus(Duration::from_secs(60))));
    assert_eq!((failed.of_slot(Slot::of("a")), failed.of_slot(Slot::of("b"))), (one(start), Backlog::NONE));
    assert_eq!(stats.unread(), Some(one(bench.now())));
    assert_eq!(stats.unpublished(), Some(Backlog { rows: Count::Exactly(3), oldest: Some(start) }));
}

async fn slots_of_the_dead_count_as_unowned(bench: Bench) {
    let window = Window::at(snapshot(&bench.store).await);
    relay(&bench, 1, &window, &[(Slot::new(1), 0), (Slot::new(2), 0)], Some((0, 3))).await;
    relay(&bench, 2, &window, &[(Slot::new(3), 0)], Some((2, 3))).await;

    let live = bench.store.read().await.unwrap().outbox().stats(10).await.unwrap();
    bench.advance(Duration::from_secs(6));
    let dead = bench.store.read().await.unwrap().outbox().stats(10).await.unwrap();

    assert_eq!((live.relays.len(), live.unowned, live.missing_shares), (2, 253, vec![1]));
    assert_eq!((dead.relays.len(), dead.unowned, dead.missing_shares), (0, 256, Vec::new()));
}

/// Only PostgreSQL has writers side by side.
#[tokio::test]
async fn what_was_being_written_at_the_mark_is_counted() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut slow = bench.begin().await;
    write_in(&mut slow, "slow", bench.now()).await;
    write(&bench.store, "a", bench.now()).await;
    read_all(&bench.store).await;
    assert_eq!(Backlog::of(&lag(&bench, 10).await).rows, Count::Exactly(0));

    slow.commit().await.unwrap();

    assert_eq!(of(&lag(&bench, 10).await, "slow").rows, Count::Exactly(1));
    assert_eq!(Backlog::of(&lag(&bench, 10).await).rows, Count::Exactly(1));
}

/// With a long backlog, the look reads no more than it counts. Only PostgreSQL chooses its plans by size.
#[tokio::test]
async fn a_long_backlog_is_not_read_whole() {
    let Some(bench) = Bench::postgres().await else { return };
    run(
        &bench.store,
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
         select 'order', 'a' || n % 500, 'order.paid', 'orders', '{}' from generate_series(1, 20000) as n;
         analyze outbox_event",
    )
    .await;
    let read = "select coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint
                from pg_stat_xact_user_tables
                where relname like 'outbox_event%'";
    let mut tx = bench.store.read().await.unwrap();

    let lag = tx.outbox().lag(100).await.unwrap().unwrap();

    let rows: i64 = sqlx::query_scalar(read).fetch_one(tx.postgres().unwrap()).await.unwrap();
    assert_eq!(Backlog::of(&lag).rows, Count::AtLeast(101));
    assert!(rows < 1_000, "{rows}");
}

/// Only on SQLite do other programs leave the slot out.
#[tokio::test]
async fn events_without_a_slot_are_counted_where_they_will_be() {
    let bench = Bench::sqlite().await;
    write(&bench.store, "a", bench.now()).await;
    write(&bench.store, "a", bench.now()).await;
    run(&bench.store, "update outbox_event set slot = null where id = 2").await;

    assert_eq!(of(&lag(&bench, 10).await, "a").rows, Count::Exactly(2));
}

/// Snapshots of another server tell nothing.
#[tokio::test]
async fn after_a_restore_the_lag_is_unknown() {
    let Some(bench) = Bench::postgres().await else { return };
    rest(&bench.store, Slot::new(0), &Window::at(Snapshot::up_to(1 << 40))).await;

    assert_eq!(bench.store.read().await.unwrap().outbox().lag(10).await.unwrap(), None);
}

/// Statistics that are there but were not loaded with the server are not counted as zero.
#[tokio::test]
async fn what_acknowledgements_cost_is_known_where_it_is_counted() {
    if skip::skipped("postgres") {
        return;
    }
    for is_loaded in [false, true] {
        let library = ("shared_preload_libraries".to_owned(), "pg_stat_statements".to_owned());
        let settings = if is_loaded { vec![library] } else { Vec::new() };
        let server =
            PrivatePostgres::start(&PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
        server.psql("postgres", "create extension pg_stat_statements").unwrap();
        let url = server.url("postgres").parse().unwrap();
        let store = tidemill_store::Store::open(url, &tidemill_store::StoreOptions::default()).await.unwrap();
        store.initialise(tidemill_store::Init::Always).await.unwrap();
        let id = Uuid::from_u128(1);
        run(
            &store,
            &format!(
                "insert into tidemill_outbox_relay (id, process, name, host, pid, sink, joined_at, until)
                 values ('{id}', '{id}', 'relay', 'host', 7, 'null', now(), now())"
            ),
        )
        .await;
        run(&store, "update tidemill_outbox_relay set published = published + 1000, acks = acks + 1").await;

        let bytes = store.read().await.unwrap().outbox().stats(10).await.unwrap().wal_bytes_per_event;

        assert_eq!(bytes.is_some_and(|bytes| bytes > 0.0 && bytes < 100.0), is_loaded, "{bytes:?}");
        store.close().await;
    }
}
