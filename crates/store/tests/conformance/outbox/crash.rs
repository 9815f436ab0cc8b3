//! The server crashes. What was not on disk is gone, and numbers of transactions that were rolled back are given out again.
//! A saved position has never passed such a number: the transaction that saved it has a higher one, in the same log. A relay
//! that has read before the crash and saves its position after it would pass such numbers, so it is refused. SQLite numbers
//! no transactions.

use super::reader::{LEASE, Reader, write};
use super::restore::open;
use super::stage::Writer;
use crate::Bench;
use tidemill_domain::outbox::restore::RestoreState;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{PostgresOptions, PrivatePostgres, skip};

/// Aggregates of many slots.
const MANY: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Uses up numbers by transactions that leave nothing behind but their end, which nobody waits for.
async fn burn(writer: &mut Writer) {
    for _ in 0..200 {
        writer.begin().await;
        writer.run("select pg_current_xact_id()").await;
        writer.rollback().await;
    }
}

/// The newest mark that is stored, and the first number that the server has not given out.
async fn numbers(store: &Store) -> (u64, u64) {
    let places = store.read().await.unwrap().outbox().places().await.unwrap();
    let newest = places.iter().map(|place| place.window.from.xmax()).max().unwrap();
    (newest, super::snapshot(store).await.xmax())
}

/// A server where only a commit that waits writes the log to disk.
fn server() -> PrivatePostgres {
    let settings = [("wal_writer_delay", "10s"), ("wal_writer_flush_after", "1GB")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let server = PrivatePostgres::start(&PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
    server.psql("postgres", "create database crash encoding 'UTF8' template template0").unwrap();
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_has_read_before_a_crash_cannot_acknowledge_after_it() {
    if skip::skipped("postgres") {
        return;
    }
    let mut server = server();
    let bench = Bench::on(Scratch::file()).await;
    let before = open(&server, "crash", &bench).await;
    before.check_outbox().await.unwrap();
    let mut relay = Reader::of_all(&before, 1, 100).await;
    write(&before, &MANY).await;
    burn(&mut Writer::new(&server.url("crash")).await).await;
    let batch = relay.read().await.unwrap();
    let passed = batch.page.window.from.xmax();

    server.crash();
    before.close().await;
    server.restart().unwrap();
    let store = open(&server, "crash", &bench).await;
    let first = super::snapshot(&store).await.xmax();
    assert!(first < passed, "{passed} was passed, and {first} is given out next");
    let mut written = MANY.len();
    while super::snapshot(&store).await.xmax() <= passed {
        write(&store, &MANY).await;
        written += MANY.len();
    }
    relay.store = store.clone();
    assert!(relay.look().await.is_none(), "it sees that it has to join again");
    assert!(!relay.settle(batch, MANY.len()).await, "numbers that it has passed belong to others now");
    relay.end().await;

    let mut next = Reader::of_all(&store, 2, 100).await;
    next.drain().await;
    assert_eq!(next.settled.len(), written, "everything is read");
    next.end().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_no_number_is_given_out_again_that_a_position_has_passed() {
    if skip::skipped("postgres") {
        return;
    }
    let mut server = server();
    let bench = Bench::on(Scratch::file()).await;
    let mut store = open(&server, "crash", &bench).await;
    store.check_outbox().await.unwrap();

    for round in 1..=3 {
        let mut relay = Reader::of_all(&store, round, 100).await;
        let url = server.url("crash");
        let (mut quick, mut long) = (Writer::new(&url).await, Writer::new(&url).await);
        write(&store, &MANY).await;
        burn(&mut quick).await;
        long.begin().await;
        long.run("select pg_current_xact_id()").await;
        burn(&mut quick).await;
        relay.drain().await;
        assert_eq!(relay.settled.len(), MANY.len(), "round {round}");
        // What the position has passed by now is not on disk, unless it was put there together with the position.
        let passed = relay.cursors[0].window.from.xmax();
        burn(&mut quick).await;

        server.crash();
        store.close().await;
        server.restart().unwrap();
        store = open(&server, "crash", &bench).await;

        let (newest, next) = numbers(&store).await;
        assert_eq!(newest, passed, "the position was put to disk");
        assert!(newest <= next, "{newest} was passed, and {next} is given out next");
        assert_eq!(store.check_outbox().await.unwrap().state, RestoreState::Same);
        write(&store, &MANY).await;
        bench.advance(LEASE);
        assert_eq!(super::reader::retire(&store).await.len(), 1);
        let mut next = Reader::of_all(&store, 10 + round, 100).await;
        next.drain().await;
        assert_eq!(next.settled.len(), MANY.len(), "what is written after the crash is read, once");
        next.end().await;
    }
    store.close().await;
}
