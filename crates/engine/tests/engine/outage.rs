//! The database goes away under a process that runs in real time.

use crate::{key, options};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::{Lease, Term};
use tidemill_domain::time::Clock;
use tidemill_engine::process::End;
use tidemill_engine::{Process, SystemClock};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{CommitProxy, PostgresOptions, PrivatePostgres, postgres, skip};

/// Longer than a busy machine lets a process wait.
const TTL: Duration = Duration::from_secs(20);

/// A transaction that does not begin is given up after ten seconds, which is longer than this is trusted.
const HANG_TTL: Duration = Duration::from_secs(12);

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
    crate::until("a heartbeat", async || {
        let known = store.read().await.unwrap().processes().list(10).await.unwrap();
        known.iter().any(|one| one.heartbeat_at > one.started_at)
    })
    .await;
    assert!(lease.is_trusted(), "heartbeats keep it alive");

    // Not before the last heartbeat that can have been answered, so the lease ends at most one ttl from here.
    server.crash();
    let lease_ends = clock.monotonic().plus(TTL);
    crate::until("it gives itself up", async || {
        // In this order: whoever is not scheduled between the two says no sooner for it.
        let now = clock.monotonic();
        let is_trusted = lease.is_trusted();
        assert!(!is_trusted || now < lease_ends, "it trusts a lease that has ended");
        !is_trusted
    })
    .await;

    let ended = tokio::time::timeout(crate::SOON, process.ended()).await.expect("it tells its holder");
    assert_eq!(ended, End::SelfFenced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_is_survived() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let mut server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let store = Store::open(server.url("postgres").parse().unwrap(), &StoreOptions::default()).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    // Longer than a server takes to start on a busy machine.
    let ttl = Duration::from_secs(600);
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

/// A heartbeat on a connection that hangs leaves time for one on a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_does_not_cost_the_lease() {
    let Some(scratch) = Scratch::postgres().await else { return };
    let proxy = CommitProxy::in_front_of(scratch.url()).unwrap();
    let store = Store::open(proxy.url().parse().unwrap(), &StoreOptions::default()).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    let process =
        Process::start(store, Arc::new(SystemClock::new()), options("one", HANG_TTL)).await.unwrap();
    let lease = process.acquire(&key("a"), Term::Process).await.unwrap();
    let direct = scratch.store(None).await.unwrap();
    let heartbeat = async || {
        let known = direct.read().await.unwrap().processes().list(10).await.unwrap();
        known.iter().map(|one| one.heartbeat_at).max()
    };
    let first = heartbeat().await;
    crate::until("a heartbeat", async || heartbeat().await > first).await;
    // Between two heartbeats, not in the middle of one.
    tokio::time::sleep(Duration::from_millis(500)).await;

    proxy.hang();
    let before = heartbeat().await;
    let ended = tokio::select! {
        ended = process.ended() => Some(ended),
        () = crate::until("a heartbeat on another connection", async || heartbeat().await > before) => None,
    };

    assert_eq!(ended, None);
    assert!(lease.is_trusted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_term_is_renewed_in_time_under_a_long_lease_of_the_process() {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    let clock = Arc::new(SystemClock::new());
    // Renewed every 150 seconds if nothing but the process counted.
    let ttl = Duration::from_secs(600);
    let process = Process::start(store.clone(), clock, options("one", ttl)).await.unwrap();
    let until = async || {
        let record = store.read().await.unwrap().leases().find(&key("a")).await.unwrap().unwrap();
        let Lease::Held { until, .. } = record.lease else { panic!("{record:?}") };
        until.unwrap()
    };

    let lease = process.acquire(&key("a"), Term::For(Duration::from_secs(20))).await.unwrap();
    let first = until().await;
    crate::until("the term to be renewed", async || until().await > first).await;

    assert!(lease.is_trusted());
}
