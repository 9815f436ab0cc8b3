//! Our relays. Their sink is closed until they have their slots and the events are loaded.

use super::case::{BATCH, Case, Measured};
use super::stage::{AT_LAST, Stage};
use anyhow::{Context, Result, ensure};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::outbox::Record;
use tidemill_domain::outbox::failed_event::RetryPolicy;
use tidemill_domain::process::Identity;
use tidemill_domain::time::Clock;
use tidemill_engine::outbox::publisher::Publishing;
use tidemill_engine::outbox::relay::{Relay, RelayError, RelayOptions};
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_engine::{Process, ProcessOptions, SystemClock, SystemIds};
use tidemill_store::{Store, StoreOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The time between two checks of the relays' progress.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn run(stage: &mut Stage, case: Case, events: u64) -> Result<Measured> {
    stage.empty_ours().await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    let gate = Gate::new();
    let mut relays = Vec::new();
    for _ in 0..case.relays {
        relays.push(Running::start(&stage.url, Arc::new(gate.clone()), Beat::Heart).await?);
    }
    until_shared(stage, case.relays).await?;
    let joining_seconds = clock.monotonic().since(begin).as_secs_f64();
    stage.load("outbox_event", 1, events).await?;
    stage.tidy("outbox_event").await?;
    until_shared(stage, case.relays).await?;

    let pin = stage.pin(case).await?;
    let counting = stage.begin_counting().await?;
    let begin = clock.monotonic();
    gate.open.send_replace(true);
    tokio::time::timeout(AT_LAST, until_acknowledged(stage, &gate, events))
        .await
        .context("the relays do not come to an end")??;
    let seconds = clock.monotonic().since(begin).as_secs_f64();
    let (wal_bytes, statements) = stage.counted(&counting).await?;
    if let Some(pin) = pin {
        pin.release().await?;
    }
    for relay in relays {
        relay.stop().await?;
    }
    let published = gate.published.load(Ordering::Relaxed);
    ensure!(published == events, "{published} events were published instead of {events}");
    let dead = stage.dead("outbox_event").await?;
    Ok(Measured { events, seconds, joining_seconds, wal_bytes, dead, statements })
}

/// Whether each relay has its share: their numbers of slots differ by at most one.
pub(super) async fn until_shared(stage: &mut Stage, relays: u32) -> Result<()> {
    let shared = format!(
        "select (count(*) = {relays} and sum(slots) = 256 and max(slots) - min(slots) <= 1)::int
         from (select count(*) as slots from tidemill_outbox_slot where owner is not null group by owner) owned"
    );
    let sharing = async {
        while stage.number(&format!("coalesce(({shared}), 0)")).await? == 0 {
            tokio::time::sleep(PAUSE * 10).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(AT_LAST, sharing).await.context("the relays do not share the slots")?
}

/// Queries the server only when the sink has received everything, so that waiting does not affect the measurement.
async fn until_acknowledged(stage: &mut Stage, gate: &Gate, events: u64) -> Result<()> {
    while gate.published.load(Ordering::Relaxed) < events {
        tokio::time::sleep(PAUSE).await;
    }
    let acknowledged = "select coalesce(sum(published), 0) from tidemill_outbox_relay";
    while u64::try_from(stage.number(acknowledged).await?)? < events {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// A sink that discards its records, once it is open.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    pub(super) open: watch::Sender<bool>,
    published: Arc<AtomicU64>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { open: watch::Sender::new(false), published: Arc::default() }
    }
}

impl Publisher for Gate {
    fn name(&self) -> String {
        "null".to_owned()
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(async move {
            if self.open.subscribe().wait_for(|open| *open).await.is_err() {
                return vec![Outcome::Unavailable { why: "the gate is gone".to_owned() }; records.len()];
            }
            self.published.fetch_add(records.len() as u64, Ordering::Relaxed);
            vec![Outcome::Delivered; records.len()]
        })
    }
}

/// Whether the process of a relay sends heartbeats, as it does outside of measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beat {
    Heart,
    None,
}

/// A relay with its own connections.
pub(super) struct Running {
    store: Store,
    process: Option<Process>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), RelayError>>,
}

impl Running {
    pub(super) async fn start(url: &str, publisher: Arc<dyn Publisher>, beat: Beat) -> Result<Self> {
        let store = Store::open(url.parse()?, &StoreOptions::default()).await?;
        let clock = Arc::new(SystemClock::new());
        let pid = std::process::id();
        let identity = Identity { name: "bench".into(), host: "bench".into(), pid, version: "0".into() };
        let process = match beat {
            Beat::None => None,
            Beat::Heart => {
                let options = ProcessOptions { identity: identity.clone(), ttl: Duration::from_secs(15) };
                Some(Process::start(store.clone(), clock.clone(), options).await?)
            }
        };
        let id = process.as_ref().map_or_else(|| SystemIds.process(), Process::id);
        let mut options = RelayOptions::new(id, identity, RetryPolicy::standard()?);
        options.batch = NonZeroU32::new(BATCH).context("a batch has rows")?;
        // The sink is closed until the events are loaded. That is not a failure.
        options.timeout = AT_LAST;
        let relay = Relay::new(store.clone(), clock, publisher, options);
        let (stop, told) = watch::channel(false);
        Ok(Self { store, process, stop, task: tokio::spawn(async move { relay.run(told).await }) })
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.stop.send_replace(true);
        self.task.await??;
        if let Some(process) = self.process {
            process.stop().await?;
        }
        self.store.close().await;
        Ok(())
    }
}
