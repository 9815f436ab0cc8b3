//! Behind PgBouncer: what a pooler changes is found out, and everything works all the same.

use crate::{identity, key, process_id};
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Term};
use tidemill_store::wakeup::Woken;
use tidemill_store::{Init, Store, StoreError, StoreOptions};
use tidemill_testkit::{PoolMode, PostgresOptions, PrivatePgbouncer, PrivatePostgres};
use tidemill_testkit::{pgbouncer, postgres, skip};

const DATABASE: &str = "postgres";
const SOON: Duration = Duration::from_secs(120);

/// A pooler with its server; dropped in this order.
struct Pooled {
    pooler: PrivatePgbouncer,
    server: PrivatePostgres,
}

/// None when tests of either are to be skipped.
fn pooled(mode: PoolMode) -> Option<Pooled> {
    skip::require("pgbouncer", pgbouncer::find_binary())?;
    skip::require("postgres", postgres::find_binaries())?;
    let server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let pooler = PrivatePgbouncer::start(mode, server.port(), DATABASE).unwrap();
    Some(Pooled { pooler, server })
}

async fn open(url: &str, max_connections: u32) -> Store {
    let options = StoreOptions { max_connections, ..StoreOptions::default() };
    let store = Store::open(url.parse().unwrap(), &options).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_pooler_none_is_found() {
    let Some(pooled) = pooled(PoolMode::Session) else { return };

    let store = open(&pooled.server.url(DATABASE), 2).await;

    assert!(!store.is_behind_transaction_pooler());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_pooler_changes_nothing() {
    let Some(pooled) = pooled(PoolMode::Session) else { return };
    // The pooler has five connections to share, and each client keeps its own.
    let (here, there) = (open(&pooled.pooler.url(), 2).await, open(&pooled.pooler.url(), 2).await);
    assert!(!here.is_behind_transaction_pooler());
    assert!(!there.is_behind_transaction_pooler());

    lease_again_and_again(&here, 1).await.unwrap();
    lease_again_and_again(&there, 2).await.unwrap();

    let mut wakeup = there.wakeup("jobs");
    assert_eq!(wakeup.wait(SOON).await, Woken::Called, "a listener that has connected wakes everybody once");
    let mut tx = here.begin().await.unwrap();
    tx.wake("jobs");
    tx.commit().await.unwrap();
    assert_eq!(wakeup.wait(SOON).await, Woken::Called);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_pooler_is_found_and_never_in_the_way() {
    let Some(pooled) = pooled(PoolMode::Transaction) else { return };
    let mut stores = Vec::new();
    for _ in 0..4 {
        let store = open(&pooled.pooler.url(), 10).await;
        assert!(store.is_behind_transaction_pooler());
        stores.push(store);
    }

    let tasks: Vec<_> = (0..32)
        .map(|number| {
            let store = stores[number % stores.len()].clone();
            tokio::spawn(async move { lease_again_and_again(&store, number as u128).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }

    let mut tx = stores[0].begin().await.unwrap();
    for number in 0..32 {
        let all = tx.leases().list(1000).await.unwrap();
        let found = all.iter().find(|record| record.key == key(&number.to_string())).unwrap();
        assert_eq!(found.lease.epoch(), Epoch::new(TIMES));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_transaction_pooler_is_found_as_well() {
    let Some(pooled) = pooled(PoolMode::Transaction) else { return };
    let busy = open(&pooled.pooler.url(), 10).await;
    let traffic: Vec<_> = (0..8)
        .map(|number| {
            let store = busy.clone();
            tokio::spawn(async move {
                loop {
                    let mut tx = store.begin().await.unwrap();
                    tx.leases().of_process(process_id(number)).await.unwrap();
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();

    for attempt in 1..=40 {
        let options = StoreOptions::default();
        let store = Store::open(pooled.pooler.url().parse().unwrap(), &options).await.unwrap();
        assert!(store.is_behind_transaction_pooler(), "not found at attempt {attempt}");
        store.close().await;
    }

    for client in traffic {
        assert!(!client.is_finished(), "a client of the pooler has failed");
        client.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_transaction_pooler_wake_ups_arrive_in_the_same_process() {
    let Some(pooled) = pooled(PoolMode::Transaction) else { return };
    let store = open(&pooled.pooler.url(), 2).await;
    let mut wakeup = store.wakeup("jobs");
    assert_eq!(
        wakeup.wait(Duration::from_millis(100)).await,
        Woken::TimedOut,
        "nobody listens, so nobody wakes"
    );

    let mut tx = store.begin().await.unwrap();
    tx.wake("jobs");
    tx.commit().await.unwrap();

    assert_eq!(wakeup.wait(SOON).await, Woken::Called);
}

/// How often a task takes and returns its lease.
const TIMES: i64 = 25;

/// Registers process `number`, which then takes and returns a lease of its own in transactions of their own.
async fn lease_again_and_again(store: &Store, number: u128) -> Result<(), StoreError> {
    let (id, key) = (process_id(number), key(&number.to_string()));
    let mut tx = store.begin().await?;
    tx.processes().register(id, &identity(number), Duration::from_secs(600)).await?;
    tx.commit().await?;
    for epoch in 1..=TIMES {
        let mut tx = store.begin().await?;
        let granted = tx.leases().acquire(&key, id, Term::Process).await?.unwrap();
        tx.commit().await?;
        assert_eq!(granted.fence.epoch, Epoch::new(epoch));

        let mut tx = store.begin().await?;
        assert!(tx.leases().release(&key, granted.fence).await?);
        tx.commit().await?;
    }
    Ok(())
}
