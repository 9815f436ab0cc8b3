//! Alerts: signals are observed, rules are judged, people are told.
//!
//! Any number of processes may run this; the one that has the watch, which is a lease, does the work, and another
//! takes over when it dies. State, silences and undelivered notices are in the database; only the samples of the
//! windows are not, so that after a take-over averages begin anew while "for" goes on counting.
//!
//! Reading order: [`signal`] (what can be seen), [`evaluator`] (what it means), [`message`] (what people are told),
//! [`channel`] and [`deliverer`] (how it reaches them), [`signature`] (how a receiver knows that it was us),
//! [`sns`] (a form that other receivers know).

pub mod channel;
pub mod deliverer;
pub mod evaluator;
pub mod message;
pub mod rules;
pub mod signal;
pub mod signature;
pub mod sns;

pub use channel::{Channel, Delivering, DeliveryError, LogChannel};
pub use deliverer::{Delivered, Deliverer};
pub use evaluator::{Evaluated, Evaluator};
pub use message::{Announcement, Message, Watched};
pub use rules::default_rules;
pub use signal::{Observation, Observing, Signal};

use crate::error::EngineError;
use crate::lease::{HeldLease, Leader, until_lost};
use crate::process::Process;
use crate::service::{Next, Service};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Rule;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_domain::time::Clock;
use tidemill_store::alert::ALERT_DELIVERY;

pub const EVALUATION_PAUSE: Duration = Duration::from_secs(5);

pub(crate) const WATCH_PAUSE: Duration = Duration::from_secs(3);

/// Pause between two looks for notices that are due, unless a wake-up comes first.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);

fn watch_key() -> LeaseKey {
    LeaseKey::new("alert", "evaluator").expect("kind and name are short and plain")
}

/// Asks for the watch, which is the right to judge alerts and to deliver their notices;
/// [`EngineError::LeaseHeld`] when somebody else has it.
pub async fn take_watch(process: &Process) -> Result<HeldLease, EngineError> {
    process.acquire(&watch_key(), Term::Process).await
}

/// Rules, signals and channels that fit together.
#[derive(Debug)]
pub struct Alerting {
    pub evaluator: Evaluator,
    pub deliverer: Deliverer,
}

/// Rules, signals and channels that do not fit together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAlerting {
    #[error("the alert rule {rule} watches the signal {signal}, which nobody observes")]
    UnknownSignal { rule: String, signal: String },
    #[error("the alert rule {rule} tells the channel {channel}, which is not there")]
    UnknownChannel { rule: String, channel: String },
    #[error("there are two alert rules, signals or channels of the name {name}")]
    SameName { name: String },
}

impl Alerting {
    /// Checks that every rule has its signal and its channels.
    pub fn new(
        rules: Vec<Rule>,
        signals: Vec<Box<dyn Signal>>,
        channels: Vec<Arc<dyn Channel>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BadAlerting> {
        once(rules.iter().map(Rule::name))?;
        once(signals.iter().map(|signal| signal.name()))?;
        once(channels.iter().map(|channel| channel.name()))?;
        for rule in &rules {
            if signals.iter().all(|signal| signal.name() != rule.signal()) {
                let (rule, signal) = (rule.name().to_owned(), rule.signal().to_owned());
                return Err(BadAlerting::UnknownSignal { rule, signal });
            }
            let is_there = |name: &&String| channels.iter().any(|channel| channel.name() == name.as_str());
            if let Some(channel) = rule.channels().iter().find(|name| !is_there(name)) {
                let (rule, channel) = (rule.name().to_owned(), channel.clone());
                return Err(BadAlerting::UnknownChannel { rule, channel });
            }
        }
        Ok(Self { evaluator: Evaluator::new(rules, signals, clock), deliverer: Deliverer::new(channels) })
    }

    /// Keeps the watch whenever it can be had, until `process` ends.
    #[crate::boxed]
    pub async fn run(mut self, process: Process) {
        let mut leader = Leader::new(&process, watch_key(), WATCH_PAUSE);
        while let Some(watch) = leader.lease().await {
            tracing::info!(process.id = %process.id(), "process {} has the watch over alerts", process.id());
            // Side by side: a slow receiver holds up no evaluation.
            tokio::select! {
                () = watch.lost() => {}
                () = evaluate(&mut self.evaluator, &watch) => {}
                () = deliver(&self.deliverer, &watch) => {}
            }
        }
    }
}

async fn evaluate(evaluator: &mut Evaluator, watch: &HeldLease) {
    let mut service = Service::new("evaluating alerts", EVALUATION_PAUSE);
    while service.is_due().await {
        service.ended(until_lost(evaluator.run_once(watch).await.map(drop)));
    }
}

async fn deliver(deliverer: &Deliverer, watch: &HeldLease) {
    let queued = watch.process().store().wakeup(ALERT_DELIVERY);
    let mut service = Service::new("delivering notices of alerts", DELIVERY_PAUSE).wake_by(queued);
    while service.is_due().await {
        let done = deliverer.run_once(watch).await;
        service.ended(until_lost(
            done.map(|done| if done.is_full() { Next::In(Duration::ZERO) } else { Next::Rest }),
        ));
    }
}

fn once<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), BadAlerting> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(BadAlerting::SameName { name: name.to_owned() });
        }
    }
    Ok(())
}
