//! The metrics of relays, and the log lines of batches.

use super::{BATCHES, Member};
use metrics::{counter, gauge, histogram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::outbox::Effort;
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::time::Monotonic;

crate::metrics::metric_names! {
    pub(in crate::outbox) fn describe;

    histogram BATCH_DURATION = "tidemill_outbox_batch_duration_seconds", "How long batches take from reading to their acknowledgement.";
    counter JOINS_REFUSED = "tidemill_outbox_joins_refused_total", "Times that the relay of this process was refused by its settings.";
    counter POLLS = "tidemill_outbox_polls_total", "Times that the relay of this process asked for events, by whether there were any.";
    counter PUBLISHED = "tidemill_outbox_published_total", "Events that this process has published and acknowledged.";
    counter QUERIES = "tidemill_outbox_queries_total", "Statements by which the relay of this process looked, read and acknowledged.";
    counter REFUSED = "tidemill_outbox_refused_total", "Events that the sink refused.";
    counter RELAYS_RETIRED = "tidemill_outbox_relays_retired_total", "Silent relays that this process has retired.";
    counter SINK_FAILURES = "tidemill_outbox_sink_failures_total", "Publications that failed as a whole, so that they are tried again.";
    gauge SLOTS = "tidemill_outbox_slots", "Slots that the relay of this process has.";
}

pub(super) fn join_refused() {
    counter!(JOINS_REFUSED).increment(1);
}

pub(super) fn published(events: usize) {
    counter!(PUBLISHED).increment(events as u64);
}

pub(super) fn refused() {
    counter!(REFUSED).increment(1);
}

pub(super) fn retired() {
    counter!(RELAYS_RETIRED).increment(1);
}

pub(super) fn slots(held: usize) {
    gauge!(SLOTS).set(held as f64);
}

pub(super) fn unavailable() {
    counter!(SINK_FAILURES).increment(1);
}

/// Database use of a relay since it joined, saved in its row. Atomic, because reads and looks run concurrently.
#[derive(Debug, Default)]
pub(super) struct PollCounters {
    polls: AtomicU64,
    empty_polls: AtomicU64,
    queries: AtomicU64,
}

impl PollCounters {
    pub(super) fn polled(&self, is_empty: bool) {
        counter!(POLLS, "found" => if is_empty { "nothing" } else { "events" }).increment(1);
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.empty_polls.fetch_add(is_empty.into(), Ordering::Relaxed);
    }

    pub(super) fn queried(&self, statements: u32) {
        counter!(QUERIES).increment(statements.into());
        self.queries.fetch_add(statements.into(), Ordering::Relaxed);
    }

    pub(super) fn so_far(&self) -> Effort {
        // In this order, so that there are never more empty polls than polls.
        let empty_polls = self.empty_polls.load(Ordering::Relaxed);
        Effort {
            polls: self.polls.load(Ordering::Relaxed).max(empty_polls),
            empty_polls,
            queries: self.queries.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug)]
pub(super) struct BatchTimer {
    at: Monotonic,
    count: usize,
}

impl Member<'_> {
    /// A relay with a fixed share logs each batch, in the format of the EMR Batch Agent.
    pub(super) fn batch_begins(&self, count: usize) -> BatchTimer {
        if let Some(instance) = self.relay.options.instance {
            let id = instance.id();
            tracing::info!(target: BATCHES, "[Instance-{id}] Processing {count} events (partition {instance})");
        }
        BatchTimer { at: self.now(), count }
    }

    /// Logs a warning if the batch was slow. `table` is an attached table.
    pub(super) fn batch_ended(&self, begun: &BatchTimer, table: Option<&TableName>) -> Duration {
        let spent = self.now().since(begun.at);
        histogram!(BATCH_DURATION).record(spent.as_secs_f64());
        if spent > self.relay.options.slow {
            let (id, count) = (self.id, begun.count);
            let of = table.map(|table| format!(" of {table}")).unwrap_or_default();
            tracing::warn!(relay.id = %id, "relay {id} took {spent:?} for a batch of {count} events{of}");
        }
        spent
    }
}
