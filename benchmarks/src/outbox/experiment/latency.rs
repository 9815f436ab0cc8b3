//! Measures the time from the commit of an event until Kafka has acknowledged it, at 2,000 events a second.

use super::INSTANCES;
use super::broker::Broker;
use crate::outbox::ours::{Beat, Running, until_shared};
use crate::outbox::stage::{AT_LAST, Stage};
use anyhow::{Context, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload, Record};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::publisher::Publishing;
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_store::{Store, StoreOptions};

const EVENTS_PER_SECOND: u64 = 2_000;

/// Events per transaction.
const AT_ONCE: u64 = 20;

/// Latencies in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Latency {
    pub(super) events: usize,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) worst: f64,
}

pub(super) async fn measure(stage: &mut Stage, broker: &Broker, seconds: u64) -> Result<Latency> {
    stage.empty_ours().await?;
    let topics = broker.make_topic()?;
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut relays = Vec::new();
    for _ in 0..INSTANCES {
        let timed = Timed {
            inner: broker.publisher(&topics).await?,
            clock: SystemClock::new(),
            taken: taken.clone(),
        };
        relays.push(Running::start(&stage.url, Arc::new(timed), Beat::Heart).await?);
    }
    until_shared(stage, INSTANCES).await?;
    let store = Store::open(stage.url.parse()?, &StoreOptions::default()).await?;
    let total = seconds * EVENTS_PER_SECOND;
    let mut ticks = tokio::time::interval(
        Duration::from_secs(1) * u32::try_from(AT_ONCE)? / u32::try_from(EVENTS_PER_SECOND)?,
    );
    for first in (0..total).step_by(usize::try_from(AT_ONCE)?) {
        ticks.tick().await;
        let events = (first..first + AT_ONCE).map(event).collect::<Result<Vec<_>>>()?;
        let mut tx = store.begin().await?;
        tx.publish_all(&events).await?;
        tx.commit().await?;
    }
    let all = async {
        while (taken.lock().unwrap_or_else(PoisonError::into_inner).len() as u64) < total {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(AT_LAST, all).await.context("the relays do not come to an end")?;
    for relay in relays {
        relay.stop().await?;
    }
    store.close().await;
    let mut taken = std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner));
    taken.sort_by(f64::total_cmp);
    let at = |share: f64| taken.get(((taken.len() - 1) as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    Ok(Latency { events: taken.len(), median: at(0.5), p99: at(0.99), worst: at(1.0) })
}

fn event(n: u64) -> Result<NewEvent> {
    let payload = Payload::Json(format!("{{\"transfer\":{n},\"memo\":\"{}\"}}", "m".repeat(250)));
    Ok(NewEvent::new("account", (n % 1_000).to_string(), "transfer.completed", "transfers", payload)?)
}

/// Stores the age of each record when it arrives. The age counts from the beginning of the transaction.
#[derive(Debug)]
struct Timed {
    inner: Arc<dyn Publisher>,
    clock: SystemClock,
    taken: Arc<Mutex<Vec<f64>>>,
}

impl Publisher for Timed {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(async move {
            let outcomes = self.inner.publish(records).await;
            let now = self.clock.now();
            let delivered =
                records.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Outcome::Delivered);
            let ages = delivered.map(|(record, _)| now.since(record.created_at).as_secs_f64() * 1_000.0);
            self.taken.lock().unwrap_or_else(PoisonError::into_inner).extend(ages);
            outcomes
        })
    }
}
