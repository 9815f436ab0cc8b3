//! The metrics of the outbox. Unknown values are NaN, never 0.

use super::gauge::RelayWork;
use metrics::gauge;
use std::collections::BTreeSet;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::{AttachedStats, Backlog, OutboxStats};

crate::metrics::metric_names! {
    fn describe_own;

    gauge ATTACHED_OLDEST = "tidemill_outbox_attached_oldest_seconds", "Age of the oldest row of an attached table that is to be sent.";
    gauge ATTACHED_ROWS = "tidemill_outbox_attached_rows", "Rows of an attached table that are not published, by status.";
    gauge DEFAULT_ROWS = "tidemill_outbox_default_rows", "Events in the default partition, because no other one was there.";
    gauge EMPTY_POLLS = "tidemill_outbox_empty_poll_ratio", "Which part of the polls of all relays found nothing, since the last look.";
    gauge FAILED_EVENTS = "tidemill_outbox_failed_events", "Events that were not taken, and those behind them, by state.";
    gauge FAILED_EVENTS_OLDEST = "tidemill_outbox_failed_events_oldest_seconds", "Age of the oldest event that was not taken, by state.";
    gauge LAG = "tidemill_outbox_lag_events", "Events that no relay has read yet.";
    gauge OLDEST = "tidemill_outbox_oldest_seconds", "Age of the oldest event that no relay has read yet.";
    gauge PUBLISHED = "tidemill_outbox_published_per_second", "Events per second of all relays, since the last look.";
    gauge QUERIES = "tidemill_outbox_queries_per_10000_events", "Statements of all relays for 10,000 events, since the last look.";
    gauge RELAYS = "tidemill_outbox_relays", "Relays that are alive.";
    gauge UNOWNED = "tidemill_outbox_unowned_slots", "Slots that no live relay has.";
    gauge UNPUBLISHED = "tidemill_outbox_unpublished_events", "Events that are still to be published: not read yet, or not taken.";
    gauge UNPUBLISHED_OLDEST = "tidemill_outbox_unpublished_oldest_seconds", "Age of the oldest event that is still to be published.";
    gauge WAL = "tidemill_outbox_wal_bytes_per_event", "Bytes of the write-ahead log that acknowledgements cost for each event.";
}

pub(crate) fn describe() {
    super::relay::describe();
    describe_own();
}

/// `stats` are none after a failed sample; `done` is the work since the previous one.
pub(super) fn measured(stats: Option<&OutboxStats>, done: Option<RelayWork>) {
    let found = |value: fn(&OutboxStats) -> f64| stats.map_or(f64::NAN, value);
    gauge!(LAG).set(found(|stats| rows(stats.unread())));
    gauge!(OLDEST).set(found(|stats| age(stats.unread(), stats.at)));
    gauge!(UNPUBLISHED).set(found(|stats| rows(stats.unpublished())));
    gauge!(UNPUBLISHED_OLDEST).set(found(|stats| age(stats.unpublished(), stats.at)));
    for state in StateWord::ALL {
        let failed = stats.map(|stats| stats.failed_events.of(state));
        gauge!(FAILED_EVENTS, "state" => state.as_str()).set(rows(failed));
    }
    for state in StateWord::OPEN {
        let oldest = stats.map_or(f64::NAN, |stats| age(Some(stats.failed_events.of(state)), stats.at));
        gauge!(FAILED_EVENTS_OLDEST, "state" => state.as_str()).set(oldest);
    }
    gauge!(DEFAULT_ROWS).set(found(|stats| stats.default_rows.map_or(f64::NAN, number)));
    gauge!(RELAYS).set(found(|stats| stats.relays.len() as f64));
    gauge!(UNOWNED).set(found(|stats| number(Count::Exactly(stats.unowned))));
    gauge!(WAL).set(found(|stats| stats.wal_bytes_per_event.unwrap_or(f64::NAN)));
    let known = |value: fn(RelayWork) -> Option<f64>| done.and_then(value).unwrap_or(f64::NAN);
    gauge!(PUBLISHED).set(known(|done| done.tally.published_per_second(done.spent)));
    gauge!(EMPTY_POLLS).set(known(|done| done.tally.empty_poll_ratio()));
    gauge!(QUERIES).set(known(|done| done.tally.queries_per_10000_events()));
}

/// Tables of the previous sample that are no longer attached become unknown.
pub(super) fn attached(
    stats: &[AttachedStats],
    now: Timestamp,
    before: &BTreeSet<String>,
) -> BTreeSet<String> {
    let tables: BTreeSet<String> = stats.iter().map(|table| table.name.to_string()).collect();
    for table in stats {
        let (table, counts) = (table.name.to_string(), table.counts);
        let known = [
            counts.map(|counts| counts.pending),
            counts.map(|counts| counts.sending),
            counts.map(|counts| counts.failed),
        ];
        let oldest = counts.map(|counts| Backlog { rows: counts.pending, oldest: counts.oldest });
        set_attached(&table, known.map(|count| count.map_or(f64::NAN, number)), age(oldest, now));
    }
    nothing_attached(&before.difference(&tables).cloned().collect());
    tables
}

pub(super) fn nothing_attached(tables: &BTreeSet<String>) {
    for table in tables {
        set_attached(table, [f64::NAN; 3], f64::NAN);
    }
}

fn set_attached(table: &str, rows: [f64; 3], oldest: f64) {
    for (status, rows) in ["pending", "sending", "failed"].into_iter().zip(rows) {
        gauge!(ATTACHED_ROWS, "table" => table.to_owned(), "status" => status).set(rows);
    }
    gauge!(ATTACHED_OLDEST, "table" => table.to_owned()).set(oldest);
}

fn rows(backlog: Option<Backlog>) -> f64 {
    backlog.map_or(f64::NAN, |backlog| number(backlog.rows))
}

/// 0 if there are no rows.
fn age(backlog: Option<Backlog>, now: Timestamp) -> f64 {
    match backlog {
        Some(Backlog { oldest: Some(oldest), .. }) => now.since(oldest).as_secs_f64(),
        Some(Backlog { rows: Count::Exactly(0), .. }) => 0.0,
        _ => f64::NAN,
    }
}

fn number(count: Count) -> f64 {
    crate::metrics::number(count.least())
}
