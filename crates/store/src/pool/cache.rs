//! What a process remembers of its pools between two passes. A pool's version, compared under its lock, shows whether
//! another process has changed it; then only changed tickets are read.

use super::PoolRecord;
use super::row::PoolRow;
use crate::error::Result;
use crate::store::Store;
use crate::tx::Pools;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::pool::run_times::{RUNS_KEPT, RunTimes};
use tidemill_domain::pool::{End, Ledger, PoolName};
use tidemill_domain::time::Timestamp;

/// How successful runs end.
pub(super) const RELEASED: &str = End::Released { failed: false }.as_str();

/// Ended runs to learn run times from.
const RUNS_READ: i64 = 20_000;

/// Not shared between tasks: the decider owns it.
#[derive(Clone, Debug, Default)]
pub struct PoolCache {
    ledgers: BTreeMap<PoolName, Ledger>,
}

impl PoolCache {
    /// The pool after the last pass of this process.
    pub fn ledger(&self, pool: &PoolName) -> Option<&Ledger> {
        self.ledgers.get(pool)
    }

    pub fn ledgers(&self) -> impl Iterator<Item = (&PoolName, &Ledger)> {
        self.ledgers.iter()
    }

    /// The pool is read again when needed.
    pub fn forget(&mut self, pool: &PoolName) {
        self.ledgers.remove(pool);
    }

    pub(crate) fn take(&mut self, pool: &PoolName) -> Option<Ledger> {
        self.ledgers.remove(pool)
    }

    pub(crate) fn put_all(&mut self, ledgers: BTreeMap<PoolName, Ledger>) {
        self.ledgers.extend(ledgers);
    }
}

impl Store {
    /// Brings these pools up to date, without a lock. True if one of them is gone.
    #[crate::boxed]
    pub async fn pool_refresh(&self, cache: &mut PoolCache, pools: &BTreeSet<PoolName>) -> Result<bool> {
        let mut tx = self.read().await?;
        let mut is_one_gone = false;
        for pool in pools {
            match tx.pool_find(pool.as_str()).await? {
                Some(row) => {
                    let known = cache.take(pool);
                    let ledger = tx.pools().pool_refresh(&row, known).await?;
                    cache.ledgers.insert(pool.clone(), ledger);
                }
                None => {
                    cache.forget(pool);
                    is_one_gone = true;
                }
            }
        }
        Ok(is_one_gone)
    }
}

impl Pools<'_> {
    /// Brings a pool up to date with its row, which was locked or read in this transaction.
    pub(crate) async fn pool_refresh(&mut self, row: &PoolRow, known: Option<Ledger>) -> Result<Ledger> {
        let PoolRecord { settings, version, .. } = &row.record;
        let mut ledger = match known {
            Some(ledger) if ledger.version() == *version => return Ok(ledger),
            // If the pool was recreated or tickets were deleted, the remembered ledger cannot be updated.
            Some(ledger) if (row.forgotten..*version).contains(&ledger.version()) => ledger,
            _ => return self.pool_load(row).await,
        };
        for changed in self.pool_ticket_changed(settings.name.as_str(), ledger.version()).await? {
            let ticket = changed.ticket;
            // Refused and failed runs say nothing about how long it takes.
            let is_success = changed.ending.as_deref() == Some(RELEASED);
            if let (Some(ended_at), Some(started_at), true) =
                (changed.ended_at, ticket.claimed_at, is_success)
            {
                ledger.run_times.add(&ticket, ended_at.since(started_at));
            }
            ledger.put(ticket);
        }
        ledger.set_settings(settings.clone());
        ledger.set_breaker(row.record.breaker.clone());
        ledger.set_version(*version);
        Ok(ledger)
    }

    async fn pool_load(&mut self, row: &PoolRow) -> Result<Ledger> {
        let mut ledger = self.pool_live(row).await?;
        let name = row.record.settings.name.as_str();
        let mut run_times = self.pool_old_run_times(name).await?;
        for run in self.pool_ended_runs(name, RUNS_READ).await? {
            run_times.add_seconds(run.kind, run.class, seconds_between(run.started_at, run.ended_at));
        }
        ledger.run_times = run_times;
        Ok(ledger)
    }

    /// Only the live tickets, without history.
    pub(super) async fn pool_live(&mut self, row: &PoolRow) -> Result<Ledger> {
        let PoolRecord { settings, version, .. } = &row.record;
        let live = self.pool_ticket_live(settings.name.as_str()).await?;
        let tickets: Vec<_> = live.into_iter().map(|record| record.ticket).collect();
        let mut ledger = Ledger::restore(settings.clone(), *version, tickets);
        ledger.set_breaker(row.record.breaker.clone());
        Ok(ledger)
    }

    /// Run times of deleted tickets.
    pub(super) async fn pool_old_run_times(&mut self, pool: &str) -> Result<RunTimes> {
        let mut run_times = RunTimes::default();
        for row in self.pool_run_time_list(pool).await? {
            for seconds in row.seconds.into_iter().take(RUNS_KEPT) {
                run_times.add_seconds(row.kind.clone(), row.class, seconds);
            }
        }
        Ok(run_times)
    }
}

pub(super) fn seconds_between(started_at: Timestamp, ended_at: Timestamp) -> u32 {
    u32::try_from(ended_at.since(started_at).as_secs()).unwrap_or(u32::MAX)
}
