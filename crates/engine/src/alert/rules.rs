//! The rules that apply without any configuration.

use super::channel::LOG;
use super::signal::{CoreSignal, JobSignal, OutboxSignal, PoolSignal, RenderSignal};
use std::time::Duration;
use tidemill_domain::alert::Condition::{Above, Below};
use tidemill_domain::alert::{Aggregate, Condition, Rule, RuleFields, Severity};

const NOW: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);

/// Configuration may change single fields of these rules, or disable them.
pub fn default_rules() -> Vec<Rule> {
    let rules = [
        rule("process_died", CoreSignal::ProcessesDied, Above(0.0), NOW),
        average(rule("database_slow", CoreSignal::DatabaseSeconds, Above(1.0), MINUTE)),
        critical(rule("job_failed", JobSignal::Failures, Above(0.0), NOW)),
        rule("job_running_long", JobSignal::RunningRatio, Above(2.0), NOW),
        rule("schedule_late", JobSignal::ScheduleLateSeconds, Above(300.0), NOW),
        rule("schedule_missed", JobSignal::ScheduleMissedTicks, Above(0.0), NOW),
        // The first three are the alarms of the pool specification. While no request gets units, the average wait of those
        // that did says nothing, so there is one for the oldest. Usage is in percent of the limit, because a pool is never filled beyond it.
        average(rule("high_connection_usage", PoolSignal::LimitPercent, Above(90.0), 5 * MINUTE)),
        rule("long_queue_time", PoolSignal::WaitSeconds, Above(120.0), NOW),
        critical(rule("acquire_timeouts", PoolSignal::Timeouts, Above(5.0), NOW)),
        rule("oldest_waiter", PoolSignal::OldestWaitSeconds, Above(900.0), NOW),
        rule("pool_breaker_open", PoolSignal::BreakerOpen, Above(0.0), NOW),
        critical(rule("pool_audit_violation", PoolSignal::AuditViolations, Above(0.0), NOW)),
        // A slot is normally taken over within seconds, so one without an owner for a minute is a fault.
        rule("outbox_lag", OutboxSignal::LagSeconds, Above(60.0), MINUTE),
        rule("outbox_events_parked", OutboxSignal::Parked, Above(0.0), NOW),
        rule("outbox_default_partition", OutboxSignal::DefaultRows, Above(0.0), NOW),
        critical(rule("outbox_unowned", OutboxSignal::UnownedSlots, Above(0.0), MINUTE)),
        critical(rule("outbox_share_missing", OutboxSignal::MissingShares, Above(0.0), MINUTE)),
        // The six alerts of the render specification, with its names and thresholds, and failures that need a person.
        rule("render_queue_pending_count", RenderSignal::Pending, Above(10.0), MINUTE),
        rule("render_job_duration_seconds", RenderSignal::Seconds, Above(300.0), NOW),
        rule("render_job_success_rate", RenderSignal::SuccessPercent, Below(90.0), NOW),
        critical(rule("ae_worker_active_count", RenderSignal::Workers, Below(1.0), MINUTE)),
        rule("nexrender_api_latency", RenderSignal::NexrenderSeconds, Above(5.0), NOW),
        rule("nas_copy_duration_seconds", RenderSignal::CopySeconds, Above(60.0), NOW),
        critical(rule("render_needs_somebody", RenderSignal::Failures, Above(0.0), NOW)),
        rule("render_workers_vanish", RenderSignal::Recovering, Above(0.0), NOW),
        critical(rule("render_late", RenderSignal::Late, Above(0.0), NOW)),
        rule("render_not_picked", RenderSignal::NodeWaitSeconds, Above(300.0), NOW),
    ];
    let checked = |fields| Rule::new(fields).expect("the shipped rules keep to the bounds of a rule");
    rules.into_iter().map(checked).collect()
}

/// A warning, fired when the last value has been beyond the threshold for `hold`.
fn rule(name: &str, signal: impl ToString, condition: Condition, hold: Duration) -> RuleFields {
    RuleFields {
        name: name.to_owned(),
        signal: signal.to_string(),
        condition,
        aggregate: Aggregate::Last,
        window: MINUTE,
        hold,
        severity: Severity::Warning,
        channels: vec![LOG.to_owned()],
    }
}

fn average(rule: RuleFields) -> RuleFields {
    RuleFields { aggregate: Aggregate::Average, ..rule }
}

fn critical(rule: RuleFields) -> RuleFields {
    RuleFields { severity: Severity::Critical, ..rule }
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
                "job_failed",
                "job_running_long",
                "schedule_late",
                "schedule_missed",
                "high_connection_usage",
                "long_queue_time",
                "acquire_timeouts",
                "oldest_waiter",
                "pool_breaker_open",
                "pool_audit_violation",
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
