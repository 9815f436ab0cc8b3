//! The metrics of renders. Unknown values are NaN, never 0.

use super::gauge::RenderGauges;
use crate::metrics::number;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::time::Duration;
use tidemill_domain::render::{Failure, Status};

const BUSY_PLACES: &str = "tidemill_render_busy_places";
const CLAIMS: &str = "tidemill_render_claims_total";
const CONCERNS: &str = "tidemill_render_concerns_total";
const COPY: &str = "tidemill_render_copy_seconds";
const DURATION: &str = "tidemill_render_duration_seconds";
const ENDED: &str = "tidemill_render_ended_total";
const FAILURES: &str = "tidemill_render_failures_total";
const FARM: &str = "tidemill_render_nexrender_seconds";
const IN_HAND: &str = "tidemill_render_in_hand";
const LEFTOVERS: &str = "tidemill_render_leftover_jobs";
const OLDEST: &str = "tidemill_render_oldest_pending_seconds";
const PAUSED: &str = "tidemill_render_paused";
const RECOVERIES: &str = "tidemill_render_recoveries_total";
const RENDERS: &str = "tidemill_render_renders";
const SUCCESS: &str = "tidemill_render_success_ratio";
const WAITING_FOR_LICENCE: &str = "tidemill_render_waiting_for_licence";
const WORKERS: &str = "tidemill_render_workers";

pub(crate) fn describe() {
    describe_gauge!(BUSY_PLACES, "Places at the farm that the worker of this process has taken.");
    describe_counter!(CLAIMS, "Renders that the worker of this process has claimed.");
    describe_counter!(CONCERNS, "Things about renders that a person should hear of, by what they are.");
    describe_histogram!(COPY, "How long files take to be copied to the NAS.");
    describe_histogram!(DURATION, "How long renders take from the first claim to their end, by status.");
    describe_counter!(ENDED, "Renders that have ended in this process, by status.");
    describe_counter!(FAILURES, "Attempts at renders that have failed in this process, by code.");
    describe_histogram!(FARM, "How long nexrender takes to answer, by call and outcome.");
    describe_gauge!(IN_HAND, "Renders that the worker of this process has.");
    describe_gauge!(LEFTOVERS, "Jobs that are still to be taken out of nexrender.");
    describe_gauge!(OLDEST, "How long the oldest render has waited for a worker.");
    describe_gauge!(PAUSED, "Whether the worker of this process claims nothing, 1 or 0.");
    describe_counter!(RECOVERIES, "Renders that this process took from workers that had vanished.");
    describe_gauge!(RENDERS, "Renders that have not ended, by status.");
    describe_gauge!(SUCCESS, "Which part of the renders of the last 24 hours was completed, from 0 to 1.");
    describe_gauge!(WAITING_FOR_LICENCE, "Renders of this process that wait for a licence.");
    describe_gauge!(WORKERS, "Workers that are alive.");
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
