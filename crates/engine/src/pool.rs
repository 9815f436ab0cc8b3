//! Pools: acquiring units, and the task of this process that decides.
//!
//! A caller sends a command to the decider and waits for the answer. The decider gathers commands and decides all of
//! them in one pass, which is one transaction. Several processes may do so on one database; row locks keep them apart.

pub mod hold;
pub mod pools;

pub mod auditor;
pub mod keeper;
pub mod on_demand;
pub mod probe;

mod decider;
mod program;

mod demand;
pub mod emf;
pub mod gauge;
pub mod metering;

pub use hold::Hold;
pub use metering::Sums;
pub use on_demand::OnDemand;
pub(crate) use pools::PoolsOnDemand;
pub use pools::{AcquirePart, AcquireRequest, PoolError, PoolOptions, Pools};
pub use probe::{Probe, ProbeError};
pub use program::ProgramError;

/// How often a server asks for the lease of a task that one server does.
const LEASE_PAUSE: std::time::Duration = std::time::Duration::from_secs(10);
