//! The watch over alerts: the lease of the one process that evaluates and delivers.

use crate::error::EngineError;
use crate::lease::HeldLease;
use crate::process::Process;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_store::{Store, Tx};

pub(super) fn key() -> LeaseKey {
    LeaseKey::new("alert", "evaluator").expect("kind and name are short and plain")
}

/// The right to judge alerts and to deliver their notices.
#[derive(Debug)]
pub struct Watch {
    lease: HeldLease,
}

impl Watch {
    /// Asks for the watch; [`EngineError::LeaseHeld`] when somebody else has it.
    pub async fn take(process: &Process) -> Result<Self, EngineError> {
        let lease = process.acquire(&key(), Term::Process).await?;
        Ok(Self { lease })
    }

    /// The watch of the process that has its lease.
    pub(super) fn of(lease: HeldLease) -> Self {
        Self { lease }
    }

    pub async fn release(self) -> Result<(), EngineError> {
        self.lease.release().await
    }

    /// Waits until the watch is lost.
    pub async fn lost(&self) {
        self.lease.lost().await;
    }

    /// Whether this process may still act.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        self.lease.check()
    }

    pub(super) fn store(&self) -> &Store {
        self.lease.process().store()
    }

    /// A transaction whose writes count only while the watch is ours.
    pub(super) async fn begin(&self) -> Result<Tx, EngineError> {
        self.lease.begin().await
    }
}
