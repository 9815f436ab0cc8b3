//! What a relay asks of the database, counted for the metrics of its process and for its row, where everybody sees it.

use super::metrics;
use std::sync::atomic::{AtomicU64, Ordering};
use tidemill_domain::outbox::Effort;

/// Counts since the relay joined. Reads and looks run side by side, hence the atomics.
#[derive(Debug, Default)]
pub(super) struct Counting {
    polls: AtomicU64,
    empty_polls: AtomicU64,
    queries: AtomicU64,
}

impl Counting {
    /// It has asked for events; whether there were none.
    pub(super) fn polled(&self, is_empty: bool) {
        metrics::polled(is_empty);
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.empty_polls.fetch_add(is_empty.into(), Ordering::Relaxed);
    }

    /// It sends so many statements.
    pub(super) fn queried(&self, statements: u32) {
        metrics::queried(statements);
        self.queries.fetch_add(statements.into(), Ordering::Relaxed);
    }

    /// What that has come to.
    pub(super) fn so_far(&self) -> Effort {
        // In this order there are never more polls in vain than polls.
        let empty_polls = self.empty_polls.load(Ordering::Relaxed);
        Effort {
            polls: self.polls.load(Ordering::Relaxed).max(empty_polls),
            empty_polls,
            queries: self.queries.load(Ordering::Relaxed),
        }
    }
}
