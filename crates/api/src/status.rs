//! The state of the whole installation.

use crate::alert::Alert;
use crate::outbox::OutboxCount;
use crate::schedule::Schedule;
use crate::shapes;
use std::collections::BTreeMap;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolLevel;

shapes! {
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

    /// The state of the whole installation.
    pub struct Status {
        /// Time of the database.
        at: Timestamp,
        database: DatabaseStatus,
        /// Number of processes by state: `live`, `silent`, `stopped` or `dead`.
        processes: BTreeMap<&'static str, usize>,
        pools: Vec<PoolUsage>,
        executions: ExecutionStatus,
        outbox: OutboxStatus,
        /// Number of renders by status.
        renders: BTreeMap<&'static str, u64>,
        /// Alerts that fire and are not silenced.
        alerts: Vec<Alert>,
        /// The schedules that fire next.
        schedules: Vec<Schedule>,
    }

    /// The database and its schema.
    pub struct DatabaseStatus {
        /// `postgres` or `sqlite`.
        kind: String,
        place: String,
        /// Migrations that `tidemill db migrate` would apply.
        pending_migrations: usize,
    }

    /// Executions of all jobs, counted up to 1000.
    pub struct ExecutionStatus {
        running: u64,
        /// Failed in the last 24 hours.
        failed: u64,
    }

    /// Unpublished and failed events.
    pub struct OutboxStatus {
        /// Null if unknown.
        unpublished: Option<OutboxCount>,
        oldest_at: Option<Timestamp>,
        /// Failed events that are not retried any more.
        failed: Option<OutboxCount>,
        /// Number of live relays.
        relays: u64,
    }
}
