//! The metrics of pools. The only label is the name of an existing pool, so their number is bounded.

use super::metering::Tally;
use crate::metrics::number;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::time::Duration;
use tidemill_store::pool::PoolLevel;

const ALLOWED: &str = "tidemill_pool_acquire_allowed_total";
const DOWNGRADED: &str = "tidemill_pool_acquire_downgraded_total";
const REQUESTS: &str = "tidemill_pool_acquire_requests_total";
const TIMEOUTS: &str = "tidemill_pool_acquire_timeouts_total";
const WAITED: &str = "tidemill_pool_acquire_waited_total";
const CAPACITY: &str = "tidemill_pool_capacity_units";
const IN_USE: &str = "tidemill_pool_in_use_units";
const OLDEST_WAIT: &str = "tidemill_pool_oldest_wait_seconds";
const OVER: &str = "tidemill_pool_over_units";
const PASS: &str = "tidemill_pool_pass_seconds";
const PASS_COMMANDS: &str = "tidemill_pool_pass_commands_total";
const SUSPECT: &str = "tidemill_pool_suspect_leases";
const UTILIZATION: &str = "tidemill_pool_utilization_ratio";
const WAIT: &str = "tidemill_pool_wait_seconds";
const WAITING: &str = "tidemill_pool_waiting_requests";

pub(crate) fn describe() {
    describe_counter!(ALLOWED, "Requests that got all their units at once, by pool.");
    describe_counter!(DOWNGRADED, "Requests that got fewer units than they asked for, by pool.");
    describe_counter!(REQUESTS, "New requests for units, by pool.");
    describe_counter!(TIMEOUTS, "Requests that left the queue without units, by pool.");
    describe_counter!(WAITED, "Requests that got units after a wait, by pool.");
    describe_gauge!(CAPACITY, "Units that there are, by pool.");
    describe_gauge!(IN_USE, "Units in use, by pool.");
    describe_gauge!(OLDEST_WAIT, "How long the oldest request of the queue has waited, by pool.");
    describe_gauge!(OVER, "Units in use beyond the limit, by pool.");
    describe_histogram!(PASS, "How long passes over pools take, from the request to the commit.");
    describe_counter!(PASS_COMMANDS, "Commands that passes over pools decided about.");
    describe_gauge!(SUSPECT, "Leases whose holders have not been heard of, by pool.");
    describe_gauge!(UTILIZATION, "Units in use of those that there are, from 0 to 1, by pool.");
    describe_histogram!(WAIT, "How long requests waited that got units after a wait, by pool.");
    describe_gauge!(WAITING, "Requests in the queue, by pool.");
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
