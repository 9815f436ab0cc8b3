//! The metrics of this crate, in one table, so that a name is written once.

use tidemill_domain::job::Counters;

/// Declares metrics. Each becomes a function that takes the values of its labels and returns the counter, gauge or
/// histogram. The only labels are values of which there are few, so the number of time series is bounded.
macro_rules! metric_table {
    (@type counter) => { ::metrics::Counter };
    (@type gauge) => { ::metrics::Gauge };
    (@type histogram) => { ::metrics::Histogram };
    (@describe counter $name:literal $about:literal) => { ::metrics::describe_counter!($name, $about) };
    (@describe gauge $name:literal $about:literal) => { ::metrics::describe_gauge!($name, $about) };
    (@describe histogram $name:literal $about:literal) => { ::metrics::describe_histogram!($name, $about) };
    ($($kind:ident $metric:ident($($label:ident),*) = $name:literal, $about:literal;)+) => {
        $(pub(crate) fn $metric($($label: &str),*) -> metric_table!(@type $kind) {
            ::metrics::$kind!($name $(, stringify!($label) => $label.to_owned())*)
        })+

        /// Registers the descriptions.
        pub fn describe() {
            $(metric_table!(@describe $kind $name $about);)+
        }
    };
}

metric_table! {
    counter alert_changes(rule, notice) = "tidemill_alert_changes_total", "Alerts that fired or were over, by rule and notice.";
    counter alert_deliveries(channel, outcome) = "tidemill_alert_deliveries_total", "Attempts to deliver a notice, by channel and outcome.";
    counter alert_signal_failures(signal) = "tidemill_alert_signal_failures_total", "Looks at a signal that failed, by signal.";
    histogram chunk_duration(job, step) = "tidemill_chunk_duration_seconds", "How long chunks take from the end of reading to their end, by job and step.";
    counter fencing_rejections(kind) = "tidemill_fencing_rejections_total", "Writes of ghosts that were refused, by kind of lease.";
    gauge job_active(job) = "tidemill_job_active_executions", "Executions that have started and not ended, by job.";
    histogram job_duration(job, status) = "tidemill_job_duration_seconds", "How long executions that ended in this process took, by job and status.";
    counter job_executions(job, status) = "tidemill_job_executions_total", "Executions that ended in this process, by job and status.";
    counter job_instances_purged(job) = "tidemill_job_instances_purged_total", "Instances that this process has forgotten, by job.";
    counter job_partitions(job, step, status) = "tidemill_job_partitions_total", "Partitions that ended in this process, by job, step and status.";
    counter job_recoveries(job) = "tidemill_job_recoveries_total", "Executions whose process died and that this process failed, by job.";
    counter lease_expired(kind) = "tidemill_lease_expired_total", "Lapsed leases that this process freed, by kind.";
    counter lease_takeovers(kind) = "tidemill_lease_takeovers_total", "Lapsed leases that this process took over, by kind.";
    gauge outbox_attached_oldest(table) = "tidemill_outbox_attached_oldest_seconds", "Age of the oldest row of an attached table that is to be sent.";
    gauge outbox_attached_rows(table, status) = "tidemill_outbox_attached_rows", "Rows of an attached table that are not published, by status.";
    histogram outbox_batch_duration() = "tidemill_outbox_batch_duration_seconds", "How long batches take from reading to their acknowledgement.";
    gauge outbox_default_rows() = "tidemill_outbox_default_rows", "Events in the default partition, because no other one was there.";
    gauge outbox_empty_polls() = "tidemill_outbox_empty_poll_ratio", "Which part of the polls of all relays found nothing, since the last look.";
    gauge outbox_failed_events(state) = "tidemill_outbox_failed_events", "Events that were not taken, and those behind them, by state.";
    gauge outbox_failed_events_oldest(state) = "tidemill_outbox_failed_events_oldest_seconds", "Age of the oldest event that was not taken, by state.";
    counter outbox_joins_refused() = "tidemill_outbox_joins_refused_total", "Times that the relay of this process was refused by its settings.";
    gauge outbox_lag() = "tidemill_outbox_lag_events", "Events that no relay has read yet.";
    gauge outbox_oldest() = "tidemill_outbox_oldest_seconds", "Age of the oldest event that no relay has read yet.";
    counter outbox_polls(found) = "tidemill_outbox_polls_total", "Times that the relay of this process asked for events, by whether there were any.";
    counter outbox_published() = "tidemill_outbox_published_total", "Events that this process has published and acknowledged.";
    gauge outbox_published_per_second() = "tidemill_outbox_published_per_second", "Events per second of all relays, since the last look.";
    counter outbox_queries() = "tidemill_outbox_queries_total", "Statements by which the relay of this process looked, read and acknowledged.";
    gauge outbox_queries_per_10000_events() = "tidemill_outbox_queries_per_10000_events", "Statements of all relays for 10,000 events, since the last look.";
    counter outbox_refused() = "tidemill_outbox_refused_total", "Events that the sink refused.";
    gauge outbox_relays() = "tidemill_outbox_relays", "Relays that are alive.";
    counter outbox_relays_retired() = "tidemill_outbox_relays_retired_total", "Silent relays that this process has retired.";
    counter outbox_sink_failures() = "tidemill_outbox_sink_failures_total", "Publications that failed as a whole, so that they are tried again.";
    gauge outbox_slots() = "tidemill_outbox_slots", "Slots that the relay of this process has.";
    gauge outbox_unowned() = "tidemill_outbox_unowned_slots", "Slots that no live relay has.";
    gauge outbox_unpublished() = "tidemill_outbox_unpublished_events", "Events that are still to be published: not read yet, or not taken.";
    gauge outbox_unpublished_oldest() = "tidemill_outbox_unpublished_oldest_seconds", "Age of the oldest event that is still to be published.";
    gauge outbox_wal() = "tidemill_outbox_wal_bytes_per_event", "Bytes of the write-ahead log that acknowledgements cost for each event.";
    counter pool_allowed(pool) = "tidemill_pool_acquire_allowed_total", "Requests that got all their units at once, by pool.";
    gauge pool_breaker_open(pool) = "tidemill_pool_breaker_open", "1 while the circuit breaker lets at most a probe start, otherwise 0, by pool.";
    gauge pool_audit_violations(pool) = "tidemill_pool_audit_violations", "Violations that the last nightly audit found, by pool.";
    gauge pool_capacity(pool) = "tidemill_pool_capacity_units", "Units that there are, by pool.";
    gauge pool_demand(pool, horizon, percentile) = "tidemill_pool_demand_units", "Units that are needed now, in 5 and in 15 minutes, by pool, horizon and percentile.";
    counter pool_downgraded(pool) = "tidemill_pool_acquire_downgraded_total", "Requests that got fewer units than they asked for, by pool.";
    gauge pool_in_use(pool) = "tidemill_pool_in_use_units", "Units in use, by pool.";
    counter pool_on_demand_runs(pool, direction, outcome) = "tidemill_pool_on_demand_runs_total", "Runs of the command on_demand, by pool, direction and outcome.";
    gauge pool_limit(pool) = "tidemill_pool_limit_units", "Units that may be in use now, lowered by the circuit breaker, by pool.";
    gauge pool_oldest_wait(pool) = "tidemill_pool_oldest_wait_seconds", "How long the oldest request of the queue has waited, by pool.";
    gauge pool_over(pool) = "tidemill_pool_over_units", "Units in use beyond the limit, by pool.";
    histogram pool_pass() = "tidemill_pool_pass_seconds", "How long passes over pools take, from the request to the commit.";
    counter pool_pass_commands() = "tidemill_pool_pass_commands_total", "Commands that passes over pools decided about.";
    counter pool_requests(pool) = "tidemill_pool_acquire_requests_total", "New requests for units, by pool.";
    gauge pool_suspect(pool) = "tidemill_pool_suspect_leases", "Leases whose holders have not been heard of, by pool.";
    counter pool_timeouts(pool) = "tidemill_pool_acquire_timeouts_total", "Requests that left the queue without units, by pool.";
    gauge pool_utilization(pool) = "tidemill_pool_utilization_ratio", "Units in use of those that there are, from 0 to 1, by pool.";
    histogram pool_wait(pool) = "tidemill_pool_wait_seconds", "How long requests waited that got units after a wait, by pool.";
    counter pool_waited(pool) = "tidemill_pool_acquire_waited_total", "Requests that got units after a wait, by pool.";
    gauge pool_waiting(pool) = "tidemill_pool_waiting_requests", "Requests in the queue, by pool.";
    counter processes_expired() = "tidemill_processes_expired_total", "Silent processes that this process declared dead.";
    gauge render_busy_places() = "tidemill_render_busy_places", "Places at the farm that the worker of this process has taken.";
    counter render_claims() = "tidemill_render_claims_total", "Renders that the worker of this process has claimed.";
    counter render_concerns(concern) = "tidemill_render_concerns_total", "Things about renders that a person should hear of, by what they are.";
    histogram render_copy() = "tidemill_render_copy_seconds", "How long files take to be copied to the NAS.";
    histogram render_duration(status) = "tidemill_render_duration_seconds", "How long renders take from the first claim to their end, by status.";
    counter render_ended(status) = "tidemill_render_ended_total", "Renders that have ended in this process, by status.";
    counter render_failures(code) = "tidemill_render_failures_total", "Attempts at renders that have failed in this process, by code.";
    histogram render_farm(call, outcome) = "tidemill_render_nexrender_seconds", "How long nexrender takes to answer, by call and outcome.";
    gauge render_in_hand() = "tidemill_render_in_hand", "Renders that the worker of this process has.";
    gauge render_leftovers() = "tidemill_render_leftover_jobs", "Jobs that are still to be taken out of nexrender.";
    gauge render_oldest() = "tidemill_render_oldest_pending_seconds", "How long the oldest render has waited for a worker.";
    gauge render_paused() = "tidemill_render_paused", "Whether the worker of this process claims nothing, 1 or 0.";
    counter render_recoveries() = "tidemill_render_recoveries_total", "Renders that this process took from workers that had vanished.";
    gauge render_renders(status) = "tidemill_render_renders", "Renders that have not ended, by status.";
    gauge render_success() = "tidemill_render_success_ratio", "Which part of the renders of the last 24 hours was completed, from 0 to 1.";
    gauge render_waiting_for_licence() = "tidemill_render_waiting_for_licence", "Renders of this process that wait for a licence.";
    gauge render_workers() = "tidemill_render_workers", "Workers that are alive.";
    histogram schedule_lag(schedule) = "tidemill_schedule_lag_seconds", "How long after their tick executions were launched, by schedule.";
    counter schedule_ticks(schedule, outcome) = "tidemill_schedule_ticks_total", "Ticks of schedules that this process decided on, by schedule and outcome.";
    counter self_fenced() = "tidemill_self_fenced_total", "Times that this process gave itself up because it could not renew in time.";
    counter step_chunks(job, step, outcome) = "tidemill_step_chunks_total", "Chunks that committed or were rolled back, by job, step and outcome.";
    histogram step_duration(job, step, status) = "tidemill_step_duration_seconds", "How long steps that ended in this process took, by job, step and status.";
    counter step_items(job, step, op) = "tidemill_step_items_total", "Items read, written, filtered and skipped, by job, step and what was done.";
}

#[expect(clippy::cast_precision_loss, reason = "no count is as large as the whole numbers of an f64")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
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
            step_items(job, step, what).increment(count);
        }
    }
    for (outcome, count) in [("commit", counted.commit), ("rollback", counted.rollback)] {
        if count > 0 {
            step_chunks(job, step, outcome).increment(count);
        }
    }
}
