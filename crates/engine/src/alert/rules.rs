//! The rules that are there without any configuration. Pillars add theirs here.

use super::channel::LOG;
use super::signal::{CoreSignal, OutboxSignal, PoolSignal, RenderSignal};
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, Condition, Rule, RuleFields, Severity};

/// The shipped rules. Configuration may change single fields of them, or switch them off.
pub fn default_rules() -> Vec<Rule> {
    let minute = Duration::from_secs(60);
    let defaults = RuleFields {
        name: "process_died".to_owned(),
        signal: CoreSignal::ProcessesDied.to_string(),
        condition: Condition::Above(0.0),
        aggregate: Aggregate::Last,
        window: minute,
        hold: Duration::ZERO,
        severity: Severity::Warning,
        channels: vec![LOG.to_owned()],
    };
    let database_slow = RuleFields {
        name: "database_slow".to_owned(),
        signal: CoreSignal::DatabaseSeconds.to_string(),
        condition: Condition::Above(1.0),
        aggregate: Aggregate::Average,
        hold: minute,
        ..defaults.clone()
    };
    let (pools, outbox, renders) = (pools(&defaults), outbox(&defaults), renders(&defaults));
    let pillars = pools.into_iter().chain(outbox).chain(renders);
    let rules = [defaults, database_slow].into_iter().chain(pillars).map(Rule::new);
    rules.map(|rule| rule.expect("the shipped rules keep to the bounds of a rule")).collect()
}

/// The three alarms of the document, and one that it lacks: an average of those who got their units says nothing while
/// nobody gets any.
fn pools(defaults: &RuleFields) -> [RuleFields; 4] {
    let rule = |name: &str, signal: PoolSignal, above: f64| RuleFields {
        name: name.to_owned(),
        signal: signal.to_string(),
        condition: Condition::Above(above),
        ..defaults.clone()
    };
    [
        RuleFields {
            aggregate: Aggregate::Average,
            hold: Duration::from_secs(5 * 60),
            ..rule("high_connection_usage", PoolSignal::UtilizationPercent, 90.0)
        },
        rule("long_queue_time", PoolSignal::WaitSeconds, 120.0),
        RuleFields { severity: Severity::Critical, ..rule("acquire_timeouts", PoolSignal::Timeouts, 5.0) },
        rule("oldest_waiter", PoolSignal::OldestWaitSeconds, 900.0),
    ]
}

/// Events that wait for too long, that nobody tries any more, that came where they should not, and shares of the outbox
/// that nobody has. A slot is taken within seconds, so one without an owner for a minute is not on its way to the next.
fn outbox(defaults: &RuleFields) -> [RuleFields; 5] {
    let minute = Duration::from_secs(60);
    let rule = |name: &str, signal: OutboxSignal, above: f64, hold: Duration| RuleFields {
        name: name.to_owned(),
        signal: signal.to_string(),
        condition: Condition::Above(above),
        hold,
        ..defaults.clone()
    };
    let critical = |rule: RuleFields| RuleFields { severity: Severity::Critical, ..rule };
    [
        rule("outbox_lag", OutboxSignal::LagSeconds, 60.0, minute),
        rule("outbox_events_parked", OutboxSignal::Parked, 0.0, Duration::ZERO),
        rule("outbox_default_partition", OutboxSignal::DefaultRows, 0.0, Duration::ZERO),
        critical(rule("outbox_unowned", OutboxSignal::UnownedSlots, 0.0, minute)),
        critical(rule("outbox_share_missing", OutboxSignal::MissingShares, 0.0, minute)),
    ]
}

/// The six of the document, by its names and with its thresholds; and what it wants a person to hear of.
fn renders(defaults: &RuleFields) -> [RuleFields; 10] {
    let minute = Duration::from_secs(60);
    let rule = |name: &str, signal: RenderSignal, condition: Condition, hold: Duration| RuleFields {
        name: name.to_owned(),
        signal: signal.to_string(),
        condition,
        hold,
        ..defaults.clone()
    };
    let critical = |rule: RuleFields| RuleFields { severity: Severity::Critical, ..rule };
    let now = Duration::ZERO;
    let (above, below) = (Condition::Above, Condition::Below);
    [
        rule("render_queue_pending_count", RenderSignal::Pending, above(10.0), minute),
        rule("render_job_duration_seconds", RenderSignal::Seconds, above(300.0), now),
        rule("render_job_success_rate", RenderSignal::SuccessPercent, below(90.0), now),
        critical(rule("ae_worker_active_count", RenderSignal::Workers, below(1.0), minute)),
        rule("nexrender_api_latency", RenderSignal::NexrenderSeconds, above(5.0), now),
        rule("nas_copy_duration_seconds", RenderSignal::CopySeconds, above(60.0), now),
        critical(rule("render_needs_somebody", RenderSignal::Failures, above(0.0), now)),
        rule("render_workers_vanish", RenderSignal::Recovering, above(0.0), now),
        critical(rule("render_late", RenderSignal::Late, above(0.0), now)),
        rule("render_not_picked", RenderSignal::NodeWaitSeconds, above(300.0), now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::signal;

    #[test]
    fn the_shipped_rules_watch_signals_that_exist() {
        let rules = default_rules();

        assert!(rules.iter().all(|rule| signal::names().any(|name| name == rule.signal())));
        assert_eq!(
            rules.iter().map(Rule::name).collect::<Vec<_>>(),
            [
                "process_died",
                "database_slow",
                "high_connection_usage",
                "long_queue_time",
                "acquire_timeouts",
                "oldest_waiter",
                "outbox_lag",
                "outbox_events_parked",
                "outbox_default_partition",
                "outbox_unowned",
                "outbox_share_missing",
                "render_queue_pending_count",
                "render_job_duration_seconds",
                "render_job_success_rate",
                "ae_worker_active_count",
                "nexrender_api_latency",
                "nas_copy_duration_seconds",
                "render_needs_somebody",
                "render_workers_vanish",
                "render_late",
                "render_not_picked"
            ]
        );
    }
}
