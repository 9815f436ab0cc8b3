//! What a relay asks of the database, and how long its batches take.

use super::{BATCHES, Member};
use crate::metrics;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::outbox::Effort;
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::time::Monotonic;

/// Database use of a relay since it joined, saved in its row. Atomic, because reads and looks run concurrently.
#[derive(Debug, Default)]
pub(super) struct PollCounters {
    polls: AtomicU64,
    empty_polls: AtomicU64,
    queries: AtomicU64,
}

impl PollCounters {
    pub(super) fn polled(&self, is_empty: bool) {
        metrics::outbox_polls(if is_empty { "nothing" } else { "events" }).increment(1);
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.empty_polls.fetch_add(is_empty.into(), Ordering::Relaxed);
    }

    pub(super) fn queried(&self, statements: u32) {
        metrics::outbox_queries().increment(statements.into());
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

impl Member<'_> {
    /// A relay with a fixed share logs each batch, in the format of the EMR Batch Agent.
    pub(super) fn batch_begins(&self, count: usize) -> Monotonic {
        if let Some(instance) = self.relay.options.instance {
            let id = instance.id();
            tracing::info!(target: BATCHES, "[Instance-{id}] Processing {count} events (partition {instance})");
        }
        self.now()
    }

    /// Logs a warning if the batch was slow. `table` is an attached table.
    pub(super) fn batch_ended(&self, begun: Monotonic, count: usize, table: Option<&TableName>) -> Duration {
        let spent = self.now().since(begun);
        metrics::outbox_batch_duration().record(spent);
        if spent > self.relay.options.slow {
            let id = self.id;
            let of = table.map(|table| format!(" of {table}")).unwrap_or_default();
            tracing::warn!(relay.id = %id, "relay {id} took {spent:?} for a batch of {count} events{of}");
        }
        spent
    }
}
