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
pub mod watch;

pub use channel::{Channel, Delivering, DeliveryError, LogChannel};
pub use deliverer::{Delivered, Deliverer};
pub use evaluator::{Evaluated, Evaluator};
pub use message::{Announcement, Message, Watched};
pub use rules::default_rules;
pub use signal::{Observation, Observing, Signal};
pub use watch::Watch;

use crate::clock::jittered;
use crate::error::EngineError;
use crate::process::Process;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Rule;
use tidemill_domain::time::Clock;
use tidemill_store::alert::ALERT_DELIVERY;
use tidemill_store::lease::freed_topic;

/// Pause between two looks at all signals.
pub const EVALUATION_PAUSE: Duration = Duration::from_secs(5);

/// Pause between two attempts to get the watch.
pub(crate) const WATCH_PAUSE: Duration = Duration::from_secs(3);

/// Pause between two looks for notices that are due, unless a wake-up comes first.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);

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
    /// A rule could never fire.
    #[error("the alert rule {rule} watches the signal {signal}, which nobody observes")]
    UnknownSignal { rule: String, signal: String },
    /// A rule could never be heard.
    #[error("the alert rule {rule} tells the channel {channel}, which is not there")]
    UnknownChannel { rule: String, channel: String },
    /// Two rules, signals or channels would be taken for each other.
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
    pub async fn run(mut self, process: Process) {
        // Registered before the first attempt, so that no release in between is missed.
        let mut freed = process.store().wakeup(&freed_topic(watch::KIND));
        loop {
            match Watch::take(&process).await {
                Ok(watch) => {
                    tracing::info!(process.id = %process.id(), "process {} has the watch over alerts", process.id());
                    self.keep(&process, &watch).await;
                }
                Err(EngineError::LeaseHeld { .. }) => {}
                Err(EngineError::ProcessExpired { .. }) => return,
                Err(error) => tracing::warn!(%error, "the watch over alerts was not had; will try again"),
            }
            tokio::select! {
                _ended = process.ended() => return,
                _woken = freed.wait(jittered(WATCH_PAUSE)) => {}
            }
        }
    }

    /// Evaluates and delivers side by side until the watch is lost: a slow receiver holds up no evaluation.
    async fn keep(&mut self, process: &Process, watch: &Watch) {
        tokio::select! {
            _ended = process.ended() => {}
            () = watch.lost() => {}
            () = evaluate(&mut self.evaluator, watch) => {}
            () = deliver(&self.deliverer, process, watch) => {}
        }
    }
}

async fn evaluate(evaluator: &mut Evaluator, watch: &Watch) {
    loop {
        match evaluator.run_once(watch).await {
            Ok(_) => {}
            Err(EngineError::LeaseLost { .. }) => return,
            Err(error) => tracing::warn!(%error, "evaluating alerts failed; will try again"),
        }
        tokio::time::sleep(jittered(EVALUATION_PAUSE)).await;
    }
}

async fn deliver(deliverer: &Deliverer, process: &Process, watch: &Watch) {
    let mut queued = process.store().wakeup(ALERT_DELIVERY);
    loop {
        match deliverer.run_once(watch).await {
            Ok(delivered) if delivered.is_full() => continue,
            Ok(_) => {}
            Err(EngineError::LeaseLost { .. }) => return,
            Err(error) => tracing::warn!(%error, "delivering notices of alerts failed; will try again"),
        }
        queued.wait(jittered(DELIVERY_PAUSE)).await;
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
