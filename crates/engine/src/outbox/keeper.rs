//! The keeper of the outbox: makes partitions ahead, forgets what is old, notices when the database has become that of
//! another server, and measures. One relay does it, that which has slot 0; more than one do no harm.

use super::metrics;
use crate::error::EngineError;
use std::time::Duration;
use tidemill_store::outbox::{Checked, Extended, OutboxStats, Retained};
use tidemill_store::{Store, StoreError};

/// How the outbox is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperOptions {
    /// Ids of one partition.
    pub partition_rows: i64,
    /// Empty partitions that lie ahead.
    pub partitions_ahead: usize,
    /// How long events are kept that were published.
    pub keep_for: Duration,
    /// Partitions, and portions of events, that go in one round.
    pub most_per_round: usize,
    /// How far is counted.
    pub count_max: u32,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self {
            partition_rows: 1_000_000,
            partitions_ahead: 2,
            keep_for: Duration::from_secs(7 * 24 * 3600),
            most_per_round: 10,
            count_max: 10_000,
        }
    }
}

/// What one round came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Whether marks are from this server, and what was done about it.
    pub checked: Checked,
    /// Partitions that were made.
    pub extended: Extended,
    /// What was forgotten.
    pub retained: Retained,
    /// What was measured.
    pub stats: OutboxStats,
}

/// One round. What can be done is done also when another part fails; the first failure is returned. What could not be
/// measured is told as unknown.
pub async fn keep(store: &Store, options: &KeeperOptions) -> Result<Kept, EngineError> {
    let checked = store.check_outbox().await;
    let extended = store.extend_outbox(options.partition_rows, options.partitions_ahead).await;
    let retained = store.retain_outbox(options.keep_for, options.most_per_round).await;
    let stats = measure(store, options.count_max).await;
    match &stats {
        Ok(stats) => metrics::measured(stats),
        Err(_) => metrics::unknown(),
    }
    let kept = Kept { checked: checked?, extended: extended?, retained: retained?, stats: stats? };
    if kept.checked.excepted > 0 {
        tracing::warn!(
            excepted = kept.checked.excepted,
            "the outbox was restored into another server; {} events that were not read are excepted",
            kept.checked.excepted
        );
    }
    Ok(kept)
}

/// This process no longer keeps the outbox: what it has told of it is no longer known here.
pub fn forget() {
    metrics::unknown();
}

async fn measure(store: &Store, count_max: u32) -> Result<OutboxStats, StoreError> {
    let mut tx = store.read().await?;
    let stats = tx.outbox_stats(count_max).await?;
    tx.rollback().await?;
    Ok(stats)
}
