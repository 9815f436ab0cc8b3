//! The metrics of pools. The only label is the name of an existing pool, so their number is bounded.

use super::metering::Tally;
use crate::metrics::number;
use metrics::{counter, gauge, histogram};
use std::time::Duration;
use tidemill_store::pool::PoolLevel;

crate::metrics::metric_names! {
    pub(crate) fn describe;

    counter ALLOWED = "tidemill_pool_acquire_allowed_total", "Requests that got all their units at once, by pool.";
    counter DOWNGRADED = "tidemill_pool_acquire_downgraded_total", "Requests that got fewer units than they asked for, by pool.";
    counter REQUESTS = "tidemill_pool_acquire_requests_total", "New requests for units, by pool.";
    counter TIMEOUTS = "tidemill_pool_acquire_timeouts_total", "Requests that left the queue without units, by pool.";
    counter WAITED = "tidemill_pool_acquire_waited_total", "Requests that got units after a wait, by pool.";
    gauge CAPACITY = "tidemill_pool_capacity_units", "Units that there are, by pool.";
    gauge IN_USE = "tidemill_pool_in_use_units", "Units in use, by pool.";
    gauge OLDEST_WAIT = "tidemill_pool_oldest_wait_seconds", "How long the oldest request of the queue has waited, by pool.";
    gauge OVER = "tidemill_pool_over_units", "Units in use beyond the limit, by pool.";
    histogram PASS = "tidemill_pool_pass_seconds", "How long passes over pools take, from the request to the commit.";
    counter PASS_COMMANDS = "tidemill_pool_pass_commands_total", "Commands that passes over pools decided about.";
    gauge SUSPECT = "tidemill_pool_suspect_leases", "Leases whose holders have not been heard of, by pool.";
    gauge UTILIZATION = "tidemill_pool_utilization_ratio", "Units in use of those that there are, from 0 to 1, by pool.";
    histogram WAIT = "tidemill_pool_wait_seconds", "How long requests waited that got units after a wait, by pool.";
    gauge WAITING = "tidemill_pool_waiting_requests", "Requests in the queue, by pool.";
}

pub(super) fn passed(took: Duration, commands: usize) {
    histogram!(PASS).record(took);
    counter!(PASS_COMMANDS).increment(commands as u64);
}

pub(super) fn counted(pool: &str, tally: &Tally) {
    let Tally { requests, allowed, downgraded, waited, timeouts, waits } = tally;
    counter!(REQUESTS, "pool" => pool.to_owned()).increment(*requests);
    counter!(ALLOWED, "pool" => pool.to_owned()).increment(*allowed);
    counter!(DOWNGRADED, "pool" => pool.to_owned()).increment(*downgraded);
    counter!(WAITED, "pool" => pool.to_owned()).increment(*waited);
    counter!(TIMEOUTS, "pool" => pool.to_owned()).increment(*timeouts);
    for wait in waits {
        histogram!(WAIT, "pool" => pool.to_owned()).record(*wait);
    }
}

/// Without a level the pool was removed, and its gauges are reset.
pub(super) fn measured(pool: &str, seen: Option<&PoolLevel>) {
    let value = |of: fn(&PoolLevel) -> f64| seen.map_or(0.0, of);
    gauge!(IN_USE, "pool" => pool.to_owned()).set(value(|seen| number(seen.level.usage)));
    gauge!(CAPACITY, "pool" => pool.to_owned()).set(value(|seen| f64::from(seen.level.max_units)));
    gauge!(UTILIZATION, "pool" => pool.to_owned()).set(value(|seen| seen.level.percent() / 100.0));
    gauge!(OVER, "pool" => pool.to_owned()).set(value(|seen| number(seen.level.over_by())));
    gauge!(WAITING, "pool" => pool.to_owned()).set(value(|seen| number(seen.waiting)));
    gauge!(SUSPECT, "pool" => pool.to_owned()).set(value(|seen| number(seen.suspect)));
    gauge!(OLDEST_WAIT, "pool" => pool.to_owned()).set(value(|seen| seen.oldest_wait.as_secs_f64()));
}
