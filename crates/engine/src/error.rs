//! Errors of the background loops.

use tidemill_domain::code::Code;
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::process::ProcessId;
use tidemill_store::StoreError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process holds the lease. Wait for it, or do something else.
    #[error("the lease {key} is held by process {} in epoch {}", holder.owner, holder.epoch)]
    LeaseHeld { key: LeaseKey, holder: Fence },
    /// Another process has taken over. Drop the work; nothing was written.
    #[error("the lease {key} was lost in epoch {}", fence.epoch)]
    LeaseLost { key: LeaseKey, fence: Fence },
    /// This process no longer counts as alive. Start a new one.
    #[error("process {id} was silent for too long and has been given up")]
    ProcessExpired { id: ProcessId },
}

impl EngineError {
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::LeaseHeld { .. } => Code::LeaseHeld,
            Self::LeaseLost { .. } => Code::LeaseLost,
            Self::ProcessExpired { .. } => Code::ProcessExpired,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Store(error) => error.fix(),
            Self::LeaseHeld { .. } => {
                "wait until it is released, or see who holds it with `tidemill lease list`".into()
            }
            Self::LeaseLost { .. } => {
                "nothing to repair: the new owner continues; look for a pause or a slow database in this process's log".into()
            }
            Self::ProcessExpired { .. } => {
                "start the process again; if it happens often, raise process.lease or look for pauses of this host".into()
            }
        }
    }
}
