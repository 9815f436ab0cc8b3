//! Audits each pool once a night, on the server that keeps the pools.

use crate::{EngineError, HeldLease, Service, begin_under, until_lost};
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::replay::is_audit_due;
use tidemill_store::Store;

/// How often it looks for pools that are due.
const PAUSE: Duration = Duration::from_secs(300);

pub(super) async fn run(store: &Store, lease: &HeldLease) {
    let mut service = Service::new("auditing pools", PAUSE);
    while service.is_due().await {
        service.ended(until_lost(audit(store, Some(lease)).await));
    }
}

/// Audits the pools that are due, and stores what it found.
#[crate::boxed]
pub async fn audit(store: &Store, lease: Option<&HeldLease>) -> Result<(), EngineError> {
    let pools = store.read().await?.pools().directory().await?;
    let mut outcome = Ok(());
    for (pool, ..) in &pools {
        // A pool that cannot be read must not hide violations of the others.
        outcome = outcome.and(audit_one(store, lease, pool).await);
    }
    outcome
}

async fn audit_one(store: &Store, lease: Option<&HeldLease>, pool: &PoolName) -> Result<(), EngineError> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    let Some(record) = tx.pools().find(pool).await? else { return Ok(()) };
    if !is_audit_due(&record.settings, record.audit.map(|audit| audit.at), now) {
        return Ok(());
    }
    let Some(audited) = tx.pools().verify(pool).await? else { return Ok(()) };
    drop(tx);
    for difference in &audited.differences {
        tracing::error!(pool.name = %pool, "pool {pool} has a violation: {difference}");
    }
    let mut tx = begin_under(lease, store).await?;
    tx.pools().save_audit(pool, &audited).await?;
    tx.commit().await?;
    Ok(())
}
