//! Every feature of the store, on both databases. One file per noun; each test runs once on SQLite and once on
//! PostgreSQL, under the same name.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::process::{Identity, ProcessId};
use tidemill_domain::time::{Clock, FakeClock, Timestamp};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, Tx};
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
mod connect;
mod demo;
mod dice;
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
mod token;
mod told;
mod wakeup;

/// An empty database with its schema, and a clock that the test moves.
struct Bench {
    store: Store,
    clock: Arc<FakeClock>,
    scratch: Scratch,
}

/// The lease of a process in these tests.
const TTL: Duration = Duration::from_secs(15);

impl Bench {
    async fn sqlite() -> Self {
        Self::on(Scratch::file()).await
    }

    async fn postgres() -> Option<Self> {
        Some(Self::on(Scratch::postgres().await?).await)
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

    /// Registers a process; `number` makes its id.
    async fn process(&self, number: u128) -> ProcessId {
        let id = process_id(number);
        let mut tx = self.begin().await;
        tx.register_process(id, &identity(number), TTL).await.unwrap();
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
