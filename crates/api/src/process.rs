//! Processes, and the leases that they hold.

use crate::shapes;
use tidemill_domain::lease::Lease as LeaseState;
use tidemill_domain::time::Timestamp;
use tidemill_store::lease::LeaseRecord;
use tidemill_store::process::ProcessRecord;

shapes! {
    /// A process that uses the database.
    pub struct Process from (record, now): (&ProcessRecord, Timestamp) {
        id: String = record.id.to_string(),
        name: String = record.identity.name.clone(),
        host: String = record.identity.host.clone(),
        /// Process id on the host.
        pid: u32 = record.identity.pid,
        /// Version of the program.
        version: String = record.identity.version.clone(),
        /// `live`, `silent`, `stopped` or `dead`.
        state: &'static str = record.state.word(now),
        started_at: Timestamp = record.started_at,
        /// When the process last sent a heartbeat.
        heartbeat_at: Timestamp = record.heartbeat_at,
    }

    /// A lease: the right of one process to do something that only one process may do.
    pub struct Lease from record: &LeaseRecord {
        kind: String = record.key.kind().to_owned(),
        name: String = record.key.name().to_owned(),
        /// `held`, `lapsed` or `free`.
        state: &'static str = match record.lease {
            LeaseState::Free { .. } => "free",
            LeaseState::Held { .. } if record.is_live => "held",
            LeaseState::Held { .. } => "lapsed",
        },
        /// How often the lease was acquired.
        epoch: i64 = record.lease.epoch().get(),
        /// Id of the process that holds the lease.
        owner: Option<String> = match record.lease {
            LeaseState::Held { fence, .. } => Some(fence.owner.to_string()),
            LeaseState::Free { .. } => None,
        },
        acquired_at: Option<Timestamp> = record.acquired_at,
        /// End of the lease; null when the lease lasts as long as its process.
        until: Option<Timestamp> = match record.lease {
            LeaseState::Held { until, .. } => until,
            LeaseState::Free { .. } => None,
        },
    }
}
