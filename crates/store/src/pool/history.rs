//! Deletes old tickets, log records and usage, in bounded shares, so that the lock of a pool is short.
//!
//! The run time of a deleted ticket is kept. The log is cut at a snapshot, so that the state still follows from the
//! rest.

use super::cache::seconds_between;
use super::row::{PoolRow, SavedPass, SavedPool, SavedRecord, SavedRunTime, json};
use crate::error::{Result, damaged};
use crate::tx::Pools;
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::pool::estimate::RunKind;
use tidemill_domain::pool::event::Record;
use tidemill_domain::pool::{PoolName, State};

impl Pools<'_> {
    /// Writes the whole state of a pool into its log, if something was decided since the last snapshot and that is
    /// older than `every`. True if it did.
    #[crate::boxed]
    pub async fn snapshot(&mut self, name: &PoolName, every: Duration) -> Result<bool> {
        let Some(row) = self.pool_locked(name).await? else { return Ok(false) };
        let now = self.now().await?;
        let last = self.pool_log_snapshot_before(name.as_str(), now.plus(Duration::from_micros(1))).await?;
        let first = (row.log_from - 1, row.record.created_at);
        let (version, since) = last.map_or(first, |(version, at)| (version, at.into()));
        if version == row.record.version || now.since(since) < every {
            return Ok(false);
        }
        let mut ledger = self.pool_live(&row).await?;
        let event = ledger.snapshot();
        ledger.set_version(row.record.version + 1);
        let record = Record { version: ledger.version(), seq: 0, at: now, holder: None, event };
        let saved = SavedPass {
            tickets: Vec::new(),
            records: vec![SavedRecord::new(name, &record)?],
            pools: vec![SavedPool::new(&ledger)],
        };
        self.pool_save(&saved, row.record.changed_at).await?;
        Ok(true)
    }

    /// Deletes at most `limit` tickets that ended longer ago than `keep`, and keeps their run times. Returns how many.
    #[crate::boxed]
    pub async fn forget_tickets(&mut self, name: &PoolName, keep: Duration, limit: u32) -> Result<u64> {
        if self.pool_locked(name).await?.is_none() {
            return Ok(0);
        }
        let before = self.now().await?.minus(keep);
        let mut gone = self.pool_delete_ended(name.as_str(), before, limit).await?;
        let Some(version) = gone.iter().map(|row| row.version).max() else { return Ok(0) };
        gone.sort_by_key(|row| row.ended_at);
        let mut run_times = self.pool_old_run_times(name.as_str()).await?;
        let mut changed: BTreeSet<RunKind> = BTreeSet::new();
        let count = u64::try_from(gone.len()).unwrap_or(u64::MAX);
        for row in gone {
            let Some(started_at) = row.started_at.filter(|_| row.state == State::Released.as_str()) else {
                continue;
            };
            run_times.add_seconds(row.kind.clone(), seconds_between(started_at, row.ended_at));
            changed.insert(row.kind);
        }
        let mut saved = Vec::with_capacity(changed.len());
        for (kind, seconds) in run_times.kinds().filter(|(kind, _)| changed.contains(kind)) {
            saved.push(SavedRunTime {
                pool: name.to_string(),
                dag_id: kind.dag_id.clone(),
                table_name: kind.table.clone(),
                parallel: kind.parallel.get(),
                seconds: json(&seconds)?,
            });
        }
        self.pool_run_time_save(&saved).await?;
        // Processes that have not seen the end of these tickets could not find out any more.
        self.pool_forget(name.as_str(), version).await?;
        Ok(count)
    }

    /// Deletes at most `limit` log records before the last snapshot that is older than `keep`. Returns how many.
    #[crate::boxed]
    pub async fn forget_log(&mut self, name: &PoolName, keep: Duration, limit: u32) -> Result<u64> {
        let Some(row) = self.pool_locked(name).await? else { return Ok(0) };
        let before = self.now().await?.minus(keep);
        let Some((version, _)) = self.pool_log_snapshot_before(name.as_str(), before).await? else {
            return Ok(0);
        };
        if version > row.record.version {
            return Err(damaged("tidemill_pool_log", "version", name));
        }
        // First, so that a reader of a half-deleted log begins at the snapshot.
        self.pool_begin_log(name.as_str(), version).await?;
        Ok(self.pool_log_delete_before(name.as_str(), version, limit).await?)
    }

    async fn pool_locked(&mut self, name: &PoolName) -> Result<Option<PoolRow>> {
        Ok(self.pool_lock_all(&[name.to_string()]).await?.into_iter().next())
    }
}
