//! What a process remembers of its pools between two passes, so that a pass need not read every ticket again. The
//! version of a pool, compared under its lock, shows whether another process has changed it; then only changed tickets
//! are read.

use super::row::PoolRow;
use crate::codec::DbTime;
use crate::error::{Result, damaged};
use crate::store::Store;
use crate::tx::Pools;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use tidemill_domain::pool::estimate::{RUNS_KEPT, RunKind, RunTimes};
use tidemill_domain::pool::{Ledger, PoolName, State};
use tidemill_domain::time::Timestamp;

/// Ended runs to learn run times from.
const RUNS_READ: i64 = 20_000;

const RUN_TIME: &str = "tidemill_pool_run_time";

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
        let mut ledger = match known {
            Some(ledger) if ledger.version() == row.version => return Ok(ledger),
            // If the pool was recreated or tickets were deleted, the remembered ledger cannot be updated.
            Some(ledger) if (row.forgotten..row.version).contains(&ledger.version()) => ledger,
            _ => return self.pool_load(row).await,
        };
        for changed in self.pool_ticket_changed(&row.name, ledger.version()).await? {
            let ticket = changed.ticket;
            if let (Some(ended_at), Some(started_at), State::Released) =
                (changed.ended_at, ticket.claimed_at, ticket.state)
            {
                ledger.run_times.add(&ticket, ended_at.since(started_at));
            }
            ledger.put(ticket);
        }
        ledger.set_settings(row.settings()?);
        ledger.set_version(row.version);
        Ok(ledger)
    }

    async fn pool_load(&mut self, row: &PoolRow) -> Result<Ledger> {
        let mut ledger = self.pool_live(row).await?;
        let mut run_times = self.pool_old_run_times(&row.name).await?;
        for run in self.pool_ended_runs(&row.name, RUNS_READ).await? {
            let kind = run_kind(&row.name, run.dag_id, run.table_name, run.parallel)?;
            run_times.add_seconds(kind, seconds_between(run.started_at, run.ended_at));
        }
        ledger.run_times = run_times;
        Ok(ledger)
    }

    /// Only the live tickets, without history.
    pub(super) async fn pool_live(&mut self, row: &PoolRow) -> Result<Ledger> {
        let live = self.pool_ticket_live(&row.name).await?;
        let tickets: Vec<_> = live.into_iter().map(|record| record.ticket).collect();
        Ok(Ledger::restore(row.settings()?, row.version, tickets))
    }

    /// Run times of deleted tickets.
    pub(super) async fn pool_old_run_times(&mut self, pool: &str) -> Result<RunTimes> {
        let mut run_times = RunTimes::default();
        for row in self.pool_run_time_list(pool).await? {
            let seconds: Vec<u32> =
                serde_json::from_str(&row.seconds).map_err(|_| damaged(RUN_TIME, "seconds", pool))?;
            let kind = run_kind(pool, row.dag_id, row.table_name, row.parallel)?;
            for seconds in seconds.into_iter().take(RUNS_KEPT) {
                run_times.add_seconds(kind.clone(), seconds);
            }
        }
        Ok(run_times)
    }
}

pub(super) fn run_kind(pool: &str, dag_id: String, table: String, parallel: i64) -> Result<RunKind> {
    let parallel = u32::try_from(parallel).ok().and_then(NonZeroU32::new);
    Ok(RunKind { dag_id, table, parallel: parallel.ok_or_else(|| damaged(RUN_TIME, "parallel", pool))? })
}

pub(super) fn seconds_between(started_at: DbTime, ended_at: DbTime) -> u32 {
    let took = Timestamp::from(ended_at).since(started_at.into());
    u32::try_from(took.as_secs()).unwrap_or(u32::MAX)
}
