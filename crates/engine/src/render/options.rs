//! How a render worker works.

use super::licence::Licence;
use super::places::Places;
use std::num::NonZeroUsize;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::clock::Clocks;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::{AllowList, Policy};
use tidemill_domain::schedule::Zone;

/// Pause between two looks for renders whose worker has vanished: what it had is to be adopted within five seconds of its
/// lease's end.
pub(crate) const REAP_PAUSE: Duration = Duration::from_secs(4);

#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub process: ProcessId,
    pub name: String,
    pub capacity: NonZeroUsize,
    /// The pool that counts licences; none when only the capacity limits.
    pub licence: Option<Licence>,
    /// What is tried again, when, and for how long a worker may be silent.
    pub policy: Policy,
    /// How long a job may wait, be silent and take.
    pub clocks: Clocks,
    /// How often it looks for renders when nobody wakes it.
    pub polling: Polling,
    pub places: Places,
    /// What a job may use.
    pub allow: AllowList,
    /// Which nodes may take its jobs.
    pub tags: Option<String>,
    /// The zone whose day is the day of a broadcast, where nobody has said which.
    pub zone: Zone,
    /// Pause between two questions about one job.
    pub farm_pause: Duration,
    /// How long the farm may be silent before the render goes back to wait: it may only have been started again.
    pub farm_grace: Duration,
    /// Pause between two renewals of leases.
    pub renew_pause: Duration,
    /// Pause between two looks for renders whose worker has vanished.
    pub reap_pause: Duration,
    /// Pause between two looks at the world: nexrender, the NAS, ffprobe.
    pub check_pause: Duration,
    /// How long the size of a file has to be the same.
    pub quiet: Duration,
    /// How long a finished file may take to appear and to be quiet.
    pub settle_for: Duration,
    /// How many files are checked and copied at once.
    pub uploads: NonZeroUsize,
    /// How long what is about to be published may take when the worker is to stop.
    pub drain_for: Duration,
}

impl WorkerOptions {
    pub fn new(process: ProcessId, name: &str, policy: Policy, places: Places) -> Self {
        Self {
            process,
            name: name.to_owned(),
            capacity: NonZeroUsize::MIN,
            licence: None,
            policy,
            clocks: Clocks::default(),
            polling: Polling::default(),
            places,
            allow: AllowList::default(),
            tags: None,
            zone: Zone::UTC,
            farm_pause: Duration::from_secs(5),
            farm_grace: Duration::from_secs(30),
            renew_pause: Duration::from_secs(15),
            reap_pause: REAP_PAUSE,
            check_pause: Duration::from_secs(15),
            quiet: Duration::from_secs(2),
            settle_for: Duration::from_secs(30),
            uploads: NonZeroUsize::new(2).unwrap_or(NonZeroUsize::MIN),
            drain_for: Duration::from_secs(30),
        }
    }
}
