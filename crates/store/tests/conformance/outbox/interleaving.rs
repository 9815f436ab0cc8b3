//! Transactions that overlap, stepped by hand on PostgreSQL, which alone has several writers at once. In each play the
//! product has to be right: nothing lost, the events of an aggregate in causal order, and no standing still while
//! somebody writes. The schemes beside it are caught in the plays that they are known to fail.

use super::reader::Reader;
use super::stage::{
    INVERTS, LOSES, RIGHT, STALLS, STALLS_AND_INVERTS, Scheme, Stage, TABLES, Verdict, Version, Writer,
};
use std::sync::Arc;
use tidemill_domain::time::FakeClock;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, postgres, skip};

/// What is expected of the naive schemes; the product is always right.
struct Expected {
    id_cursor: Verdict,
    xid_cursor: Verdict,
    created_at: Verdict,
    modulo: Verdict,
}

const ALL_RIGHT: Expected =
    Expected { id_cursor: RIGHT, xid_cursor: RIGHT, created_at: RIGHT, modulo: RIGHT };

async fn check(stage: &mut Stage, expected: &Expected, when: &str) {
    for (scheme, verdict) in stage.end().await {
        let expected = match scheme {
            Scheme::Windows => RIGHT,
            Scheme::IdCursor => expected.id_cursor,
            Scheme::XidCursor => expected.xid_cursor,
            Scheme::CreatedAt => expected.created_at,
            Scheme::Modulo => expected.modulo,
        };
        assert_eq!(verdict, expected, "{scheme:?} {when}");
    }
}

/// A server for one play: the numbers of transactions are counted for a whole server, so the writers of other tests
/// would hold up the scheme that waits for them.
struct Theatre {
    store: Store,
    url: String,
    server: PrivatePostgres,
}

impl Theatre {
    /// None when tests on PostgreSQL are to be skipped.
    async fn open() -> Option<Self> {
        skip::require("postgres", postgres::find_binaries())?;
        let settings = vec![("max_prepared_transactions".to_owned(), "5".to_owned())];
        let server =
            PrivatePostgres::start(&PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
        let url = server.url("postgres");
        let store = connect(&url).await;
        store.initialise(Init::Always).await.unwrap();
        Some(Self { store, url, server })
    }

    async fn stage(&self, limit: u32) -> Stage {
        Stage::new(&self.store, &self.url, limit).await
    }
}

/// With a clock that stands still, so that no relay lapses.
async fn connect(url: &str) -> Store {
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let options = StoreOptions { clock: Some(clock), ..StoreOptions::default() };
    Store::open(url.parse().unwrap(), &options).await.unwrap()
}

#[tokio::test]
async fn a_slow_transaction_with_the_lower_id_is_not_lost() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(10).await;
    let (mut slow, mut quick) = (stage.writer().await, stage.writer().await);

    slow.begin().await;
    slow.event("a").await;
    quick.commit_event("b").await;
    stage.read().await;
    slow.commit().await;
    stage.read().await;

    check(&mut stage, &Expected { id_cursor: LOSES, xid_cursor: STALLS, ..ALL_RIGHT }, "").await;
}

#[tokio::test]
async fn who_wrote_elsewhere_before_the_lock_does_not_overtake_wherever_is_read() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(10).await;
    let (mut early, mut late) = (stage.writer().await, stage.writer().await);

    // Each bit is a place in the play at which everybody reads.
    for places in 0..32_u32 {
        early.begin().await;
        early.write_elsewhere().await;
        read_if(&mut stage, places & 1).await;
        late.begin().await;
        late.event("a").await;
        read_if(&mut stage, places & 2).await;
        late.commit().await;
        read_if(&mut stage, places & 4).await;
        early.lock("a").await;
        read_if(&mut stage, places & 8).await;
        early.event("a").await;
        read_if(&mut stage, places & 16).await;
        early.commit().await;

        let is_read_in_between = places & (4 | 8 | 16) != 0;
        let expected = Expected {
            xid_cursor: if is_read_in_between { STALLS_AND_INVERTS } else { INVERTS },
            created_at: if is_read_in_between { RIGHT } else { INVERTS },
            ..ALL_RIGHT
        };
        check(&mut stage, &expected, &format!("when read at the places {places:05b}")).await;
    }
}

async fn read_if(stage: &mut Stage, place: u32) {
    if place != 0 {
        stage.read().await;
    }
}

#[tokio::test]
async fn a_writer_that_takes_long_is_read_in_the_end_and_nobody_waits_for_it() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(3).await;
    let (mut long, mut quick) = (stage.writer().await, stage.writer().await);

    for n in 0..3 {
        long.begin().await;
        long.event("a").await;
        for round in 0..10 {
            for _ in 0..n * 2 {
                quick.commit_event("b").await;
            }
            quick.commit_event(&format!("c{round}")).await;
            stage.read().await;
        }
        long.event("a").await;
        long.commit().await;
        stage.read().await;

        let expected = Expected { id_cursor: LOSES, xid_cursor: STALLS, ..ALL_RIGHT };
        check(&mut stage, &expected, &format!("with {n}")).await;
    }
}

