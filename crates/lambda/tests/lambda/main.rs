//! The function in AWS's own emulator of Lambda, on a real PostgreSQL.
#![cfg(test)]

mod emulator;
mod frozen;
mod guide;
mod http;
mod invoke;
mod killed;
mod outage;
mod program;

use emulator::Emulator;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions};
use tidemill_testkit::skip;

/// The program that Lambda starts.
const BOOTSTRAP: &str = env!("CARGO_BIN_EXE_bootstrap");

/// The timeout of the function, in seconds, where it does not matter.
const LONG: u32 = 300;

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The emulator; none when its tests are skipped.
fn emulator() -> Option<PathBuf> {
    skip::require("lambda", std::env::var_os("TIDEMILL_TEST_LAMBDA_EMULATOR")).map(PathBuf::from)
}

/// A database with the pool of the document. One connection, which is the only one besides those of the function.
struct Site {
    emulator: PathBuf,
    scratch: Scratch,
    store: Store,
}

impl Site {
    async fn new() -> Option<Self> {
        Self::holding(Duration::from_secs(86_400)).await
    }

    /// Where a holder that is silent keeps its units for this long.
    async fn holding(max_hold: Duration) -> Option<Self> {
        let emulator = emulator()?;
        let scratch = Scratch::postgres_with_schema().await?;
        let options = StoreOptions { max_connections: 1, ..StoreOptions::default() };
        let store = Store::open(scratch.url().parse().unwrap(), &options).await.unwrap();
        let settings = Settings { external_id: Some(4), max_hold, ..Settings::new(pool(), 1000) };
        let mut tx = store.begin().await.unwrap();
        tx.pools().create(&settings, &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
        Some(Self { emulator, scratch, store })
    }

    fn start(&self, timeout: u32) -> Emulator {
        Emulator::start(&self.emulator, timeout, &[("TIDEMILL_DATABASE_URL", self.scratch.url())])
    }

    async fn usage(&self) -> u64 {
        let mut tx = self.store.read().await.unwrap();
        let usage = tx.pools().find(&pool()).await.unwrap().unwrap().usage;
        tx.rollback().await.unwrap();
        usage
    }
}

fn pool() -> PoolName {
    "ADW".parse().unwrap()
}

/// The request of the document.
fn acquire(run: &str, parallel: u32) -> Value {
    json!({
        "action": "acquire",
        "dag_id": "batch_001",
        "dag_run_id": run,
        "src_db_id": 4,
        "parallel_hint": parallel,
        "table_name": "SALES_ORDER",
    })
}

/// The same. Its number is a text, as its template makes it.
fn release(run: &str) -> Value {
    json!({ "action": "release", "dag_id": "batch_001", "dag_run_id": run, "src_db_id": "4" })
}
