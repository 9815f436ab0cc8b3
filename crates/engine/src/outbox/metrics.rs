//! The metrics of the outbox. What is not known is NaN, never 0.

use metrics::{describe_gauge, gauge};
use tidemill_domain::outbox::Count;
use tidemill_store::outbox::{Backlog, OutboxStats};

const DEFAULT_ROWS: &str = "tidemill_outbox_default_rows";
const EXCEPTIONS: &str = "tidemill_outbox_exceptions";
const LAG: &str = "tidemill_outbox_lag_events";
const OLDEST: &str = "tidemill_outbox_oldest_seconds";
const UNOWNED: &str = "tidemill_outbox_unowned_slots";
const WAL: &str = "tidemill_outbox_wal_bytes_per_event";

/// Tells the recorder what the metrics mean.
pub(crate) fn describe() {
    super::relay::describe();
    describe_gauge!(DEFAULT_ROWS, "Events in the default partition, because no other one was there.");
    describe_gauge!(EXCEPTIONS, "Events that were not taken, and those behind them, by state.");
    describe_gauge!(LAG, "Events that no relay has read yet.");
    describe_gauge!(OLDEST, "Age of the oldest event that no relay has read yet.");
    describe_gauge!(UNOWNED, "Slots that no live relay has.");
    describe_gauge!(WAL, "Bytes of the write-ahead log that acknowledgements cost for each event.");
}

/// What a look has found.
pub(super) fn measured(stats: &OutboxStats) {
    let backlog = stats.lag.as_deref().map(Backlog::of);
    gauge!(LAG).set(backlog.map_or(f64::NAN, |backlog| number(backlog.rows)));
    gauge!(OLDEST).set(backlog.map_or(f64::NAN, |backlog| {
        backlog.oldest.map_or(0.0, |oldest| stats.at.since(oldest).as_secs_f64())
    }));
    let exceptions = stats.exceptions;
    for (state, count) in [
        ("waiting", exceptions.waiting),
        ("held", exceptions.held),
        ("parked", exceptions.parked),
        ("skipped", exceptions.skipped),
    ] {
        gauge!(EXCEPTIONS, "state" => state).set(number(count));
    }
    gauge!(DEFAULT_ROWS).set(stats.default_rows.map_or(f64::NAN, number));
    gauge!(UNOWNED).set(number(Count::Exactly(stats.unowned)));
    gauge!(WAL).set(stats.wal_bytes_per_event.unwrap_or(f64::NAN));
}

/// Nothing was found out.
pub(super) fn unknown() {
    gauge!(LAG).set(f64::NAN);
    gauge!(OLDEST).set(f64::NAN);
    for state in ["waiting", "held", "parked", "skipped"] {
        gauge!(EXCEPTIONS, "state" => state).set(f64::NAN);
    }
    gauge!(DEFAULT_ROWS).set(f64::NAN);
    gauge!(UNOWNED).set(f64::NAN);
    gauge!(WAL).set(f64::NAN);
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts as far as a f64 can count")]
fn number(count: Count) -> f64 {
    count.least() as f64
}