#[tokio::test]
async fn a_writer_that_takes_long_and_comes_to_nothing_holds_nobody_up() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(3).await;
    let (mut long, mut quick) = (stage.writer().await, stage.writer().await);

    long.begin().await;
    long.event("a").await;
    for _ in 0..5 {
        quick.commit_event("b").await;
        stage.read().await;
    }
    long.rollback().await;
    quick.commit_event("a").await;
    stage.read().await;

    check(&mut stage, &Expected { xid_cursor: STALLS, ..ALL_RIGHT }, "").await;
}

#[tokio::test]
async fn of_savepoints_only_what_was_kept_is_read() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(2).await;
    let (mut saving, mut quick) = (stage.writer().await, stage.writer().await);

    saving.begin().await;
    // The first write of all is in a subtransaction, which has a number of its own.
    saving.run("savepoint one").await;
    saving.event("a").await;
    saving.run("savepoint two").await;
    saving.event("a").await;
    saving.event("d").await;
    quick.commit_event("b").await;
    stage.read().await;
    saving.run("rollback to savepoint two").await;
    // Its lock is gone with the savepoint, so others have their turn first.
    quick.commit_event("d").await;
    stage.read().await;
    saving.event("d").await;
    saving.run("savepoint three").await;
    saving.event("a").await;
    saving.run("release savepoint three").await;
    saving.run("release savepoint one").await;
    stage.read().await;
    saving.event("e").await;
    saving.commit().await;

    let expected = Expected { id_cursor: LOSES, xid_cursor: STALLS_AND_INVERTS, ..ALL_RIGHT };
    check(&mut stage, &expected, "").await;
}

#[tokio::test]
async fn ids_of_aborted_writers_are_not_waited_for() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(2).await;
    let (mut one, mut two) = (stage.writer().await, stage.writer().await);

    for round in 0..20 {
        one.begin().await;
        one.event("a").await;
        if round % 3 == 0 {
            one.commit().await
        } else {
            one.rollback().await
        }
        two.commit_event("a").await;
        if round % 4 == 0 {
            stage.read().await;
        }
    }

    check(&mut stage, &ALL_RIGHT, "").await;
}

#[tokio::test]
async fn many_writers_at_once_are_all_read_in_order() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(1).await;
    for limit in [1, 2, 5, 100] {
        stage.page(limit);
        let mut writers = Vec::new();
        for n in 0..12 {
            let mut writer = stage.writer().await;
            writer.begin().await;
            writer.event(&format!("a{n}")).await;
            writers.push(writer);
        }

        // They end in another order than they began.
        for n in 0..12 {
            let writer = &mut writers[n * 7 % 12];
            writer.event(&format!("a{}", n * 7 % 12)).await;
            writer.event("shared").await;
            if n % 5 == 3 {
                writer.rollback().await
            } else {
                writer.commit().await
            }
            stage.read().await;
        }

        let expected = Expected { id_cursor: LOSES, xid_cursor: STALLS_AND_INVERTS, ..ALL_RIGHT };
        check(&mut stage, &expected, &format!("with pages of {limit}")).await;
    }
}

#[tokio::test]
async fn without_any_failure_the_events_of_an_aggregate_stay_with_one_reader() {
    let Some(theatre) = Theatre::open().await else { return };
    let mut stage = theatre.stage(10).await;
    let mut writer = stage.writer().await;

    for _ in 0..3 {
        for _ in 0..3 {
            writer.commit_event("a").await;
        }
        stage.read_once().await;
    }

    check(&mut stage, &Expected { modulo: INVERTS, ..ALL_RIGHT }, "").await;
}

#[tokio::test]
async fn a_prepared_transaction_is_read_once_it_commits_even_after_a_crash_of_the_server() {
    let Some(mut theatre) = Theatre::open().await else { return };
    let url = theatre.url.clone();
    let (mut prepared, mut quick) = (Writer::new(&url).await, Writer::new(&url).await);
    quick.run(TABLES).await;
    let mut relay = Reader::of_all(&theatre.store, 1, 2).await;

    prepared.begin().await;
    prepared.event("a").await;
    prepared.run("prepare transaction 'first'").await;
    quick.run("set synchronous_commit = on").await;
    quick.commit_event("b").await;
    relay.drain().await;
    assert_eq!(relay.ids(), [2]);
    theatre.server.crash();
    theatre.server.restart().unwrap();
    relay.store = connect(&url).await;
    // It joins again, as every relay does after a crash.
    let store = relay.store.clone();
    let settled = relay.end().await;
    let mut relay = Reader::of_all(&store, 2, 2).await;
    relay.settled = settled;
    let mut quick = Writer::new(&url).await;
    for _ in 0..5 {
        quick.commit_event("b").await;
    }
    relay.drain().await;
    assert_eq!(relay.ids().len(), 6, "nobody waits for the prepared one");
    quick.run("commit prepared 'first'").await;
    quick.commit_event("a").await;
    relay.drain().await;

    let read: Vec<Version> = relay.settled.iter().map(|settled| Version::of(&settled.event)).collect();
    assert_eq!(read.iter().cloned().collect::<std::collections::BTreeSet<_>>(), quick.committed().await);
    assert_eq!(relay.ids()[6], 1);
    assert!(super::stage::are_in_causal_order(&read));
}
