//! Jobs through the API that authors use, on both databases.

mod chunk;
mod chunk_vector;
pub(crate) mod command;
mod flow;
mod flow_vector;
mod gate;
mod ghost;
mod launch_vector;
mod limit;
mod outbox;
mod partition;
mod partition_elsewhere;
mod place;
mod pool;
mod purge;
mod recovery;
mod round_trip;
mod scan;
mod spark;
mod spring;
mod sql_step;
mod stop;
mod threads;
mod tolerance;

use std::sync::Arc;
use tidemill_domain::time::FakeClock;
use tidemill_engine::testing::JobBench;
use tidemill_store::scratch::Scratch;

/// A bench on a scratch database.
pub(crate) struct Stand {
    pub(crate) bench: JobBench,
    pub(crate) clock: Arc<FakeClock>,
    _scratch: Scratch,
}

impl Stand {
    pub(crate) async fn on(scratch: Scratch) -> Self {
        Self::of(scratch, Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()))).await
    }

    async fn with_clock(clock: Arc<FakeClock>) -> Self {
        Self::of(Scratch::file(), clock).await
    }

    async fn of(scratch: Scratch, clock: Arc<FakeClock>) -> Self {
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        let bench = JobBench::with_lease(store, clock.clone(), crate::TTL).await.unwrap();
        Self { bench, clock, _scratch: scratch }
    }
}
