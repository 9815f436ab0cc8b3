//! The loops, on a real database with a clock that the test moves; and, where time must be real, on a server of
//! the test's own.
#![cfg(test)]

mod alert;
mod item;
mod job;
mod keeper;
mod lease;
mod metering;
mod on_demand;
mod outage;
mod outbox;
mod pool;
mod probe;
mod render;
mod schedule;

use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::process::Identity;
use tidemill_domain::time::FakeClock;
use tidemill_engine::{Process, ProcessOptions};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

const TTL: Duration = Duration::from_secs(15);

/// Far longer than anything here takes, so that a hang is seen.
const SOON: Duration = Duration::from_secs(120);

struct Bench {
    store: Store,
    clock: Arc<FakeClock>,
    _scratch: Scratch,
}

impl Bench {
    async fn new() -> Self {
        let scratch = Scratch::memory();
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        Self { store, clock, _scratch: scratch }
    }

    async fn process(&self, name: &str) -> Process {
        Process::register(self.store.clone(), self.clock.clone(), options(name, TTL)).await.unwrap()
    }
}

fn options(name: &str, ttl: Duration) -> ProcessOptions {
    let identity = Identity { name: name.into(), host: "host".into(), pid: 7, version: "0.1.0".into() };
    ProcessOptions { identity, ttl }
}

/// Waits until something is so, by the host's clock; fails with what was waited for.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, looking).await.expect(what);
}

fn key(name: &str) -> LeaseKey {
    LeaseKey::new("test", name).unwrap()
}
