//! Our relays. They are idle when the events commit, and the commit wakes them, as that of a writer with our API does.

use super::broker::Broker;
use super::{INSTANCES, Measured};
use crate::outbox::ours::{Beat, Running, until_shared};
use crate::outbox::stage::{AT_LAST, Stage};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::outbox::Record;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::publisher::Publishing;
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_kafka::Topics;

/// The time between two checks of the relays' progress.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn run(
    stage: &mut Stage,
    broker: &Broker,
    topics: &Topics,
    events: u64,
) -> Result<Measured> {
    stage.empty_ours().await?;
    let delivered = Arc::new(AtomicU64::new(0));
    let mut relays = Vec::new();
    for _ in 0..INSTANCES {
        let counted = Counted { inner: broker.publisher(topics).await?, delivered: delivered.clone() };
        relays.push(Running::start(&stage.url, Arc::new(counted), Beat::None).await?);
    }
    until_shared(stage, INSTANCES).await?;
    let loaded = stage.load_held(events).await?;
    let counting = stage.begin_counting().await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    loaded.commit().await?;
    let ended = async {
        // Query the server only when the events have arrived, so that waiting does not affect the measurement.
        while delivered.load(Ordering::Relaxed) < events {
            tokio::time::sleep(PAUSE).await;
        }
        let acknowledged = "select coalesce(sum(published), 0) from tidemill_outbox_relay";
        while u64::try_from(stage.number(acknowledged).await?)? < events {
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(AT_LAST, ended).await.context("the relays do not come to an end")??;
    let seconds = clock.monotonic().since(begin).as_secs_f64();
    let (wal_bytes, queries) = stage.counted(&counting).await?;
    for relay in relays {
        relay.stop().await?;
    }
    let shares = stage.numbers("select published from tidemill_outbox_relay order by joined_at, id").await?;
    let shares = shares.into_iter().map(u64::try_from).collect::<Result<_, _>>()?;
    Ok(Measured { events, seconds, queries, wal_bytes, shares, disordered: 0 })
}

/// Counts the records that have arrived.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Publisher>,
    delivered: Arc<AtomicU64>,
}

impl Publisher for Counted {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(async move {
            let outcomes = self.inner.publish(records).await;
            let delivered = outcomes.iter().filter(|outcome| **outcome == Outcome::Delivered).count();
            self.delivered.fetch_add(delivered as u64, Ordering::Relaxed);
            outcomes
        })
    }
}
