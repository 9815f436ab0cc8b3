//! Runs the operator's command `on_demand` when a pool needs more capacity, or can do with less.
//!
//! Of several servers, the one that holds the lease runs it. A run is stored before the program starts, so that neither a
//! crash nor another server repeats it within its hold time.

use super::program::{self, ProgramError};
use super::{LEASE_PAUSE, Pools};
use crate::{EngineError, HeldLease, Leader, Process, Service, begin_under, metrics, until_lost};
use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::error_chain::ErrorChain;
use tidemill_domain::job::command::{DIRECTION_VARIABLE, POOL_VARIABLE};
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::demand::Demand;
use tidemill_domain::pool::on_demand::{DemandRun, Direction, Thresholds, due};
use tidemill_domain::words::plural;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnDemand {
    pub pool: PoolName,
    /// Program and arguments, run without a shell.
    pub command: Vec<String>,
    pub thresholds: Thresholds,
    /// How often the demand is compared with the thresholds.
    pub every: Duration,
    pub timeout: Duration,
}

/// Runs on the server that holds the lease, until `process` ends.
pub async fn run(process: Process, pools: Pools, hook: OnDemand) {
    let key =
        LeaseKey::new("pool_on_demand", hook.pool.as_str()).expect("the name of a pool is short and plain");
    let mut leader = Leader::new(&process, key, LEASE_PAUSE);
    while let Some(lease) = leader.lease().await {
        lease.while_held(keep(&pools, &hook, &lease)).await;
    }
}

async fn keep(pools: &Pools, hook: &OnDemand, lease: &HeldLease) {
    let mut service = Service::new(format!("on_demand of the pool {}", hook.pool), hook.every);
    while service.is_due().await {
        service.ended(until_lost(run_if_due(pools, hook, Some(lease)).await.map(drop)));
    }
}

/// Returns the run, if one was due.
#[crate::boxed]
pub async fn run_if_due(
    pools: &Pools,
    hook: &OnDemand,
    lease: Option<&HeldLease>,
) -> Result<Option<DemandRun>, EngineError> {
    let OnDemand { pool, thresholds, .. } = hook;
    let Some(demand) = pools.demand(pool).await? else { return Ok(None) };
    let units = demand.in_15_min.p90;
    let mut tx = pools.store().read().await?;
    let (now, last) = (tx.now().await?, tx.pools().demand_run(pool).await?);
    tx.rollback().await?;
    let Some(direction) = due(thresholds, last.as_ref(), units, now) else { return Ok(None) };
    let mut run = DemandRun { direction, units, at: now, succeeded: false };
    save(pools, pool, &run, lease).await?;
    let ended = start(hook, direction, &demand).await;
    run.succeeded = ended.is_ok();
    let outcome = if run.succeeded { "succeeded" } else { "failed" };
    metrics::pool_on_demand_runs(pool.as_str(), direction.as_str(), outcome).increment(1);
    let why = format!("{direction}, because {} are expected", plural(units, "unit", "units"));
    match ended {
        Ok(()) => {
            tracing::info!("on_demand of the pool {pool} has run: {why}");
            save(pools, pool, &run, lease).await?;
        }
        Err(error) => {
            let (error, hold) = (ErrorChain(&error), duration::show(thresholds.hold));
            tracing::warn!(%error, "on_demand of the pool {pool} failed ({why}); it can run again after {hold}");
        }
    }
    Ok(Some(run))
}

async fn save(
    pools: &Pools,
    pool: &PoolName,
    run: &DemandRun,
    lease: Option<&HeldLease>,
) -> Result<(), EngineError> {
    let mut tx = begin_under(lease, pools.store()).await?;
    tx.pools().save_demand_run(pool, run).await?;
    tx.commit().await?;
    Ok(())
}

async fn start(hook: &OnDemand, direction: Direction, demand: &Demand) -> Result<(), ProgramError> {
    let variables = [
        (POOL_VARIABLE, hook.pool.to_string()),
        (DIRECTION_VARIABLE, direction.to_string()),
        ("TIDEMILL_UNITS_NOW", demand.now.to_string()),
        ("TIDEMILL_UNITS_IN_5_MIN_P50", demand.in_5_min.p50.to_string()),
        ("TIDEMILL_UNITS_IN_5_MIN_P90", demand.in_5_min.p90.to_string()),
        ("TIDEMILL_UNITS_IN_15_MIN_P50", demand.in_15_min.p50.to_string()),
        ("TIDEMILL_UNITS_IN_15_MIN_P90", demand.in_15_min.p90.to_string()),
    ];
    program::run(&hook.command, &variables, None, hook.timeout).await.map(drop)
}
