//! Our side: relays that are at rest when the events are committed, and are told so, as by a writer that uses our API.

use super::broker::Broker;
use super::{INSTANCES, Measured};
use crate::outbox::ours::{Beat, Running, until_shared};
use crate::outbox::stage::{AT_LAST, Stage};
use anyhow::{Context, Result};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_kafka::Topics;

/// Between two looks at how far the relays are.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn run(
    stage: &mut Stage,
    broker: &Broker,
    topics: &Topics,
    events: u64,
) -> Result<Measured> {
    stage.empty_ours().await?;
    let mut relays = Vec::new();
    for _ in 0..INSTANCES {
        relays.push(Running::start(&stage.url, broker.publisher(topics)?, Beat::None).await?);
    }
    until_shared(stage, INSTANCES).await?;
    let loaded = stage.load_held(events).await?;
    let counting = stage.begin_counting().await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    loaded.commit().await?;
    let ended = async {
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
