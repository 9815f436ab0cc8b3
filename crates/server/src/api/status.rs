//! The state of the whole installation, for `tidemill status` and the overview.

use crate::dashboard::overview::outbox::Outbox;
use crate::dashboard::overview::pool::SHOWN;
use crate::dashboard::page_snapshot::is_firing;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_api::alert::Alert;
use tidemill_api::outbox::OutboxCount;
use tidemill_api::schedule::Schedule;
use tidemill_api::status::{DatabaseStatus, ExecutionStatus, OutboxStatus, PoolUsage, Status};
use tidemill_store::job::ExecutionTally;
use tidemill_store::migration::MigrationState;
use tidemill_store::pool::PoolLevel;
use tidemill_store::render::RenderCounts;
use tidemill_store::{Store, StoreError, Tx};

/// Failures within this time are counted.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of processes, alerts and schedules that are read.
const ROWS_MAX: u32 = 500;

const NEXT: usize = 5;

/// What both `tidemill status` and the overview count.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) pools: Vec<PoolLevel>,
    pub(crate) executions: ExecutionTally,
    pub(crate) outbox: Outbox,
    pub(crate) renders: RenderCounts,
}

impl Totals {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        Ok(Self {
            pools: tx.pools().levels(SHOWN).await?,
            executions: tx.jobs().execution_tally(DAY).await?,
            outbox: Outbox::read(tx).await?,
            renders: tx.renders().counts().await?,
        })
    }
}

#[crate::boxed]
pub async fn read(store: &Store) -> Result<Status, StoreError> {
    let mut tx = store.read().await?;
    let at = tx.now().await?;
    let Totals { pools, executions, outbox, renders } = Totals::read(&mut tx).await?;
    let mut processes = BTreeMap::new();
    for process in tx.processes().list(ROWS_MAX).await? {
        *processes.entry(process.state.word(at)).or_default() += 1;
    }
    let alerts = tx.alerts().list(ROWS_MAX).await?;
    let mut schedules = tx.schedules().list(ROWS_MAX).await?;
    drop(tx);
    schedules.retain(|record| record.next_at.is_some() && record.pause.is_none());
    schedules.sort_by_key(|record| record.next_at);
    let migrations = store.migration_status().await?;
    let is_pending = |state: MigrationState| state == MigrationState::Pending;
    Ok(Status {
        at,
        database: DatabaseStatus {
            kind: store.dialect().to_string(),
            place: store.place(),
            pending_migrations: migrations.iter().filter(|line| is_pending(line.state)).count(),
        },
        processes,
        pools: pools.iter().map(PoolUsage::from).collect(),
        executions: ExecutionStatus { running: executions.running, failed: executions.failed },
        outbox: OutboxStatus {
            unpublished: outbox.unpublished.and_then(|backlog| OutboxCount::new(backlog.rows)),
            oldest_at: outbox.oldest(),
            failed: OutboxCount::new(outbox.parked.rows),
            relays: outbox.relays,
        },
        renders: renders.by_status.iter().map(|(status, count)| (status.as_str(), *count)).collect(),
        alerts: alerts.iter().filter(|alert| is_firing(alert)).map(Alert::from).collect(),
        schedules: schedules.iter().take(NEXT).map(Schedule::from).collect(),
    })
}
