//! The demand of pools. Only tickets that have changed are read, and what was requested on past days once a minute.

use super::Pools;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::demand::{Demand, PastRequests, demand};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::StoreError;
use tidemill_store::pool::PoolCache;

const PAST_KEPT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct DemandCache {
    ledgers: PoolCache,
    past: BTreeMap<PoolName, (Monotonic, PastRequests)>,
}

impl Pools {
    /// None if there is no such pool.
    pub async fn demand(&self, pool: &PoolName) -> Result<Option<Demand>, StoreError> {
        Ok(self.demands(&BTreeSet::from([pool.clone()])).await?.remove(pool))
    }

    /// Pools that do not exist are left out.
    #[crate::boxed]
    pub async fn demands(
        &self,
        pools: &BTreeSet<PoolName>,
    ) -> Result<BTreeMap<PoolName, Demand>, StoreError> {
        let mut cache = self.demand_cache.lock().await;
        let DemandCache { ledgers, past } = &mut *cache;
        let mut changed = pools.clone();
        for (pool, version, _) in self.store().read().await?.pools().directory().await? {
            if ledgers.ledger(&pool).is_some_and(|known| known.version() == version) {
                changed.remove(&pool);
            }
        }
        self.store().pool_refresh(ledgers, &changed).await?;
        let mut tx = self.store().read().await?;
        let (now, read_at) = (tx.now().await?, self.clock.monotonic());
        past.retain(|_, (at, _)| read_at.since(*at) < PAST_KEPT);
        let mut demands = BTreeMap::new();
        for pool in pools {
            let Some(ledger) = ledgers.ledger(pool) else { continue };
            if !past.contains_key(pool) {
                past.insert(pool.clone(), (read_at, tx.pools().past_requests(pool).await?));
            }
            demands.extend(past.get(pool).map(|(_, past)| (pool.clone(), demand(ledger, now, past))));
        }
        Ok(demands)
    }
}
