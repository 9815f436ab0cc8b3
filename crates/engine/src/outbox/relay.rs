//! A relay: joins, takes its share of the slots, reads new events, publishes them, and saves its position.
//!
//! It acts only while its own monotonic clock says that its lease is valid. If it cannot renew in time, or others have
//! retired it, it drops everything and joins again as another relay.

mod attached;
mod batch;
mod effort;
mod group;
mod member;
mod retry;
mod sink;
mod slots;

use super::{KeeperOptions, Publisher, SinkRefusal};
use crate::{metrics, pause_after};
use member::{EndReason, Member};
use sink::SinkDown;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::error_chain::ErrorChain;
use tidemill_domain::outbox::failed_event::RetryPolicy;
use tidemill_domain::outbox::relay::transactional_id;
use tidemill_domain::outbox::{Instance, JoinRefusal, Unit};
use tidemill_domain::process::{Identity, ProcessId};
use tidemill_domain::time::Clock;
use tidemill_store::{Store, StoreError};
use tokio::sync::watch;

/// Log target of the line for each batch of a fixed share. Shown by default, unless only errors are logged.
pub const BATCHES: &str = "tidemill::batches";

#[derive(Clone, Debug)]
pub struct RelayOptions {
    pub process: ProcessId,
    pub identity: Identity,
    /// Its fixed share; without one, slots are shared evenly.
    pub instance: Option<Instance>,
    /// Time after which other relays take over from one that died.
    pub lease: Duration,
    /// Maximum number of events read and published at once.
    pub batch: NonZeroU32,
    /// Number of concurrent publications of one batch, each for its own slots.
    pub senders: usize,
    pub timeout: Duration,
    pub retry: RetryPolicy,
    /// Longest pause between two polls.
    pub poll: Duration,
    pub initial_delay: Duration,
    /// A batch that takes longer is logged as a warning.
    pub slow: Duration,
    pub keeper: KeeperOptions,
}

impl RelayOptions {
    pub fn new(process: ProcessId, identity: Identity, retry: RetryPolicy) -> Self {
        Self {
            process,
            identity,
            instance: None,
            lease: Duration::from_secs(5),
            batch: NonZeroU32::new(500).unwrap_or(NonZeroU32::MIN),
            senders: 1,
            timeout: Duration::from_secs(10),
            retry,
            poll: Duration::from_secs(1),
            initial_delay: Duration::ZERO,
            slow: Duration::from_secs(3),
            keeper: KeeperOptions::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    #[error("this relay may not join: {0}")]
    Refused(#[from] JoinRefusal),
    #[error("the reader of {sink} is gone; unpublished events wait in the outbox")]
    SinkGone { sink: String },
    #[error("{sink} does not take events of this outbox: {}", .refusal.what)]
    SinkRefused { sink: String, refusal: SinkRefusal },
}

impl RelayError {
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(_) => Code::RelayRefused,
            Self::SinkGone { .. } => Code::SinkGone,
            Self::SinkRefused { refusal, .. } => refusal.code,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.fix().to_owned(),
            Self::SinkGone { .. } => "start the relay again with a reader that stays".to_owned(),
            Self::SinkRefused { refusal, .. } => refusal.fix.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Relay {
    store: Store,
    clock: Arc<dyn Clock>,
    publisher: Arc<dyn Publisher>,
    /// Publisher for attached tables.
    beside: Arc<dyn Publisher>,
    /// What is shared among relays.
    unit: Unit,
    options: RelayOptions,
    /// Recent warnings about the sink; kept when it joins again.
    warnings: Arc<sink::RecentWarnings>,
}

impl Relay {
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        publisher: Arc<dyn Publisher>,
        options: RelayOptions,
    ) -> Self {
        let beside = publisher.beside().unwrap_or_else(|| publisher.clone());
        let unit = if transactional_id(&publisher.name()).is_some() { Unit::Group } else { Unit::Slot };
        Self { store, clock, publisher, beside, unit, options, warnings: Arc::default() }
    }

    /// Publishes until told to stop, then finishes the current batch and releases its slots. All other failures are
    /// retried.
    #[crate::boxed]
    pub async fn run(&self, mut stop: watch::Receiver<bool>) -> Result<(), RelayError> {
        tokio::select! {
            () = tokio::time::sleep(self.options.initial_delay) => {}
            _told = stop.wait_for(|stop| *stop) => return Ok(()),
        }
        let (mut failures, mut steps_aside) = (0_u32, 0_u32);
        let mut refused_since = None;
        while !*stop.borrow() {
            let wait = match Member::join(self).await {
                Ok(Ok(mut member)) => {
                    (failures, refused_since) = (0, None);
                    let ended = member.work(&mut stop).await.err().unwrap_or(EndReason::Stopped);
                    member.end(ended).await;
                    match ended {
                        EndReason::Stopped => return Ok(()),
                        EndReason::SinkGone => {
                            return Err(RelayError::SinkGone { sink: self.publisher.name() });
                        }
                        EndReason::Refused => {
                            let sink = self.publisher.name();
                            let Some(refusal) = member.refusal.take() else { continue };
                            return Err(RelayError::SinkRefused { sink, refusal });
                        }
                        // Two relays that oust each other should not do so in a tight loop.
                        EndReason::Ousted => short_pause(4),
                        EndReason::Aside => {
                            steps_aside =
                                if member.has_published { 1 } else { steps_aside.saturating_add(1) };
                            pause_after(steps_aside, self.options.lease * 2, self.options.lease * 12)
                        }
                        EndReason::Lapsed | EndReason::Fenced | EndReason::Moved => Duration::ZERO,
                    }
                }
                // A relay that was killed and restarted is refused until its old lease has expired.
                Ok(Err(refusal)) => {
                    let now = self.clock.monotonic();
                    let since = *refused_since.get_or_insert(now);
                    if now.since(since) > self.options.lease + Duration::from_secs(1) {
                        metrics::outbox_joins_refused().increment(1);
                        return Err(refusal.into());
                    }
                    short_pause(4)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    warn(&error, "the relay could not join");
                    short_pause(failures)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _told = stop.wait_for(|stop| *stop) => return Ok(()),
            }
        }
        Ok(())
    }
}

fn short_pause(failures: u32) -> Duration {
    pause_after(failures, Duration::from_millis(25), Duration::from_secs(1))
}

fn warn(error: &StoreError, what: &str) {
    tracing::warn!(error = %ErrorChain(error), "{what}; will try again");
}
