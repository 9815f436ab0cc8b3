//! The metrics of this crate: one function per event, so that a name is written once.

use metrics::{counter, describe_counter, describe_histogram, histogram};
use std::time::Duration;
use tidemill_domain::job::Counters;
use tidemill_domain::time::{Clock, Monotonic};

const ALERT_CHANGES: &str = "tidemill_alert_changes_total";
const ALERT_DELIVERIES: &str = "tidemill_alert_deliveries_total";
const ALERT_SIGNAL_FAILURES: &str = "tidemill_alert_signal_failures_total";
const CHUNK_DURATION: &str = "tidemill_chunk_duration_seconds";
const FENCING_REJECTIONS: &str = "tidemill_fencing_rejections_total";
const JOB_EXECUTIONS: &str = "tidemill_job_executions_total";
const JOB_INSTANCES_PURGED: &str = "tidemill_job_instances_purged_total";
const JOB_PARTITIONS: &str = "tidemill_job_partitions_total";
const JOB_RECOVERIES: &str = "tidemill_job_recoveries_total";
const LEASE_EXPIRED: &str = "tidemill_lease_expired_total";
const LEASE_TAKEOVERS: &str = "tidemill_lease_takeovers_total";
const PROCESSES_EXPIRED: &str = "tidemill_processes_expired_total";
const SCHEDULE_LAG: &str = "tidemill_schedule_lag_seconds";
const SCHEDULE_TICKS: &str = "tidemill_schedule_ticks_total";
const SELF_FENCED: &str = "tidemill_self_fenced_total";
const STEP_ITEMS: &str = "tidemill_step_items_total";
const STEP_CHUNKS: &str = "tidemill_step_chunks_total";

pub fn describe() {
    crate::outbox::metrics::describe();
    crate::pool::metrics::describe();
    crate::render::metrics::describe();
    describe_counter!(ALERT_CHANGES, "Alerts that fired or were over, by rule and notice.");
    describe_counter!(ALERT_DELIVERIES, "Attempts to deliver a notice, by channel and outcome.");
    describe_counter!(ALERT_SIGNAL_FAILURES, "Looks at a signal that failed, by signal.");
    describe_histogram!(
        CHUNK_DURATION,
        "How long chunks take from the end of reading to their end, by job and step."
    );
    describe_counter!(JOB_EXECUTIONS, "Executions that ended in this process, by job and status.");
    describe_counter!(JOB_INSTANCES_PURGED, "Instances that this process has forgotten, by job.");
    describe_counter!(JOB_PARTITIONS, "Partitions that ended in this process, by job, step and status.");
    describe_counter!(JOB_RECOVERIES, "Executions whose process died and that this process failed, by job.");
    describe_counter!(STEP_CHUNKS, "Chunks that committed or were rolled back, by job, step and outcome.");
    describe_counter!(
        STEP_ITEMS,
        "Items read, written, filtered and skipped, by job, step and what was done."
    );
    describe_counter!(FENCING_REJECTIONS, "Writes of ghosts that were refused, by kind of lease.");
    describe_counter!(LEASE_EXPIRED, "Lapsed leases that this process freed, by kind.");
    describe_counter!(LEASE_TAKEOVERS, "Lapsed leases that this process took over, by kind.");
    describe_counter!(PROCESSES_EXPIRED, "Silent processes that this process declared dead.");
    describe_histogram!(SCHEDULE_LAG, "How long after their tick executions were launched, by schedule.");
    describe_counter!(
        SCHEDULE_TICKS,
        "Ticks of schedules that this process decided on, by schedule and outcome."
    );
    describe_counter!(
        SELF_FENCED,
        "Times that this process gave itself up because it could not renew in time."
    );
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts as far as a f64 can count")]
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

pub(crate) struct ChunkTimer(Monotonic);

impl ChunkTimer {
    pub(crate) fn start(clock: &dyn Clock) -> Self {
        Self(clock.monotonic())
    }

    pub(crate) fn stop(self, clock: &dyn Clock, job: &str, step: &str) {
        let took = clock.monotonic().since(self.0);
        histogram!(CHUNK_DURATION, "job" => job.to_owned(), "step" => step.to_owned()).record(took);
    }
}
