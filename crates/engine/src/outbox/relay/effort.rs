//! What a relay asks of the database, and how long its batches take.

use super::{BATCHES, Member};
use crate::{locked, metrics};
use std::sync::Mutex;
use std::time::Duration;
use tidemill_domain::outbox::Effort;
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::time::Monotonic;
use tidemill_store::trace;
use tracing::Span;

/// Database use of a relay since it joined, saved in its row. Shared, because reads and looks run concurrently.
#[derive(Debug, Default)]
pub(super) struct PollCounters(Mutex<Effort>);

impl PollCounters {
    pub(super) fn polled(&self, is_empty: bool) {
        metrics::outbox_polls(if is_empty { "nothing" } else { "events" }).increment(1);
        let mut effort = locked(&self.0);
        effort.polls += 1;
        effort.empty_polls += u64::from(is_empty);
    }

    pub(super) fn queried(&self, statements: u32) {
        metrics::outbox_queries().increment(statements.into());
        locked(&self.0).queries += u64::from(statements);
    }

    pub(super) fn so_far(&self) -> Effort {
        *locked(&self.0)
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

/// For traces: the work on a batch of this many events.
pub(super) fn batch_span(count: usize) -> Span {
    tracing::info_span!(
        target: trace::TARGET,
        "relay batch",
        otel.kind = "producer",
        messaging.operation.name = "send",
        // OpenTelemetry has no unsigned numbers; they would become text.
        messaging.batch.message_count = i64::try_from(count).unwrap_or(i64::MAX),
    )
}
