//! Whoever stops waiting for a transaction, or for its end, leaves nothing behind on the connection.

use crate::Bench;
use std::future::Future;
use std::time::Duration;
use tidemill_store::{Store, StoreOptions, Tx};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, postgres, skip};

crate::on_both![
    a_begin_that_is_cancelled_leaves_no_transaction_open,
    a_read_that_is_cancelled_leaves_no_transaction_open,
    a_statement_or_commit_that_is_cancelled_leaves_no_transaction_open,
];

/// After how many turns of the scheduler a call is cancelled, at most. Answers take a few dozen.
const TURNS: u32 = 60;

/// One connection, so that the next one who asks gets the one that was left behind.
async fn single(bench: &Bench) -> Store {
    let options = StoreOptions { max_connections: 1, ..StoreOptions::default() };
    let store = Store::open(bench.scratch.url().parse().unwrap(), &options).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table probe (n integer)").await.unwrap();
    tx.commit().await.unwrap();
    store
}

/// Drops `call` after `turns` turns of the scheduler. Whether it was cancelled: otherwise it was done by then.
async fn cancel<T>(turns: u32, call: impl Future<Output = T>) -> bool {
    let patience = async {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = call => false,
        () = patience => true,
    }
}

async fn count(tx: &mut Tx) -> i64 {
    let sql = "select count(*) from probe";
    match tx.postgres() {
        Some(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.unwrap(),
        None => sqlx::query_scalar(sql).fetch_one(tx.sqlite().unwrap()).await.unwrap(),
    }
}

/// Writes one row by a statement that commits by itself, and looks from elsewhere whether it is there.
async fn statements_still_commit(store: &Store, elsewhere: &Store, expected: i64) {
    let mut tx = store.alone().await.unwrap();
    tx.execute_for_test("insert into probe values (1)").await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = elsewhere.read().await.unwrap();
    assert_eq!(
        count(&mut tx).await,
        expected,
        "a statement ran inside a transaction that somebody left open"
    );
    tx.rollback().await.unwrap();
}

async fn check<T>(bench: Bench, call: impl AsyncFn(Store) -> T) {
    let store = single(&bench).await;
    let elsewhere =
        Store::open(bench.scratch.url().parse().unwrap(), &StoreOptions::default()).await.unwrap();
    let mut cancelled = 0;
    for turns in 0..TURNS {
        cancelled += u32::from(cancel(turns, call(store.clone())).await);
        statements_still_commit(&store, &elsewhere, i64::from(turns) + 1).await;
    }
    assert!(cancelled > 0, "every call was done before it could be cancelled");
}

async fn a_begin_that_is_cancelled_leaves_no_transaction_open(bench: Bench) {
    check(bench, async |store| store.begin().await.unwrap().rollback().await.unwrap()).await;
}

async fn a_read_that_is_cancelled_leaves_no_transaction_open(bench: Bench) {
    check(bench, async |store| store.read().await.unwrap().rollback().await.unwrap()).await;
}

async fn a_statement_or_commit_that_is_cancelled_leaves_no_transaction_open(bench: Bench) {
    check(bench, async |store| {
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test("update probe set n = n + 1").await.unwrap();
        tx.commit().await.unwrap();
    })
    .await;
}

/// A role or a database may have another default than the statements rest on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_their_own_are_read_committed_whatever_the_default_is() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let settings =
        [("default_transaction_isolation", "serializable"), ("default_transaction_read_only", "on")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let server = PrivatePostgres::start(&PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
    let options = StoreOptions { connect_timeout: Duration::from_secs(30), ..StoreOptions::default() };
    let store = Store::open(server.url("postgres").parse().unwrap(), &options).await.unwrap();

    let mut tx = store.alone().await.unwrap();
    tx.execute_for_test("create table probe (n integer)").await.unwrap();
    let connection = tx.postgres().unwrap();
    let isolation: String = sqlx::query_scalar("select current_setting('transaction_isolation')")
        .fetch_one(connection)
        .await
        .unwrap();

    assert_eq!(isolation, "read committed");
}
