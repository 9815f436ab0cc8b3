//! The shipped rules of pools, on a real pool: they fire, and they are over.

use super::{Recorder, STEP, take_watch};
use crate::Bench;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::{AlertState, Rule, Severity};
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_domain::time::Clock;
use tidemill_engine::alert::{Alerting, Channel, LogChannel, default_rules, signal};
use tidemill_engine::clock::SystemIds;
use tidemill_engine::pool::auditor;
use tidemill_engine::{HeldLease, Process};
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};

const MINUTE: Duration = Duration::from_secs(60);

/// A pool of a hundred units under one of the shipped rules, or none of them.
struct Night {
    bench: Bench,
    alerting: Alerting,
    process: Process,
    watch: HeldLease,
    cache: PoolCache,
}

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

impl Night {
    async fn under(rule: &str) -> Self {
        Self::with_threshold(rule, 100).await
    }

    async fn with_threshold(rule: &str, percent: u8) -> Self {
        let bench = Bench::new().await;
        let mut settings = Settings::new(adw(), 100);
        settings.threshold_percent = percent;
        let mut tx = bench.store.begin().await.unwrap();
        tx.pools().create(&settings, &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
        let rules: Vec<Rule> = default_rules().into_iter().filter(|known| known.name() == rule).collect();
        assert_eq!(rules.len(), 1, "{rule}");
        let channels: Vec<Arc<dyn Channel>> = vec![Arc::new(LogChannel), Arc::new(Recorder::default())];
        let signals = signal::known(bench.clock.clone());
        let alerting = Alerting::new(rules, signals, channels, bench.clock.clone()).unwrap();
        let process = bench.process("one").await;
        let watch = take_watch(&process).await.unwrap();
        Self { bench, alerting, process, watch, cache: PoolCache::default() }
    }

    async fn pass(&mut self, command: Command) {
        let pools = BTreeSet::from([adw()]);
        let commands = [command];
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        self.bench.store.pool_pass(&mut self.cache, &request).await.unwrap();
    }

    async fn ask(&mut self, run: &str, units: u32) {
        let (request, parallel) = (SystemIds.ticket(), NonZeroU32::new(units));
        let part = Part { pool: adw(), ticket: request, parallel, sessions: None, least: parallel };
        let acquire = Acquire::new(request, Holder::run("dag", run).unwrap(), vec![part]);
        self.pass(Command::Acquire(Box::new(acquire))).await;
    }

    async fn give_back(&mut self, run: &str) {
        let by = ReleaseBy::Run { dag_id: "dag".into(), run_id: run.into() };
        let end = End::Released { failed: false };
        self.pass(Command::Release(Box::new(Release { pool: adw(), by, epoch: None, end, call: None })))
            .await;
    }

    /// Turns at the usual pace for this long; how often it fired and how often it was over.
    async fn turns(&mut self, length: Duration) -> (usize, usize) {
        let (mut fired, mut resolved) = (0, 0);
        let end = self.bench.clock.now().plus(length);
        loop {
            let done = self.alerting.evaluator.run_once(&self.watch).await.unwrap();
            assert_eq!(done.unobserved, 0);
            fired += done.fired;
            resolved += done.resolved;
            if self.bench.clock.now() >= end {
                return (fired, resolved);
            }
            self.bench.clock.advance(STEP);
            self.process.heartbeat().await.unwrap();
        }
    }

    async fn alert(&self) -> (AlertState, Severity) {
        let alerts = self.bench.store.read().await.unwrap().alerts().list(10).await.unwrap();
        assert_eq!(alerts.len(), 1);
        assert_eq!(alerts[0].subject.as_str(), "pool/ADW");
        (alerts[0].state, alerts[0].severity)
    }
}

#[tokio::test]
async fn a_pool_that_is_nearly_full_for_five_minutes_is_told_and_so_is_its_end() {
    let mut night = Night::under("high_connection_usage").await;
    night.ask("at the threshold", 90).await;
    assert_eq!(night.turns(6 * MINUTE).await, (0, 0));

    night.ask("above it", 5).await;
    assert_eq!(night.turns(4 * MINUTE).await, (0, 0));
    assert_eq!(night.turns(2 * MINUTE).await, (1, 0));
    assert!(matches!(night.alert().await, (AlertState::Firing { .. }, Severity::Warning)));
    night.give_back("at the threshold").await;
    assert_eq!(night.turns(2 * MINUTE).await, (0, 1));
}

#[tokio::test]
async fn a_full_pool_is_told_whatever_its_threshold() {
    for percent in [50, 90, 100] {
        let mut night = Night::with_threshold("high_connection_usage", percent).await;
        night.ask("all of it", percent.into()).await;

        assert_eq!(night.turns(6 * MINUTE).await, (1, 0), "{percent} %");
    }
}

#[tokio::test]
async fn a_queue_that_takes_long_is_told_and_so_is_its_end() {
    for (wait, fires) in [(Duration::from_secs(120), 0), (Duration::from_secs(125), 1)] {
        let mut night = Night::under("long_queue_time").await;
        night.ask("holds", 100).await;
        night.ask("waits", 100).await;
        assert_eq!(night.turns(wait).await, (0, 0));

        night.give_back("holds").await;

        assert_eq!(night.turns(4 * MINUTE).await, (fires, 0), "{wait:?}");
        assert_eq!(night.turns(2 * MINUTE).await, (0, fires), "{wait:?}");
    }
}

#[tokio::test]
async fn an_open_breaker_is_told_and_so_is_its_end() {
    let mut night = Night::under("pool_breaker_open").await;
    night.ask("refused", 10).await;
    assert_eq!(night.turns(MINUTE).await, (0, 0));

    let by = ReleaseBy::Run { dag_id: "dag".into(), run_id: "refused".into() };
    let end = End::Refused { reason: "ORA-00020".into() };
    night.pass(Command::Release(Box::new(Release { pool: adw(), by, epoch: None, end, call: None }))).await;
    assert_eq!(night.turns(2 * MINUTE).await, (1, 0));
    assert!(matches!(night.alert().await, (AlertState::Firing { .. }, Severity::Warning)));
    night.ask("tests", 10).await;
    night.give_back("tests").await;
    assert_eq!(night.turns(MINUTE).await, (0, 1));
}

#[tokio::test]
async fn more_than_five_timeouts_in_a_minute_are_critical() {
    for (timeouts, fires) in [(5, 0), (6, 1)] {
        let mut night = Night::under("acquire_timeouts").await;
        night.ask("holds", 100).await;
        for number in 0..timeouts {
            let run = number.to_string();
            night.ask(&run, 10).await;
            night.bench.clock.advance(STEP);
            night.process.heartbeat().await.unwrap();
            night.give_back(&run).await;
        }

        assert_eq!(night.turns(Duration::ZERO).await, (fires, 0), "{timeouts}");
        if fires > 0 {
            assert!(matches!(night.alert().await, (AlertState::Firing { .. }, Severity::Critical)));
        }
        assert_eq!(night.turns(MINUTE).await, (0, fires), "{timeouts}");
    }
}

#[tokio::test]
async fn a_queue_in_which_nobody_gets_anything_is_told() {
    let mut night = Night::under("oldest_waiter").await;
    night.ask("holds", 100).await;
    night.ask("waits", 100).await;

    assert_eq!(night.turns(15 * MINUTE).await, (0, 0));
    assert_eq!(night.turns(STEP).await, (1, 0));
    night.give_back("waits").await;
    assert_eq!(night.turns(STEP).await, (0, 1));
}

/// Swaps two texts in the granted records of the log.
async fn tamper(night: &Night, from: &str, to: &str) {
    let mut tx = night.bench.store.begin().await.unwrap();
    let fault = format!(
        "update tidemill_pool_log set event = replace(event, '\"parallel\":{from}', '\"parallel\":{to}')
         where kind = 'granted'"
    );
    tx.execute_for_test(&fault).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_wrong_record_is_found_in_the_night_and_alerted_until_the_audit_of_a_later_night() {
    let mut night = Night::under("pool_audit_violation").await;
    night.ask("batch", 40).await;
    assert_eq!(night.turns(STEP).await, (0, 0), "not audited yet");

    tamper(&night, "40", "39").await;
    auditor::audit(&night.bench.store, None).await.unwrap();
    assert_eq!(night.turns(STEP).await, (1, 0));
    assert!(matches!(night.alert().await, (AlertState::Firing { .. }, Severity::Critical)));

    tamper(&night, "39", "40").await;
    auditor::audit(&night.bench.store, None).await.unwrap();
    assert_eq!(night.turns(STEP).await, (0, 0), "once a night");
    night.bench.clock.advance(Duration::from_secs(24 * 3600));
    night.process = night.bench.process("two").await;
    night.watch = take_watch(&night.process).await.unwrap();
    auditor::audit(&night.bench.store, None).await.unwrap();
    assert_eq!(night.turns(STEP).await, (0, 1));
}

#[tokio::test]
async fn the_alert_of_a_pool_that_is_removed_is_over() {
    let mut night = Night::under("oldest_waiter").await;
    night.ask("holds", 100).await;
    night.ask("waits", 100).await;
    assert_eq!(night.turns(16 * MINUTE).await, (1, 0));
    for run in ["waits", "holds"] {
        night.give_back(run).await;
    }
    let mut tx = night.bench.store.begin().await.unwrap();
    tx.pools().remove(&adw(), &Actor::system(), None).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(night.turns(Duration::ZERO).await, (0, 1));
}
