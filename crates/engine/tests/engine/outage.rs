//! The database goes away under a process that runs in real time.

use crate::{key, options};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::Term;
use tidemill_domain::time::Clock;
use tidemill_engine::process::End;
use tidemill_engine::{Process, SystemClock};
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, postgres, skip};

const TTL: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_cannot_renew_gives_itself_up_before_its_lease_ends() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let mut server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let options_ = StoreOptions { connect_timeout: Duration::from_secs(30), ..StoreOptions::default() };
    let store = Store::open(server.url("postgres").parse().unwrap(), &options_).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    let clock = Arc::new(SystemClock::new());
    let process = Process::start(store.clone(), clock.clone(), options("one", TTL)).await.unwrap();
    let lease = process.acquire(&key("a"), Term::Process).await.unwrap();
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    assert!(lease.is_trusted(), "heartbeats keep it alive");

    // Not before the last heartbeat that can have been answered, so the lease ends at most one ttl from here.
    server.crash();
    let cut_off = clock.monotonic();
    let ended = tokio::time::timeout(TTL * 5, process.ended()).await.expect("it gives itself up");
    let took = clock.monotonic().since(cut_off);

    assert_eq!(ended, End::SelfFenced);
    assert!(took < TTL, "gave itself up after {took:?}, but the lease ends after {TTL:?}");
    assert!(!lease.is_trusted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_is_survived() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let mut server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let store = Store::open(server.url("postgres").parse().unwrap(), &StoreOptions::default()).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    let ttl = Duration::from_secs(15);
    let process =
        Process::start(store.clone(), Arc::new(SystemClock::new()), options("one", ttl)).await.unwrap();
    let lease = process.acquire(&key("a"), Term::For(ttl)).await.unwrap();

    server.crash();
    server.restart().unwrap();
    process.heartbeat().await.unwrap();

    let mut tx = store.begin().await.unwrap();
    lease.confirm(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert!(lease.is_trusted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_term_is_renewed_in_time_under_a_long_lease_of_the_process() {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    let clock = Arc::new(SystemClock::new());
    let process = Process::start(store, clock, options("one", Duration::from_secs(600))).await.unwrap();

    let lease = process.acquire(&key("a"), Term::For(Duration::from_secs(2))).await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(5), lease.lost()).await;

    assert!(lost.is_err(), "the term was not renewed");
    assert!(lease.is_trusted());
}
