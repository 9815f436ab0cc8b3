//! A scan in one transaction: a chunk that cannot be written as a whole is written item by item, and savepoints take the
//! place of the commits and rollbacks that Spring Batch does for each item. The counters are the same.
//!
//! Items count as committed before they are. If the transaction is lost, the step fails, with the counters and the
//! position of the last real commit.

use crate::job::{ChunkListener, ChunkScope, Delivery, StepFailure, StepTask};
use crate::locked;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::job::chunk::Chunk;
use tidemill_domain::time::Monotonic;
use tidemill_store::StoreError;

/// After this time a scan commits what it has settled, so that it neither keeps locks nor lets a transaction idle for long.
const TRANSACTION_MAX: Duration = Duration::from_secs(1);

/// A processor that takes longer finds no open transaction, which would hold locks and could be ended by PostgreSQL.
pub(super) const PROCESS_MAX: Duration = Duration::from_millis(100);

pub(super) struct Scan {
    can_join: bool,
    /// When the first savepoint of the open transaction was set.
    since: Option<Monotonic>,
    /// Whether the open transaction has items that count as committed.
    pub(super) is_unsaved: bool,
}

impl Scan {
    /// Chunk listeners hear of each commit, so it must be one. A writer that writes elsewhere cannot undo by a savepoint.
    pub(super) fn new(listeners: &[Arc<dyn ChunkListener>], delivery: Delivery) -> Self {
        let can_join = listeners.is_empty() && delivery == Delivery::ExactlyOnce;
        Self { can_join, since: None, is_unsaved: false }
    }

    /// Whether a transaction is open that a failed item must not roll back.
    pub(super) fn is_open(&self) -> bool {
        self.since.is_some() || self.is_unsaved
    }

    /// Whether the items of this chunk are now written one by one in one transaction.
    pub(super) fn is_joined(&self, chunk: &Chunk<'_>) -> bool {
        self.can_join && chunk.is_scanning()
    }

    /// Sets the savepoint to which the next write is rolled back if it fails.
    pub(super) async fn mark(&mut self, scope: &mut ChunkScope, now: Monotonic) -> Result<(), StoreError> {
        let tx = scope.tx().await?;
        if self.since.is_some() {
            return tx.move_item_savepoint().await;
        }
        self.since = Some(now);
        tx.item_savepoint().await
    }

    pub(super) fn is_young(&self, now: Monotonic) -> bool {
        self.since.is_none_or(|since| now.since(since) < TRANSACTION_MAX)
    }

    /// Ends the open transaction: keeps what counts as committed, undoes the rest.
    pub(super) async fn settle(
        &mut self,
        task: &mut StepTask,
        scope: &mut ChunkScope,
    ) -> Result<(), StepFailure> {
        if self.is_unsaved {
            let counters = task.counters;
            task.save(scope, counters).await?;
        } else {
            scope.roll_back().await;
        }
        self.end();
        Ok(())
    }

    /// The transaction has ended.
    pub(super) fn end(&mut self) {
        (self.since, self.is_unsaved) = (None, false);
    }

    /// The transaction is lost, and with it what counted as committed.
    pub(super) fn forget(&mut self, task: &mut StepTask) {
        if self.is_unsaved {
            let saved = locked(&task.progress).clone();
            (task.counters, task.context) = (saved.counters, saved.context);
            task.counters.rollback += 1;
        }
        self.end();
    }
}
