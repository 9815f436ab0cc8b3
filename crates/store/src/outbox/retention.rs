//! Deletes old events that every slot has passed and that are not needed any more: on PostgreSQL by dropping whole
//! partitions, on SQLite and in the default partition in portions.
//!
//! Dropping a partition takes two steps. The first checks all its events without a lock and keeps its snapshot. The
//! second locks the table for an instant and only checks that nothing was written since that snapshot. Slots never go
//! back and a read event never fails later, so the result of the first still holds.

use super::place::PlaceRows;
use crate::error::{Result, StoreError};
use crate::outbox::Partition;
use crate::store::Store;
use crate::tx::Outbox;
use std::time::Duration;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::partition::Range;
use tidemill_domain::outbox::restore::RestoreState;
use tidemill_domain::time::Timestamp;

/// Events per transaction.
const PORTION: u32 = 1_000;

/// How long ended relays are kept.
pub(crate) const RELAYS_KEPT: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    pub dropped: Vec<Range>,
    pub deleted: u64,
    pub relays: u64,
    /// There is more to delete: too much for one round, or a lock was in the way.
    pub is_short: bool,
}

impl Store {
    /// Deletes events written longer than `keep_for` ago, in at most `most` partitions and portions.
    #[crate::boxed]
    pub async fn retain_outbox(&self, keep_for: Duration, most: usize) -> Result<Retained> {
        let mut retained = Retained::default();
        let mut tx = self.read().await?;
        // Snapshots of another server say nothing about events written here.
        if tx.outbox().restore_state().await? == RestoreState::Restored {
            return Ok(Retained { is_short: true, ..retained });
        }
        let before = tx.now().await?.minus(keep_for);
        let candidates = tx.outbox().outbox_old_partitions(before).await?;
        drop(tx);
        for range in candidates.into_iter().take(most) {
            match self.drop_passed(range, before).await {
                Ok(true) => retained.dropped.push(range),
                Ok(false) => {}
                Err(StoreError::Busy(error)) => {
                    tracing::debug!(%error, "a partition of the outbox was not dropped; will try again");
                    retained.is_short = true;
                }
                Err(error) => return Err(error),
            }
        }
        let mut next = Some(0);
        for _ in 0..most {
            let Some(after) = next else { break };
            let (deleted, more_after) = self.delete_passed(before, after).await?;
            retained.deleted += deleted;
            next = more_after;
        }
        retained.is_short |= next.is_some();
        let mut tx = self.begin().await?;
        let ended_before = tx.now().await?.minus(RELAYS_KEPT);
        retained.relays = tx.outbox_delete_relays(ended_before, PORTION).await?;
        tx.commit().await?;
        Ok(retained)
    }

    /// Whether the partition is gone.
    async fn drop_passed(&self, range: Range, before: Timestamp) -> Result<bool> {
        let mut tx = self.read().await?;
        let places = tx.outbox().outbox_place_rows().await?;
        let failed = tx.outbox_is_failed(range).await?;
        let snapshot = match failed {
            true => None,
            false => tx.outbox_passed(range, &places, before).await?,
        };
        drop(tx);
        let Some(snapshot) = snapshot else { return Ok(false) };

        let mut tx = self.begin().await?;
        if !tx.outbox_keeper_lock().await? || !tx.outbox().outbox_has(range).await? {
            return Ok(false);
        }
        tx.outbox_hurry().await?;
        tx.outbox_lock_alone().await?;
        if tx.outbox_is_written_since(range, &snapshot, places.floor).await?
            || tx.outbox_is_failed(range).await?
        {
            return Ok(false);
        }
        tx.outbox_partition_drop(range).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn delete_passed(&self, before: Timestamp, after: i64) -> Result<(u64, Option<i64>)> {
        let mut tx = self.begin().await?;
        let places = tx.outbox().outbox_place_rows().await?;
        let deleted = tx.outbox_delete_passed(&places, before, after, PORTION.into()).await?;
        tx.commit().await?;
        Ok(deleted)
    }
}

impl Outbox<'_> {
    pub(super) async fn outbox_place_rows(&mut self) -> Result<PlaceRows> {
        let places = self.places().await?;
        Ok(PlaceRows::new(&places, self.floor().await?))
    }

    /// Partitions behind the reading position whose last event is old, the oldest first.
    async fn outbox_old_partitions(&mut self, before: Timestamp) -> Result<Vec<Range>> {
        let last = EventId::new(self.outbox_last_id().await?);
        let mut old = Vec::new();
        for partition in self.partitions().await?.iter().filter(|partition| partition.is_ours()) {
            let Some(range) = partition.range.filter(|range| range.is_behind(last)) else { continue };
            let newest = self.outbox_partition_newest(range).await?;
            if newest.is_none_or(|newest| newest.0 < before) {
                old.push(range);
            }
        }
        Ok(old)
    }

    async fn outbox_has(&mut self, range: Range) -> Result<bool> {
        let is_it = |partition: &Partition| partition.is_ours() && partition.range == Some(range);
        Ok(self.partitions().await?.iter().any(is_it))
    }
}
