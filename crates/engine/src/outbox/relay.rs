//! A relay: joins, takes its share of the slots, reads what is new, publishes it, and writes down how far it is.
//!
//! It acts on its lease only as long as it can be sure of it by its own monotonic clock. When it cannot renew in time,
//! or finds that others have given it up, it drops everything and joins again as another relay.

mod attached;
mod batch;
mod group;
mod member;
mod metrics;
mod retry;
mod sink;
mod slots;

use super::keeper::KeeperOptions;
use super::publisher::{Publisher, SinkRefusal};
use crate::clock::pause_after;
use member::{Ended, Member};
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

/// What the lines are logged under that tell of each batch of a fixed share. They are meant to be seen unless somebody
/// wants to see errors only.
pub const BATCHES: &str = "tidemill::batches";

#[derive(Clone, Debug)]
pub struct RelayOptions {
    pub process: ProcessId,
    pub identity: Identity,
    /// Its fixed share; none: it shares fairly with the others.
    pub instance: Option<Instance>,
    /// How long its word counts; the time after which others take over from a relay that died.
    pub lease: Duration,
    /// Most events that are read and published at once.
    pub batch: NonZeroU32,
    /// How many publications of one batch run side by side, each of its own slots.
    pub senders: usize,
    pub timeout: Duration,
    /// When an event that was refused is tried again.
    pub retry: RetryPolicy,
    /// Longest pause between two looks.
    pub poll: Duration,
    pub initial_delay: Duration,
    /// A batch that takes longer is worth a warning.
    pub slow: Duration,
    /// How the outbox is kept by the relay that has its first slot.
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
    #[error("nobody takes events from {sink} any more; what was not published waits in the outbox")]
    SinkGone { sink: String },
    #[error("{sink} does not take events of this outbox: {}", .refusal.what)]
    SinkRefused {
        sink: String,
        /// What is to be seen to.
        refusal: SinkRefusal,
    },
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
    /// Where records of attached tables go.
    beside: Arc<dyn Publisher>,
    /// What it shares with others.
    unit: Unit,
    options: RelayOptions,
    /// What was told of the sink lately; it outlasts a membership.
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

    /// Publishes until told to stop; then what is in hand is brought to its end and the slots are left for others.
    /// Whatever else goes wrong is tried again.
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
                    let ended = member.work(&mut stop).await;
                    member.end(ended).await;
                    match ended {
                        Ended::Stopped => return Ok(()),
                        Ended::SinkGone => return Err(RelayError::SinkGone { sink: self.publisher.name() }),
                        Ended::Refused => {
                            let sink = self.publisher.name();
                            let Some(refusal) = member.refusal.take() else { continue };
                            return Err(RelayError::SinkRefused { sink, refusal });
                        }
                        // Two that oust each other in turn are to be seen, and not to be in a hurry.
                        Ended::Ousted => short_pause(4),
                        Ended::Aside => {
                            steps_aside =
                                if member.has_published { 1 } else { steps_aside.saturating_add(1) };
                            pause_after(steps_aside, self.options.lease * 2, self.options.lease * 12)
                        }
                        Ended::Lapsed | Ended::Fenced | Ended::Moved => Duration::ZERO,
                    }
                }
                // Who was killed and started again meets itself, until its old lease has passed.
                Ok(Err(refusal)) => {
                    let now = self.clock.monotonic();
                    let since = *refused_since.get_or_insert(now);
                    if now.since(since) > self.options.lease + Duration::from_secs(1) {
                        metrics::join_refused();
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

pub(super) use metrics::describe;

/// How long to wait after so many failures in a row of what is soon tried again.
fn short_pause(failures: u32) -> Duration {
    pause_after(failures, Duration::from_millis(25), Duration::from_secs(1))
}

/// Warns of an error after which the same thing is tried again.
fn warn(error: &StoreError, what: &str) {
    tracing::warn!(error = %ErrorChain(error), "{what}; will try again");
}
