//! Alerts: signals are sampled, rules are evaluated, notices are delivered.
//!
//! Any number of processes may run this. The one that holds the lease `alert/evaluator` does the work; another takes
//! over when it dies. State, silences and undelivered notices are in the database. Samples of the windows are in
//! memory, so averages start again after a takeover, while "for" keeps counting.

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

use crate::{HeldLease, Leader, Next, Process, Service, until_lost};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Rule;
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::time::Clock;
use tidemill_store::alert::ALERT_DELIVERY;

pub const EVALUATION_PAUSE: Duration = Duration::from_secs(5);

pub(crate) const WATCH_PAUSE: Duration = Duration::from_secs(3);

/// Longest pause before the next delivery round; a wake-up ends it early.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Alerting {
    pub evaluator: Evaluator,
    pub deliverer: Deliverer,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAlerting {
    #[error("the alert rule {rule} watches the signal {signal}, which does not exist")]
    UnknownSignal { rule: String, signal: String },
    #[error("the alert rule {rule} tells the channel {channel}, which is not there")]
    UnknownChannel { rule: String, channel: String },
    #[error("there are two alert rules, signals or channels of the name {name}")]
    SameName { name: String },
}

impl Alerting {
    /// Checks that the signal and the channels of each rule exist.
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
        let evaluator = Evaluator { rules, signals, clock, windows: HashMap::new(), turns: 0 };
        Ok(Self { evaluator, deliverer: Deliverer { channels } })
    }

    /// Evaluates and delivers whenever this process gets the lease, until `process` ends.
    #[crate::boxed]
    pub async fn run(mut self, process: Process) {
        let key = LeaseKey::new("alert", "evaluator").expect("kind and name are short and plain");
        let mut leader = Leader::new(&process, key, WATCH_PAUSE);
        while let Some(watch) = leader.lease().await {
            tracing::info!(process.id = %process.id(), "process {} has the watch over alerts", process.id());
            // Concurrently, so that a slow receiver does not delay evaluation.
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
        let next = |done: Delivered| if done.is_full() { Next::In(Duration::ZERO) } else { Next::Rest };
        service.ended(until_lost(done.map(next)));
    }
}

fn once<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), BadAlerting> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => Err(BadAlerting::SameName { name: name.to_owned() }),
        None => Ok(()),
    }
}
