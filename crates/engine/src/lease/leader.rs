//! The one process among many that does something: whoever has the lease does it, and the others wait for their turn.

use super::HeldLease;
use crate::error::EngineError;
use crate::process::Process;
use crate::service::{Next, Service};
use std::time::Duration;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_store::lease::freed_topic;

/// Asks for a lease again and again.
pub(crate) struct Leader {
    process: Process,
    key: LeaseKey,
    service: Service,
}

impl Leader {
    /// Asks for this lease at once, and then after pauses of this length.
    pub(crate) fn new(process: &Process, key: LeaseKey, pause: Duration) -> Self {
        let service = Service::new(format!("asking for the lease {key}"), pause)
            .wake_by(process.store().wakeup(&freed_topic(key.kind())))
            .until_end_of(process);
        Self { process: process.clone(), key, service }
    }

    /// Waits for the lease; none when the process has ended.
    pub(crate) async fn lease(&mut self) -> Option<HeldLease> {
        while self.service.is_due().await {
            match self.process.acquire(&self.key, Term::Process).await {
                Ok(lease) => {
                    self.service.rest();
                    return Some(lease);
                }
                Err(EngineError::LeaseHeld { .. }) => self.service.rest(),
                Err(EngineError::ProcessExpired { .. }) => return None,
                Err(error) => self.service.ended(Err::<Next, _>(error)),
            }
        }
        None
    }
}
