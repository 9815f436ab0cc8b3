//! Between two calls Lambda freezes the function, and its connection may die without a sign.

use crate::emulator::{Emulator, signal};
use crate::{LONG, Site, acquire, release};
use serde_json::json;
use std::time::Duration;
use tidemill_store::sqlx;
use tidemill_testkit::CommitProxy;

/// A process that is frozen until the end of this value.
struct Frozen(i32);

impl Frozen {
    fn new(process: i32) -> Self {
        signal("-STOP", process);
        Self(process)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

/// Ends all connections to the database but our own. Their number.
async fn end_connections(site: &Site) -> i64 {
    let mut tx = site.store.read().await.unwrap();
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'";
    let ended = sqlx::query_scalar(sql).fetch_one(tx.postgres().unwrap()).await.unwrap();
    tx.rollback().await.unwrap();
    ended
}

/// How many transactions on the database wait for their client.
async fn open_transactions(site: &Site) -> i64 {
    let mut tx = site.store.read().await.unwrap();
    let sql = "select count(*) from pg_stat_activity
               where datname = current_database() and state like 'idle in transaction%'";
    let open = sqlx::query_scalar(sql).fetch_one(tx.postgres().unwrap()).await.unwrap();
    tx.rollback().await.unwrap();
    open
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let Some(site) = Site::new().await else { return };
    let emulator = site.start(LONG);
    assert_eq!(emulator.invoke(&acquire("run-1", 8))["allowed"], true);

    let frozen = Frozen::new(emulator.function());
    assert_eq!(open_transactions(&site).await, 0);
    assert_eq!(end_connections(&site).await, 1, "the function has one connection");
    drop(frozen);
    let released = emulator.invoke(&release("run-1"));

    assert_eq!(released["released_connections"], 8, "{released}\n{}", emulator.log());
}

/// With a network between the function and the database.
fn start_behind_proxy(site: &Site) -> (CommitProxy, Emulator) {
    let proxy = CommitProxy::in_front_of(site.scratch.url()).unwrap();
    let emulator = Emulator::start(&site.emulator, LONG, &[("TIDEMILL_DATABASE_URL", proxy.url())]);
    (proxy, emulator)
}

#[tokio::test]
async fn a_connection_that_the_network_has_forgotten_is_replaced() {
    let Some(site) = Site::new().await else { return };
    let (proxy, emulator) = start_behind_proxy(&site);
    assert_eq!(emulator.invoke(&acquire("run-1", 8))["allowed"], true);

    proxy.hang();
    let released = emulator.invoke(&release("run-1"));

    assert_eq!(released["released_connections"], 8, "{released}\n{}", emulator.log());
}

#[tokio::test]
async fn a_function_that_is_not_called_does_nothing() {
    let Some(site) = Site::new().await else { return };
    let (proxy, emulator) = start_behind_proxy(&site);
    assert_eq!(emulator.invoke(&acquire("run-1", 8))["allowed"], true);

    let before = proxy.statements();
    // A server would look after its pools every two seconds, with several statements.
    tokio::time::sleep(Duration::from_secs(7)).await;
    let idle = proxy.statements() - before;
    let status = emulator.invoke(&json!({ "action": "status" }));

    assert!(idle <= 1, "{idle} statements");
    assert!(proxy.statements() > before + idle && status["sources"]["4"]["current_usage"] == 8, "{status}");
}
