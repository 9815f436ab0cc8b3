//! The metrics of this crate: one function per event, so that a name is written once.

use metrics::{counter, histogram};
use std::time::Duration;
use tidemill_domain::job::Counters;

/// Declares the names of metrics, and a function that registers their descriptions.
macro_rules! metric_names {
    (@describe counter $name:ident $about:literal) => { ::metrics::describe_counter!($name, $about) };
    (@describe gauge $name:ident $about:literal) => { ::metrics::describe_gauge!($name, $about) };
    (@describe histogram $name:ident $about:literal) => { ::metrics::describe_histogram!($name, $about) };
    ($vis:vis fn $describe:ident; $($kind:ident $name:ident = $text:literal, $about:literal;)+) => {
        $(const $name: &str = $text;)+

        $vis fn $describe() {
            $($crate::metrics::metric_names!(@describe $kind $name $about);)+
        }
    };
}

pub(crate) use metric_names;

metric_names! {
    fn describe_own;

    counter ALERT_CHANGES = "tidemill_alert_changes_total", "Alerts that fired or were over, by rule and notice.";
    counter ALERT_DELIVERIES = "tidemill_alert_deliveries_total", "Attempts to deliver a notice, by channel and outcome.";
    counter ALERT_SIGNAL_FAILURES = "tidemill_alert_signal_failures_total", "Looks at a signal that failed, by signal.";
    histogram CHUNK_DURATION = "tidemill_chunk_duration_seconds", "How long chunks take from the end of reading to their end, by job and step.";
    counter FENCING_REJECTIONS = "tidemill_fencing_rejections_total", "Writes of ghosts that were refused, by kind of lease.";
    counter JOB_EXECUTIONS = "tidemill_job_executions_total", "Executions that ended in this process, by job and status.";
    counter JOB_INSTANCES_PURGED = "tidemill_job_instances_purged_total", "Instances that this process has forgotten, by job.";
    counter JOB_PARTITIONS = "tidemill_job_partitions_total", "Partitions that ended in this process, by job, step and status.";
    counter JOB_RECOVERIES = "tidemill_job_recoveries_total", "Executions whose process died and that this process failed, by job.";
    counter LEASE_EXPIRED = "tidemill_lease_expired_total", "Lapsed leases that this process freed, by kind.";
    counter LEASE_TAKEOVERS = "tidemill_lease_takeovers_total", "Lapsed leases that this process took over, by kind.";
    counter PROCESSES_EXPIRED = "tidemill_processes_expired_total", "Silent processes that this process declared dead.";
    histogram SCHEDULE_LAG = "tidemill_schedule_lag_seconds", "How long after their tick executions were launched, by schedule.";
    counter SCHEDULE_TICKS = "tidemill_schedule_ticks_total", "Ticks of schedules that this process decided on, by schedule and outcome.";
    counter SELF_FENCED = "tidemill_self_fenced_total", "Times that this process gave itself up because it could not renew in time.";
    counter STEP_ITEMS = "tidemill_step_items_total", "Items read, written, filtered and skipped, by job, step and what was done.";
    counter STEP_CHUNKS = "tidemill_step_chunks_total", "Chunks that committed or were rolled back, by job, step and outcome.";
}

pub fn describe() {
    crate::outbox::metrics::describe();
    crate::pool::metrics::describe();
    crate::render::metrics::describe();
    describe_own();
}

#[expect(clippy::cast_precision_loss, reason = "no count is as large as the whole numbers of an f64")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

pub(crate) fn alert_changed(rule: &str, notice: &'static str) {
    counter!(ALERT_CHANGES, "rule" => rule.to_owned(), "notice" => notice).increment(1);
}

pub(crate) fn alert_delivery(channel: &str, outcome: &'static str) {
    counter!(ALERT_DELIVERIES, "channel" => channel.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn alert_signal_unobserved(signal: &'static str) {
    counter!(ALERT_SIGNAL_FAILURES, "signal" => signal).increment(1);
}

pub(crate) fn fencing_rejected(kind: &str) {
    counter!(FENCING_REJECTIONS, "kind" => kind.to_owned()).increment(1);
}

pub(crate) fn lease_expired(kind: &str) {
    counter!(LEASE_EXPIRED, "kind" => kind.to_owned()).increment(1);
}

pub(crate) fn lease_taken_over(kind: &str) {
    counter!(LEASE_TAKEOVERS, "kind" => kind.to_owned()).increment(1);
}

pub(crate) fn processes_expired(count: usize) {
    counter!(PROCESSES_EXPIRED).increment(count as u64);
}

pub(crate) fn self_fenced() {
    counter!(SELF_FENCED).increment(1);
}

pub(crate) fn schedule_tick(schedule: &str, outcome: &'static str) {
    counter!(SCHEDULE_TICKS, "schedule" => schedule.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn schedule_lag(schedule: &str, lag: Duration) {
    histogram!(SCHEDULE_LAG, "schedule" => schedule.to_owned()).record(lag);
}

pub(crate) fn execution_ended(job: &str, status: &'static str) {
    counter!(JOB_EXECUTIONS, "job" => job.to_owned(), "status" => status).increment(1);
}

pub(crate) fn partition_ended(job: &str, step: &str, status: &'static str) {
    counter!(JOB_PARTITIONS, "job" => job.to_owned(), "step" => step.to_owned(), "status" => status)
        .increment(1);
}

pub(crate) fn execution_recovered(job: &str) {
    counter!(JOB_RECOVERIES, "job" => job.to_owned()).increment(1);
}

pub(crate) fn instances_purged(job: &str, count: u64) {
    if count > 0 {
        counter!(JOB_INSTANCES_PURGED, "job" => job.to_owned()).increment(count);
    }
}

pub(crate) fn items_counted(job: &str, step: &str, counted: &Counters) {
    for (what, count) in [
        ("read", counted.read),
        ("write", counted.write),
        ("filter", counted.filter),
        ("read_skip", counted.read_skip),
        ("process_skip", counted.process_skip),
        ("write_skip", counted.write_skip),
    ] {
        if count > 0 {
            counter!(STEP_ITEMS, "job" => job.to_owned(), "step" => step.to_owned(), "op" => what)
                .increment(count);
        }
    }
    for (outcome, count) in [("commit", counted.commit), ("rollback", counted.rollback)] {
        if count > 0 {
            counter!(STEP_CHUNKS, "job" => job.to_owned(), "step" => step.to_owned(), "outcome" => outcome)
                .increment(count);
        }
    }
}

pub(crate) fn chunk_ended(job: &str, step: &str, took: Duration) {
    histogram!(CHUNK_DURATION, "job" => job.to_owned(), "step" => step.to_owned()).record(took);
}
