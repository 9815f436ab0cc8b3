//! A relay on PostgreSQL.

use super::broker::topic;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::failed_event::{RetryPolicy, StateWord};
use tidemill_domain::outbox::{EventId, NewEvent};
use tidemill_domain::process::Identity;
use tidemill_engine::outbox::Publisher;
use tidemill_engine::outbox::relay::{Relay, RelayError, RelayOptions};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::Store;
use tidemill_store::outbox::failed_event::FailedEventFilter;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::kafka::find_home;
use tidemill_testkit::skip::require;
use tidemill_testkit::{KafkaOptions, PrivateKafka};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Far longer than anything here takes, so that a hang is seen.
pub(super) const SOON: Duration = Duration::from_secs(180);

/// A database with an outbox.
pub(super) struct Site {
    scratch: Scratch,
    pub(super) store: Store,
}

impl Site {
    pub(super) async fn new() -> Option<Self> {
        let scratch = Scratch::postgres_with_schema().await?;
        let store = scratch.store(None).await.unwrap();
        Some(Self { scratch, store })
    }

    /// With a broker of its own that may be paused and killed, and a topic there with four partitions.
    pub(super) async fn with_broker() -> Option<(Self, PrivateKafka, String)> {
        let site = Self::new().await?;
        require("kafka", find_home())?;
        let kafka = PrivateKafka::start(&KafkaOptions::default()).unwrap();
        let name = topic(&kafka.bootstrap_servers(), 4, &[]).await;
        Some((site, kafka, name))
    }

    pub(super) async fn write(&self, events: &[NewEvent]) {
        let mut tx = self.store.begin().await.unwrap();
        tx.publish_all(events).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub(super) async fn relay(&self, publisher: Arc<dyn Publisher>) -> Running {
        let store = self.scratch.store(None).await.unwrap();
        let identity = Identity { name: "relay".into(), host: "mill".into(), pid: 7, version: "0".into() };
        let mut options = RelayOptions::new(SystemIds.process(), identity, RetryPolicy::standard().unwrap());
        options.batch = NonZeroU32::new(1_000).unwrap();
        // Longer than a publisher waits by itself, as in the program: otherwise nobody learns what has arrived.
        options.timeout = Duration::from_secs(60);
        // Nobody is killed here, and nobody loses it to a busy machine.
        options.lease = Duration::from_secs(600);
        let relay = Relay::new(store, Arc::new(SystemClock::new()), publisher, options);
        let (stop, stopped) = watch::channel(false);
        Running { stop, task: tokio::spawn(async move { relay.run(stopped).await }) }
    }

    /// Waits until the relays count so many events as published or failed.
    pub(super) async fn until_settled(&self, count: i64) {
        let reached = async {
            loop {
                let mut tx = self.store.read().await.unwrap();
                let places = tx.outbox().places().await.unwrap();
                tx.commit().await.unwrap();
                if places.iter().map(|place| place.seq.get()).sum::<i64>() >= count {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, reached).await.expect("all events are settled");
    }

    /// The states of what has failed, in the order of events.
    pub(super) async fn failed_events(&self) -> Vec<(EventId, StateWord, Option<String>)> {
        let mut tx = self.store.read().await.unwrap();
        let found =
            tx.outbox().failed_events(&FailedEventFilter::default(), EventId::ZERO, 100).await.unwrap();
        found.into_iter().map(|record| (record.id, record.failed_event.state.word(), record.error)).collect()
    }
}

/// A relay that runs.
pub(super) struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), RelayError>>,
}

impl Running {
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(SOON, self.task).await.expect("an end").unwrap().unwrap();
    }
}
