//! The faults that are planted to see whether the oracles notice.

use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::process;
use tidemill_domain::time::Monotonic;

/// One way in which a store, or an owner, could be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A lease is given away although its owner may act.
    LifeIgnored,
    /// An owner trusts its lease for twice as long as it was given.
    NotSelfFencing,
    /// A heartbeat that comes too late is accepted.
    HeartbeatRevives,
    /// Work is settled without a look at the fence.
    FenceSkipped,
    /// The epoch falls with every new owner.
    EpochFalls,
    /// A new owner gets the epoch of the one before.
    EpochNotRaised,
    /// A refused heartbeat is reported as accepted.
    RefusalUntold,
}

impl Fault {
    /// The epoch that is given by mistake instead of the right one.
    pub(super) fn epoch_instead_of(self, right: Epoch) -> Option<Epoch> {
        match (self, right.get()) {
            (Self::EpochNotRaised, epoch @ 2..) => Some(Epoch::new(epoch - 1)),
            (Self::EpochFalls, 1) => Some(Epoch::new(100)),
            (Self::EpochFalls, epoch) => Some(Epoch::new(epoch - 2)),
            _ => None,
        }
    }
}

/// Until when an owner acts on a lease of length `ttl` that it asked for at `sent`.
pub(super) fn trusted_until(fault: Option<Fault>, sent: Monotonic, ttl: Duration) -> Monotonic {
    match fault {
        Some(Fault::NotSelfFencing) => sent.plus(ttl * 2),
        _ => process::trusted_until(sent, ttl),
    }
}
