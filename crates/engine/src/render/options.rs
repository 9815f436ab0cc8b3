//! The options of a render worker.

use super::{Licence, Places};
use std::num::NonZeroUsize;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::clock::Clocks;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::{AllowList, Policy, Targets};
use tidemill_domain::schedule::Zone;

/// Renders of a worker that disappeared must be adopted within five seconds of the end of their lease.
pub(crate) const REAP_PAUSE: Duration = Duration::from_secs(4);

/// A lease is renewed this often, and leases that end are looked for as often, unless these pauses are longer.
const LOOKS_PER_LEASE: u32 = 4;

/// The pause between two searches for leases that have ended.
pub(crate) fn reap_pause(lease: Duration) -> Duration {
    REAP_PAUSE.min(lease / LOOKS_PER_LEASE)
}

#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// In rows of renders: the name if it is a UUID.
    pub process: ProcessId,
    pub name: String,
    pub capacity: NonZeroUsize,
    /// The pool that counts licences, if there is one.
    pub licence: Option<Licence>,
    /// Retries and leases.
    pub policy: Policy,
    /// How long a job may wait, be silent and take.
    pub clocks: Clocks,
    /// How often it looks for renders if no wake-up arrives.
    pub polling: Polling,
    pub places: Places,
    /// Object stores in which files are published, too.
    pub targets: Targets,
    /// What a job may use.
    pub allow: AllowList,
    /// Which nodes may take its jobs.
    pub tags: Option<String>,
    /// Time zone of the broadcast day, if none was given.
    pub zone: Zone,
    /// The longest pause between two polls of one job, and before a job that is missing counts as lost.
    pub farm_pause: Duration,
    /// How long the farm may be down before the render goes back to the queue: it may only be restarting.
    pub farm_grace: Duration,
    /// Pause between two renewals of leases.
    pub renew_pause: Duration,
    /// Pause between two searches for renders of workers that disappeared.
    pub reap_pause: Duration,
    /// Pause between two checks of nexrender, the NAS and ffprobe.
    pub check_pause: Duration,
    /// How long the size of a file must be stable.
    pub quiet: Duration,
    /// How long a finished file may take to appear and become stable.
    pub settle_for: Duration,
    /// How many files are checked and copied at once.
    pub uploads: NonZeroUsize,
    /// How long publishing may take when the worker stops.
    pub drain_for: Duration,
}

impl WorkerOptions {
    pub fn new(process: ProcessId, name: &str, policy: Policy, places: Places) -> Self {
        let lease_for = policy.lease_for;
        Self {
            // The document's `WORKER_ID` is one, and is looked for in `worker_id`. Claims are told apart by their epochs.
            process: name.parse().map_or(process, ProcessId::new),
            name: name.to_owned(),
            capacity: NonZeroUsize::MIN,
            licence: None,
            policy,
            clocks: Clocks::default(),
            polling: Polling::default(),
            places,
            targets: Targets::default(),
            allow: AllowList::default(),
            tags: None,
            zone: Zone::UTC,
            farm_pause: Duration::from_secs(5),
            farm_grace: Duration::from_secs(30),
            renew_pause: Duration::from_secs(15).min(lease_for / LOOKS_PER_LEASE),
            reap_pause: reap_pause(lease_for),
            check_pause: Duration::from_secs(15),
            quiet: Duration::from_secs(2),
            settle_for: Duration::from_secs(30),
            uploads: NonZeroUsize::new(2).unwrap_or(NonZeroUsize::MIN),
            drain_for: Duration::from_secs(30),
        }
    }
}
