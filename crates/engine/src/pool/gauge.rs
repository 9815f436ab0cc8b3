//! Gauges of pools for Prometheus. Read from the database, so that every server reports the same.

use super::Pools;
use crate::Service;
use crate::metrics::{self, number};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::demand::{Demand, LaterDemand};
use tidemill_store::StoreError;
use tidemill_store::pool::PoolLevel;

const PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of pools measured: each is a handful of time series.
pub const POOLS_MAX: u32 = 1_000;

#[crate::boxed]
pub async fn run(pools: Pools) {
    let mut measured = BTreeSet::new();
    let mut service = Service::new("measuring pools", PAUSE);
    while service.is_due().await {
        // After a failure the gauges keep their values.
        service.ended(levels(&pools).await.map(|levels| measured = set_gauges(&measured, &levels)));
    }
}

pub async fn levels(pools: &Pools) -> Result<Vec<(PoolLevel, Demand)>, StoreError> {
    let levels = pools.store().read().await?.pools().levels(POOLS_MAX).await?;
    let demands = pools.demands(&levels.iter().map(|seen| seen.settings.name.clone()).collect()).await?;
    let with_demand = |seen: PoolLevel| {
        let demand = demands.get(&seen.settings.name).copied().unwrap_or_default();
        (seen, demand)
    };
    Ok(levels.into_iter().map(with_demand).collect())
}

/// Returns the measured pools. The gauges of pools that were removed since `before` are reset.
fn set_gauges(before: &BTreeSet<PoolName>, levels: &[(PoolLevel, Demand)]) -> BTreeSet<PoolName> {
    let names: BTreeSet<PoolName> = levels.iter().map(|(seen, _)| seen.settings.name.clone()).collect();
    let removed = before.difference(&names).map(|pool| (pool, None));
    for (pool, seen) in removed.chain(levels.iter().map(|seen| (&seen.0.settings.name, Some(seen)))) {
        let (pool, value) =
            (pool.as_str(), |of: fn(&PoolLevel) -> f64| seen.map_or(0.0, |(seen, _)| of(seen)));
        metrics::pool_audit_violations(pool).set(value(|seen| number(seen.violations())));
        metrics::pool_in_use(pool).set(value(|seen| number(seen.level.usage)));
        metrics::pool_capacity(pool).set(value(|seen| f64::from(seen.level.max_units)));
        metrics::pool_limit(pool).set(value(|seen| number(seen.level.limit)));
        metrics::pool_breaker_open(pool).set(value(|seen| f64::from(u8::from(seen.breaker.is_open()))));
        metrics::pool_utilization(pool).set(value(|seen| seen.level.percent() / 100.0));
        metrics::pool_over(pool).set(value(|seen| number(seen.level.over_by())));
        metrics::pool_waiting(pool).set(value(|seen| number(seen.waiting)));
        metrics::pool_suspect(pool).set(value(|seen| number(seen.suspect)));
        metrics::pool_oldest_wait(pool).set(value(|seen| seen.oldest_wait.as_secs_f64()));
        let demand = seen.map(|(_, demand)| *demand).unwrap_or_default();
        let now = LaterDemand { p50: demand.now, p90: demand.now };
        for (horizon, demand) in [("now", now), ("5m", demand.in_5_min), ("15m", demand.in_15_min)] {
            metrics::pool_demand(pool, horizon, "p50").set(number(demand.p50));
            metrics::pool_demand(pool, horizon, "p90").set(number(demand.p90));
        }
    }
    names
}
