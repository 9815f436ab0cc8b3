//! The metrics of renders. Unknown values are NaN, never 0.

use super::gauge::RenderGauges;
use crate::metrics::number;
use metrics::{counter, gauge, histogram};
use std::time::Duration;
use tidemill_domain::render::{Failure, Status};

crate::metrics::metric_names! {
    pub(crate) fn describe;

    gauge BUSY_PLACES = "tidemill_render_busy_places", "Places at the farm that the worker of this process has taken.";
    counter CLAIMS = "tidemill_render_claims_total", "Renders that the worker of this process has claimed.";
    counter CONCERNS = "tidemill_render_concerns_total", "Things about renders that a person should hear of, by what they are.";
    histogram COPY = "tidemill_render_copy_seconds", "How long files take to be copied to the NAS.";
    histogram DURATION = "tidemill_render_duration_seconds", "How long renders take from the first claim to their end, by status.";
    counter ENDED = "tidemill_render_ended_total", "Renders that have ended in this process, by status.";
    counter FAILURES = "tidemill_render_failures_total", "Attempts at renders that have failed in this process, by code.";
    histogram FARM = "tidemill_render_nexrender_seconds", "How long nexrender takes to answer, by call and outcome.";
    gauge IN_HAND = "tidemill_render_in_hand", "Renders that the worker of this process has.";
    gauge LEFTOVERS = "tidemill_render_leftover_jobs", "Jobs that are still to be taken out of nexrender.";
    gauge OLDEST = "tidemill_render_oldest_pending_seconds", "How long the oldest render has waited for a worker.";
    gauge PAUSED = "tidemill_render_paused", "Whether the worker of this process claims nothing, 1 or 0.";
    counter RECOVERIES = "tidemill_render_recoveries_total", "Renders that this process took from workers that had vanished.";
    gauge RENDERS = "tidemill_render_renders", "Renders that have not ended, by status.";
    gauge SUCCESS = "tidemill_render_success_ratio", "Which part of the renders of the last 24 hours was completed, from 0 to 1.";
    gauge WAITING_FOR_LICENCE = "tidemill_render_waiting_for_licence", "Renders of this process that wait for a licence.";
    gauge WORKERS = "tidemill_render_workers", "Workers that are alive.";
}

pub(super) fn claimed(count: usize) {
    counter!(CLAIMS).increment(count as u64);
}

pub(super) fn concern(concern: &'static str) {
    counter!(CONCERNS, "concern" => concern).increment(1);
}

pub(super) fn copied(took: Duration) {
    histogram!(COPY).record(took);
}

pub(super) fn ended(status: &'static str, took: Option<Duration>) {
    counter!(ENDED, "status" => status).increment(1);
    if let Some(took) = took {
        histogram!(DURATION, "status" => status).record(took);
    }
}

pub(super) fn failed(code: &str) {
    counter!(FAILURES, "code" => code.to_owned()).increment(1);
}

pub(super) fn farm_called(call: &'static str, took: Duration, failure: Option<Failure>) {
    let outcome = failure.map_or("answered", Failure::as_str);
    histogram!(FARM, "call" => call, "outcome" => outcome).record(took);
}

pub(super) fn in_hand(renders: usize, places: usize, waiting: usize) {
    gauge!(IN_HAND).set(number(renders as u64));
    gauge!(BUSY_PLACES).set(number(places as u64));
    gauge!(WAITING_FOR_LICENCE).set(number(waiting as u64));
}

pub(super) fn paused(is_paused: bool) {
    gauge!(PAUSED).set(if is_paused { 1.0 } else { 0.0 });
}

pub(super) fn recovered() {
    counter!(RECOVERIES).increment(1);
}

/// None after a failed sample.
pub(super) fn measured(gauges: Option<&RenderGauges>) {
    let found = |value: fn(&RenderGauges) -> f64| gauges.map_or(f64::NAN, value);
    for status in Status::ALL.into_iter().filter(|status| !status.is_terminal()) {
        let count = gauges.map_or(f64::NAN, |gauges| number(gauges.count(status)));
        gauge!(RENDERS, "status" => status.as_str()).set(count);
    }
    gauge!(OLDEST).set(found(|gauges| gauges.oldest_wait().as_secs_f64()));
    gauge!(LEFTOVERS).set(found(|gauges| number(gauges.counts.leftovers)));
    gauge!(WORKERS).set(found(|gauges| number(gauges.workers.len() as u64)));
    gauge!(SUCCESS).set(found(|gauges| gauges.success_ratio().unwrap_or(f64::NAN)));
}
