//! What the demand of a pool is estimated from, and the last run of its command `on_demand`.

use crate::codec::DbTime;
use crate::error::Result;
use crate::statement::{statements, stored};
use crate::tx::Pools;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::demand::{Demand, PastRequests, demand};
use tidemill_domain::pool::on_demand::DemandRun;
use tidemill_domain::time::Timestamp;

stored! {
    impl DemandRun in ("tidemill_pool_demand_run", "pool") { direction, units, at, succeeded }
}

impl Pools<'_> {
    /// None if there is no such pool. Reads all its live tickets: who asks often keeps a [`PoolCache`](super::PoolCache).
    #[crate::boxed]
    pub async fn demand(&mut self, name: &PoolName) -> Result<Option<Demand>> {
        let Some(ledger) = self.ledger(name).await? else { return Ok(None) };
        let (past, now) = (self.past_requests(name).await?, self.now().await?);
        Ok(Some(demand(&ledger, now, &past)))
    }

    pub async fn past_requests(&mut self, name: &PoolName) -> Result<PastRequests> {
        let now = self.now().await?;
        let rows = self.pool_requested(name.as_str(), &PastRequests::steps(now)).await?;
        let reading = |(at, requested): (DbTime, i64)| Some((at.into(), u64::try_from(requested).ok()?));
        Ok(PastRequests::new(&rows.into_iter().filter_map(reading).collect(), now))
    }
}

statements! {
    /// The readings of some steps. By the primary key.
    fn pool_requested(pool: &str, steps: &[Timestamp]) -> Vec<(DbTime, i64)> {
        "select at, requested from tidemill_pool_usage
         where pool = $1 and at {in $2} and requested is not null"
    }

    pub fn Pools::demand_run(name: &PoolName) -> Option<DemandRun> {
        bind(name.as_str())
        "select pool, direction, units, at, succeeded from tidemill_pool_demand_run where pool = $1"
    }

    pub fn Pools::save_demand_run(name: &PoolName, run: &DemandRun) -> () {
        bind(name.as_str(), run.direction.as_str(), run.units, run.at, run.succeeded)
        "insert into tidemill_pool_demand_run (pool, direction, units, at, succeeded)
         values ($1, $2, $3, $4, $5)
         on conflict (pool) do update
         set direction = excluded.direction, units = excluded.units, at = excluded.at,
             succeeded = excluded.succeeded"
    }
}
