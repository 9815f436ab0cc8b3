//! The state of the whole installation.

use crate::alert::Alert;
use crate::outbox::OutboxCount;
use crate::schedule::Schedule;
use crate::views;
use serde::Serialize;
use std::collections::BTreeMap;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolLevel;

views! {
    /// A pool and how full it is.
    pub struct PoolUsage from pool: &PoolLevel {
        name: String = pool.settings.name.to_string(),
        is_paused: bool = pool.settings.paused.is_some(),
        /// Units in use.
        in_use: u64 = pool.level.usage,
        /// Units that may be in use now.
        limit: u64 = pool.level.limit,
        /// Number of waiting requests.
        waiting: u64 = pool.waiting,
    }
}

/// The state of the whole installation.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Time of the database.
    pub at: Timestamp,
    pub database: DatabaseStatus,
    /// Number of processes by state: `live`, `silent`, `stopped` or `dead`.
    pub processes: BTreeMap<&'static str, usize>,
    pub pools: Vec<PoolUsage>,
    pub executions: ExecutionStatus,
    pub outbox: OutboxStatus,
    /// Number of renders by status.
    pub renders: BTreeMap<&'static str, u64>,
    /// Alerts that fire and are not silenced.
    pub alerts: Vec<Alert>,
    /// The schedules that fire next.
    pub schedules: Vec<Schedule>,
}

/// The database and its schema.
#[derive(Debug, Serialize)]
pub struct DatabaseStatus {
    /// `postgres` or `sqlite`.
    pub kind: String,
    pub place: String,
    /// Migrations that `tidemill db migrate` would apply.
    pub pending_migrations: usize,
}

/// Executions of all jobs, counted up to 1000.
#[derive(Debug, Serialize)]
pub struct ExecutionStatus {
    pub running: u64,
    /// Failed in the last 24 hours.
    pub failed: u64,
}

/// Unpublished and failed events.
#[derive(Debug, Serialize)]
pub struct OutboxStatus {
    /// Null if unknown.
    pub unpublished: Option<OutboxCount>,
    pub oldest_at: Option<Timestamp>,
    /// Failed events that are not retried any more.
    pub failed: Option<OutboxCount>,
    /// Number of live relays.
    pub relays: u64,
}
