//! Deletes old tickets, log records and usage, in bounded shares, so that the lock of a pool is short.
//!
//! The run time of a deleted ticket is kept. The log is cut at a snapshot, so that the rest still gives the state.

use super::cache::{RELEASED, seconds_between};
use super::row::{
    EndedRunRow, ForgottenRow, PoolRow, RunTimeRow, SavedPass, SavedPool, SavedRecord, SavedRunTime, json,
};
use crate::error::{Result, damaged};
use crate::statement::{serialised, statements};
use crate::tx::Pools;
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::demand::PAST_DAYS;
use tidemill_domain::pool::event::Record;
use tidemill_domain::pool::run_times::RunKind;
use tidemill_domain::pool::usage::{UsageStep, step_of};
use tidemill_domain::time::Timestamp;

/// How long usage is kept: an hour more than the days that the demand is estimated from.
const USAGE_KEPT: Duration = Duration::from_secs((PAST_DAYS as u64 * 24 + 1) * 3600);

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
        let record =
            Record { version: ledger.version(), seq: 0, at: now, holder: None, event, summary: None };
        let saved = SavedPass {
            tickets: Vec::new(),
            records: vec![SavedRecord::new(name, &record)?],
            pools: vec![SavedPool::new(&ledger, &[])?],
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
            let Some(started_at) = row.started_at.filter(|_| row.ending == RELEASED) else {
                continue;
            };
            run_times.add_seconds(row.kind.clone(), row.class, seconds_between(started_at, row.ended_at));
            changed.insert(row.kind);
        }
        let mut saved = Vec::with_capacity(changed.len());
        for (kind, class, seconds) in run_times.kinds().filter(|(kind, ..)| changed.contains(kind)) {
            saved.push(SavedRunTime {
                pool: name.to_string(),
                dag_id: kind.dag_id.clone(),
                table_name: kind.table.clone(),
                parallel: kind.parallel.get(),
                class: class.as_str(),
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

    pub(super) async fn pool_locked(&mut self, name: &PoolName) -> Result<Option<PoolRow>> {
        Ok(self.pool_lock_all(&[name.to_string()]).await?.into_iter().next())
    }
}

statements! {
    fn pool_run_time_list(pool: &str) -> Vec<RunTimeRow> {
        "select dag_id, table_name, parallel, class, seconds from tidemill_pool_run_time where pool = $1
         order by dag_id, table_name, parallel"
    }

    /// The last successful ones, the oldest first.
    fn pool_ended_runs(pool: &str, limit: i64) -> Vec<EndedRunRow> {
        "select dag_id, table_name, parallel, class, started_at, ended_at
         from (
             select dag_id, table_name, parallel, class, started_at, ended_at
             from tidemill_pool_ticket
             where pool = $1
               and ending = 'released'
               and started_at is not null
             order by version desc
             limit $2
         ) as latest
         order by ended_at"
    }

    /// Deletes the oldest tickets that ended before then, in no order. Rows of ended ones never move: `ctid` is stable.
    fn pool_delete_ended(pool: &str, before: Timestamp, limit: u32) -> Vec<ForgottenRow> {
        postgres {
            "delete from tidemill_pool_ticket
             where ctid = any(array(
                 select ctid
                 from tidemill_pool_ticket
                 where pool = $1
                   and ended_at < $2
                 order by ended_at
                 limit $3
             ))
             returning dag_id, table_name, parallel, class, ending, version, started_at, ended_at"
        }
        sqlite {
            "delete from tidemill_pool_ticket
             where id in (
                 select id
                 from tidemill_pool_ticket
                 where pool = $1
                   and ended_at < $2
                 order by ended_at
                 limit $3
             )
             returning dag_id, table_name, parallel, class, ending, version, started_at, ended_at"
        }
    }

    fn pool_run_time_save(run_times: &[SavedRunTime]) -> () {
        bind(serialised(run_times)?)
        "insert into tidemill_pool_run_time (pool, dag_id, table_name, parallel, class, seconds)
         select pool, dag_id, table_name, parallel, class, seconds
         from {rows saved $1: pool text, dag_id text, table_name text, parallel bigint, class text, seconds text} where true
         on conflict (pool, dag_id, table_name, parallel) do update
         set class = excluded.class, seconds = excluded.seconds"
    }

    /// Adds the current usage to the present step of every pool, in lock order. Returns the number of pools.
    pub fn Pools::sample_usage() at now -> u64 {
        bind(step_of(now))
        "insert into tidemill_pool_usage as u (pool, at, least, most, total, samples, most_waiting, requested)
         select name, $1, usage, usage, usage, 1, waiting, requested from tidemill_pool where true order by name
         on conflict (pool, at) do update
         set least = {least}(u.least, excluded.least), most = {greatest}(u.most, excluded.most),
             total = u.total + excluded.total, samples = u.samples + 1,
             most_waiting = {greatest}(u.most_waiting, excluded.most_waiting), requested = excluded.requested"
    }

    /// Oldest first.
    pub fn Pools::usage(name: &PoolName, since: Timestamp) -> Vec<UsageStep> {
        bind(name.as_str(), since)
        "select pool, at, least, most, total, samples, most_waiting from tidemill_pool_usage
         where pool = $1 and at >= $2 order by at"
    }

    /// The oldest step that is kept.
    pub fn Pools::first_usage(name: &PoolName) -> Option<UsageStep> {
        bind(name.as_str())
        "select pool, at, least, most, total, samples, most_waiting from tidemill_pool_usage
         where pool = $1 order by at limit 1"
    }

    /// Deletes old steps. Returns how many.
    pub fn Pools::forget_usage(name: &PoolName) at now -> u64 {
        bind(name.as_str(), now.minus(USAGE_KEPT))
        "delete from tidemill_pool_usage where pool = $1 and at < $2"
    }
}
