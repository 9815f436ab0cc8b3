//! What a process remembers of its pools between two passes, so that a pass need not read every ticket again. The version
//! of a pool, compared under its lock, says whether somebody else has changed it in the meantime; then only the tickets
//! are read that changed.

use crate::error::StoreError;
use crate::row::damaged;
use crate::row::pool::PoolRow;
use crate::store::Store;
use crate::tx::Tx;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use tidemill_domain::pool::estimate::{RUNS_KEPT, RunKind, RunTimes};
use tidemill_domain::pool::{Ledger, PoolName};
use tidemill_domain::time::Timestamp;

/// So many ended runs are read to learn from.
const RUNS_READ: i64 = 20_000;

/// The ledgers that a process knows. Not shared between tasks: whoever decides owns it.
#[derive(Clone, Debug, Default)]
pub struct PoolCache {
    ledgers: BTreeMap<PoolName, Ledger>,
}

impl PoolCache {
    /// A pool as it was after the last pass of this process over it.
    pub fn ledger(&self, pool: &PoolName) -> Option<&Ledger> {
        self.ledgers.get(pool)
    }

    /// All of them.
    pub fn ledgers(&self) -> impl Iterator<Item = (&PoolName, &Ledger)> {
        self.ledgers.iter()
    }

    /// Forgets a pool; it is read again when it is needed.
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
    /// Brings what a process remembers of these pools up to date, without a lock. True when one of them is gone.
    pub async fn pool_refresh(
        &self,
        cache: &mut PoolCache,
        pools: &BTreeSet<PoolName>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.read().await?;
        let mut is_one_gone = false;
        for pool in pools {
            match tx.pool_find(pool.as_str()).await? {
                Some(row) => {
                    let known = cache.take(pool);
                    let ledger = tx.pool_refresh(&row, known).await?;
                    cache.ledgers.insert(pool.clone(), ledger);
                }
                None => {
                    cache.forget(pool);
                    is_one_gone = true;
                }
            }
        }
        tx.rollback().await?;
        Ok(is_one_gone)
    }
}

impl Tx {
    /// Brings what is known of a pool up to date with its row, which is locked or read in this very transaction.
    pub(crate) async fn pool_refresh(
        &mut self,
        row: &PoolRow,
        known: Option<Ledger>,
    ) -> Result<Ledger, StoreError> {
        let mut ledger = match known {
            Some(ledger) if ledger.version() == row.version => return Ok(ledger),
            Some(ledger) if ledger.version() < row.version => ledger,
            // A version from the future is of a pool that was removed and made again.
            _ => return self.pool_load(row).await,
        };
        for changed in self.pool_ticket_changed(&row.name, ledger.version()).await? {
            let ticket = changed.ticket()?;
            if let (Some(ended_at), Some(started_at)) = (changed.ended_at, ticket.claimed_at) {
                ledger.run_times_mut().add(&ticket, Timestamp::from(ended_at).since(started_at));
            }
            ledger.put(ticket);
        }
        ledger.set_settings(row.settings()?);
        ledger.set_version(row.version);
        Ok(ledger)
    }

    async fn pool_load(&mut self, row: &PoolRow) -> Result<Ledger, StoreError> {
        let live = self.pool_ticket_live(&row.name).await?;
        let mut tickets = Vec::with_capacity(live.len());
        for ticket in live {
            tickets.push(ticket.ticket()?);
        }
        let mut ledger = Ledger::restore(row.settings()?, row.version, tickets);
        *ledger.run_times_mut() = self.pool_run_times(&row.name).await?;
        Ok(ledger)
    }

    async fn pool_run_times(&mut self, pool: &str) -> Result<RunTimes, StoreError> {
        let bad = || damaged("tidemill_pool_run_time", "seconds", pool);
        let parallel = |number: i64| u32::try_from(number).ok().and_then(NonZeroU32::new).ok_or_else(bad);
        let mut run_times = RunTimes::default();
        for row in self.pool_run_time_list(pool).await? {
            let seconds: Vec<u32> = serde_json::from_str(&row.seconds).map_err(|_| bad())?;
            let parallel = parallel(row.parallel)?;
            let kind = RunKind { dag_id: row.dag_id, table: row.table_name, parallel };
            for seconds in seconds.into_iter().take(RUNS_KEPT) {
                run_times.add_seconds(kind.clone(), seconds);
            }
        }
        for row in self.pool_ended_runs(pool, RUNS_READ).await? {
            let took = Timestamp::from(row.ended_at).since(row.started_at.into());
            let parallel = parallel(row.parallel)?;
            let kind = RunKind { dag_id: row.dag_id, table: row.table_name, parallel };
            run_times.add_seconds(kind, u32::try_from(took.as_secs()).unwrap_or(u32::MAX));
        }
        Ok(run_times)
    }
}
