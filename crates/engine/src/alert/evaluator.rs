//! Evaluating the rules: samples every signal, turns samples into readings, and lets the store decide.

use super::{Announcement, Observation, Signal};
use crate::{EngineError, HeldLease, metrics};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::window::Window;
use tidemill_domain::alert::{Notice, Reading, Rule, Severity, Subject, window};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::alert::{AlertRecord, Judgement, Judging};

const SUBJECTS_MAX: usize = 1000;

const OPEN_MAX: u32 = 10_000;

const OBSERVING_MAX: Duration = Duration::from_secs(10);

/// Old rows are pruned every 720 rounds, about once an hour.
const TURNS_BETWEEN_PRUNING: u32 = 720;

const KEEP_ENDED: Duration = Duration::from_secs(30 * 24 * 3600);

const PRUNED_MAX: u32 = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evaluated {
    pub fired: usize,
    pub resolved: usize,
    pub unobserved: usize,
}

#[derive(Debug)]
pub struct Evaluator {
    pub(super) rules: Vec<Rule>,
    pub(super) signals: Vec<Box<dyn Signal>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) windows: HashMap<(String, Subject), Window>,
    pub(super) turns: u32,
}

/// Observations by signal name; none if observing failed.
type Observations = HashMap<&'static str, Option<Vec<Observation>>>;

type Readings = BTreeMap<(String, Subject), Reading>;

impl Evaluator {
    #[crate::boxed]
    pub async fn run_once(&mut self, watch: &HeldLease) -> Result<Evaluated, EngineError> {
        watch.check()?;
        let seen = self.observe(watch).await;
        let mut readings = self.read(&seen, self.clock.monotonic());
        let open = watch.process().store().read().await?.alerts().open(OPEN_MAX).await?;
        self.add_missing(&mut readings, &open, &seen);
        let open: HashMap<(String, Subject), Severity> =
            open.into_iter().map(|record| ((record.rule, record.subject), record.severity)).collect();
        readings.retain(|key, reading| matches!(reading, Reading::Breached(_)) || open.contains_key(key));
        let mut done = Evaluated {
            unobserved: seen.values().filter(|observations| observations.is_none()).count(),
            ..Evaluated::default()
        };
        for (key, reading) in readings {
            let severity = open.get(&key).copied().unwrap_or(Severity::Info);
            let detail = self.detail(&seen, &key.0, &key.1);
            match self.judge(watch, (&key.0, &key.1), reading, severity, detail).await? {
                Some(Notice::Fired) => done.fired += 1,
                Some(Notice::Resolved) => done.resolved += 1,
                None => {}
            }
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_BETWEEN_PRUNING) {
            let mut tx = watch.begin().await?;
            tx.alerts().prune(KEEP_ENDED, PRUNED_MAX).await?;
            tx.commit().await?;
        }
        Ok(done)
    }

    async fn observe(&self, watch: &HeldLease) -> Observations {
        let mut seen = Observations::new();
        for signal in &self.signals {
            let name = signal.name();
            if self.rules.iter().all(|rule| rule.signal() != name) {
                continue;
            }
            let observations =
                match tokio::time::timeout(OBSERVING_MAX, signal.observe(watch.process().store())).await {
                    Ok(Ok(observations)) => Some(bounded(name, observations)),
                    Ok(Err(error)) => {
                        tracing::warn!(%error, alert.signal = name, "signal {name} was not observed");
                        None
                    }
                    Err(_) => {
                        tracing::warn!(
                            alert.signal = name,
                            "signal {name} was not observed in {OBSERVING_MAX:?}"
                        );
                        None
                    }
                };
            if observations.is_none() {
                metrics::alert_signal_failures(name).increment(1);
            }
            seen.insert(name, observations);
        }
        seen
    }

    /// Adds the observations to the windows and reads them. Drops the windows of subjects that are gone.
    fn read(&mut self, seen: &Observations, now: Monotonic) -> Readings {
        let mut readings = Readings::new();
        for rule in &self.rules {
            let Some(Some(observations)) = seen.get(rule.signal()) else { continue };
            let is_there = |subject: &Subject| observations.iter().any(|other| other.subject == *subject);
            self.windows.retain(|(name, subject), _| name != rule.name() || is_there(subject));
            for Observation { subject, value, .. } in observations {
                let key = (rule.name().to_owned(), subject.clone());
                let window = self.windows.entry(key.clone()).or_insert_with(|| Window::new(rule.window()));
                window.add(*value, now);
                let reading = if value.is_finite() { window::read(rule, window) } else { Reading::Unknown };
                readings.insert(key, reading);
            }
        }
        readings
    }

    /// Adds open alerts without an observation: their rule or subject is gone, or observing failed.
    fn add_missing(&self, readings: &mut Readings, open: &[AlertRecord], seen: &Observations) {
        for record in open {
            let key = (record.rule.clone(), record.subject.clone());
            let rule = self.rules.iter().find(|rule| rule.name() == record.rule);
            let reading = match rule.map(|rule| seen.get(rule.signal())) {
                Some(Some(Some(_))) | None => Reading::Gone,
                Some(Some(None) | None) => Reading::Unknown,
            };
            readings.entry(key).or_insert(reading);
        }
    }

    fn detail<'a>(&self, seen: &'a Observations, rule: &str, subject: &Subject) -> Option<&'a str> {
        let rule = self.rules.iter().find(|known| known.name() == rule)?;
        let observations = seen.get(rule.signal())?.as_ref()?;
        observations.iter().find(|seen| seen.subject == *subject)?.detail.as_deref()
    }

    async fn judge(
        &self,
        watch: &HeldLease,
        (name, subject): (&str, &Subject),
        reading: Reading,
        last_severity: Severity,
        detail: Option<&str>,
    ) -> Result<Option<Notice>, EngineError> {
        let rule = self.rules.iter().find(|rule| rule.name() == name);
        let judging = Judging {
            rule: name,
            subject,
            severity: rule.map_or(last_severity, Rule::severity),
            hold: rule.map_or(Duration::ZERO, Rule::hold),
            channels: rule.map_or(&[], Rule::channels),
            reading,
            detail,
        };
        let compose = |judgement: &Judgement, notice: Notice| {
            let told = rule.map(|rule| {
                Announcement::new(rule, subject, judgement, notice).with_detail(detail).to_json()
            });
            told.unwrap_or_default()
        };
        let mut tx = watch.begin().await?;
        let judgement = tx.alerts().judge(judging, compose).await?;
        tx.commit().await?;
        if let Some(notice) = judgement.notice {
            metrics::alert_changes(name, notice.as_str()).increment(1);
            tracing::debug!(alert.rule = name, alert.subject = %subject, "alert {name} of {subject}: {notice}");
        }
        Ok(judgement.notice)
    }
}

fn bounded(signal: &str, mut observations: Vec<Observation>) -> Vec<Observation> {
    if observations.len() > SUBJECTS_MAX {
        let count = observations.len();
        tracing::warn!(
            alert.signal = signal,
            "signal {signal} tells of {count} subjects; only {SUBJECTS_MAX} are watched"
        );
        // Sorted by name, so that the same subjects are kept each time.
        observations.sort_by(|a, b| a.subject.cmp(&b.subject));
        observations.truncate(SUBJECTS_MAX);
    }
    observations
}
