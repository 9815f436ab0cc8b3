//! Every feature of the store, on both databases. One file per noun; each test runs once on SQLite and once on
//! PostgreSQL, under the same name.
#![cfg(test)]

use sqlx::Connection;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::process::{Identity, ProcessId};
use tidemill_domain::time::{Clock, FakeClock, Timestamp};
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;
use tidemill_store::{Store, Tx};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Declares tests for both databases; each is an `async fn name(bench: Bench)`.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::Bench::sqlite().await).await })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(bench) = $crate::Bench::postgres().await { super::$name(bench).await }
            })+
        }
    };
}

mod alert;
mod audit;
mod cancel;
mod connect;
mod demo;
mod dice;
mod event_recorder;
mod foundation_plan;
mod inbox;
mod item;
mod job;
mod lease;
mod lease_model;
mod migration;
mod oracle;
mod outbox;
mod plan;
mod pool;
mod pooler;
mod process;
mod read;
mod render;
mod schedule;
mod step_back;
mod token;
mod wakeup;

/// An empty database with its schema, and a clock that the test moves.
struct Bench {
    store: Store,
    clock: Arc<FakeClock>,
    scratch: Scratch,
}

/// The lease of a process in these tests.
const TTL: Duration = Duration::from_secs(15);

/// Far longer than anything here takes, so that a hang is seen.
const SOON: Duration = Duration::from_secs(120);

impl Bench {
    async fn sqlite() -> Self {
        Self::on(Scratch::file()).await
    }

    async fn postgres() -> Option<Self> {
        event_recorder::prepare();
        Some(Self::on(Scratch::postgres_with_schema().await?).await)
    }

    async fn on(scratch: Scratch) -> Self {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        Self { store, clock, scratch }
    }

    async fn begin(&self) -> Tx {
        self.store.begin().await.unwrap()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    /// Sets the clock back, as an administrator or a time server does.
    fn set_back(&self, step: Duration) {
        self.clock.jump_to(self.now().minus(step));
    }

    async fn execute(&self, sql: &str) {
        let mut tx = self.begin().await;
        tx.execute_for_test(sql).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// What the reaper does first in each round; how many leases were shortened.
    async fn shorten_leases(&self) -> u64 {
        let mut tx = self.begin().await;
        let count = tx.leases().shorten_leases().await.unwrap();
        tx.commit().await.unwrap();
        count
    }

    /// What the reaper does when the clock has gone back; how many waits were shortened.
    async fn shorten_waits(&self) -> u64 {
        let mut tx = self.begin().await;
        let count = tx.leases().shorten_waits().await.unwrap();
        tx.commit().await.unwrap();
        count
    }

    /// Waits until all of these wait for what an open transaction of the test has locked; fails when one of them goes
    /// on to its end instead. SQLite does not tell who waits, so there they are given the time to go on.
    async fn until_blocked<T>(&self, rivals: &[&JoinHandle<T>]) {
        let is_one_done = || rivals.iter().any(|rival| rival.is_finished());
        if self.store.dialect() == Dialect::Sqlite {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!is_one_done(), "somebody did not wait for the transaction that is open");
            return;
        }
        let mut connection = sqlx::PgConnection::connect(self.scratch.url()).await.unwrap();
        let looking = async {
            loop {
                let blocked: i64 = sqlx::query_scalar(
                    "select count(*)
                     from pg_stat_activity
                     where datname = current_database()
                       and backend_type = 'client backend'
                       and wait_event_type = 'Lock'",
                )
                .fetch_one(&mut connection)
                .await
                .unwrap();
                assert!(!is_one_done(), "somebody did not wait for the transaction that is open");
                if usize::try_from(blocked).unwrap() >= rivals.len() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, looking).await.expect("backends that wait for a lock");
    }

    /// Registers a process; `number` makes its id.
    async fn process(&self, number: u128) -> ProcessId {
        let id = process_id(number);
        let mut tx = self.begin().await;
        tx.processes().register(id, &identity(number), TTL).await.unwrap();
        tx.commit().await.unwrap();
        id
    }
}

fn process_id(number: u128) -> ProcessId {
    ProcessId::new(Uuid::from_u128(number))
}

fn identity(number: u128) -> Identity {
    Identity { name: format!("p{number}"), host: "host".into(), pid: 7, version: "0.1.0".into() }
}

fn key(name: &str) -> LeaseKey {
    LeaseKey::new("test", name).unwrap()
}
