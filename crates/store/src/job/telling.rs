//! What happens to executions, told in the transaction in which it happens, if it is to be told at all.

use crate::error::StoreError;
use crate::tx::Jobs;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId};
use tidemill_domain::outbox::telling::{ExecutionChange, ExecutionTold};
use tidemill_domain::time::Timestamp;

/// What is known of a change where it happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) what: ExecutionTold,
    pub(super) status: BatchStatus,
    pub(super) exit_code: Option<&'a str>,
    pub(super) at: Timestamp,
}

impl Jobs<'_> {
    /// Tells of a change of an execution, whose row is locked or was made by this transaction.
    pub(super) async fn tell_of_execution(
        &mut self,
        id: ExecutionId,
        told: Told<'_>,
    ) -> Result<(), StoreError> {
        if !self.telling().tells_of_jobs() {
            return Ok(());
        }
        let Some((instance, job)) = self.job_execution_job(id.get()).await? else { return Ok(()) };
        let Told { what, status, exit_code, at } = told;
        let instance = InstanceId::new(instance);
        let change = ExecutionChange { execution: id, instance, job: &job, what, status, exit_code, at };
        if let Some(event) = self.telling().of_execution(&change) {
            self.publish(&event).await?;
        }
        Ok(())
    }
}
