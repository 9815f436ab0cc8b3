//! What is told of a batch, of whichever table it is: that a fixed share begins with it, and that it took long.

use super::member::Member;
use super::{BATCHES, metrics};
use std::time::Duration;
use tidemill_domain::outbox::adopted::TableName;
use tidemill_domain::time::Monotonic;

/// A batch that is under way.
#[derive(Debug)]
pub(super) struct Begun {
    at: Monotonic,
    count: usize,
}

impl Member<'_> {
    /// A batch of so many events begins. A relay with a fixed share says so, in the words of the document.
    pub(super) fn batch_begins(&self, count: usize) -> Begun {
        if let Some(instance) = self.relay.options.instance {
            let id = instance.id();
            tracing::info!(target: BATCHES, "[Instance-{id}] Processing {count} events (partition {instance})");
        }
        Begun { at: self.now(), count }
    }

    /// How long it took, now that it has ended; too long is worth a warning. The table is an adopted one.
    pub(super) fn batch_ended(&self, begun: &Begun, table: Option<&TableName>) -> Duration {
        let spent = self.now().since(begun.at);
        metrics::batch(spent);
        if spent > self.relay.options.slow {
            let (id, count) = (self.id, begun.count);
            let of = table.map(|table| format!(" of {table}")).unwrap_or_default();
            tracing::warn!(relay.id = %id, "relay {id} took {spent:?} for a batch of {count} events{of}");
        }
        spent
    }
}
