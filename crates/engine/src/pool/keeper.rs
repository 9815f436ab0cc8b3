//! Maintenance of pools: records usage, deletes old data, and audits.
//!
//! Of several servers, the one that holds the lease `pool/keeper` does the work.

use super::{LEASE_PAUSE, auditor};
use crate::{EngineError, HeldLease, Leader, Process, Service, begin_under, until_lost};
use std::time::Duration;
use tidemill_domain::lease::LeaseKey;
use tidemill_store::Store;

const SAMPLE_PAUSE: Duration = Duration::from_secs(10);

/// Old data is deleted every 30 rounds.
const ROUNDS_BETWEEN_TIDYING: u32 = 30;

/// How often the whole state of a pool is written to its log.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(3600);

const BATCH: u32 = 1_000;

/// Pause between two transactions, for others.
const BREATH: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tidied {
    pub snapshots: u64,
    pub tickets: u64,
    pub records: u64,
    pub steps: u64,
}

/// Runs on the server that holds the lease, until `process` ends. Deletes what ended longer ago than `history`.
pub async fn run(process: Process, history: Duration) {
    let key = LeaseKey::new("pool", "keeper").expect("kind and name are short and plain");
    let mut leader = Leader::new(&process, key, LEASE_PAUSE);
    while let Some(lease) = leader.lease().await {
        let store = process.store();
        let both = async { _ = tokio::join!(keep(store, &lease, history), auditor::run(store, &lease)) };
        lease.while_held(both).await;
    }
}

async fn keep(store: &Store, lease: &HeldLease, history: Duration) {
    let mut service = Service::new("keeping pools", SAMPLE_PAUSE);
    let mut rounds = 0_u32;
    while service.is_due().await {
        let mut done = sample(store, Some(lease)).await;
        if done.is_ok() && rounds.is_multiple_of(ROUNDS_BETWEEN_TIDYING) {
            done = tidy(store, Some(lease), history).await.map(|tidied| {
                let Tidied { snapshots, tickets, records, steps } = tidied;
                tracing::debug!(snapshots, tickets, records, steps, "pools were tidied");
            });
        }
        service.ended(until_lost(done));
        rounds = rounds.wrapping_add(1);
    }
}

pub async fn sample(store: &Store, lease: Option<&HeldLease>) -> Result<(), EngineError> {
    let mut tx = begin_under(lease, store).await?;
    tx.pools().sample_usage().await?;
    tx.commit().await?;
    Ok(())
}

/// Deletes old data of all pools, in many small transactions.
#[crate::boxed]
pub async fn tidy(
    store: &Store,
    lease: Option<&HeldLease>,
    history: Duration,
) -> Result<Tidied, EngineError> {
    let pools = store.read().await?.pools().directory().await?;
    let mut tidied = Tidied::default();
    for (pool, ..) in &pools {
        let mut tx = begin_under(lease, store).await?;
        tidied.snapshots += u64::from(tx.pools().snapshot(pool, SNAPSHOT_EVERY).await?);
        tidied.steps += tx.pools().forget_usage(pool).await?;
        tx.commit().await?;
        loop {
            let mut tx = begin_under(lease, store).await?;
            let tickets = tx.pools().forget_tickets(pool, history, BATCH).await?;
            let records = tx.pools().forget_log(pool, history, BATCH).await?;
            tx.commit().await?;
            tidied.tickets += tickets;
            tidied.records += records;
            if tickets.max(records) < u64::from(BATCH) {
                break;
            }
            tokio::time::sleep(BREATH).await;
        }
    }
    Ok(tidied)
}
