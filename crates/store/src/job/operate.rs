//! Operator actions on an execution: stop, abandon, recover.

use super::execution::{ExecutionHead, StatusChange, StatusNews};
use super::{columns, lease_key, object, stop_topic};
use crate::codec::storable;
use crate::error::Result;
use crate::tx::Jobs;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::lifecycle::{self, ExecutionEvent, ExecutionRefusal};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus};
use tidemill_domain::lease::{Fence, Lease, Life};
use tidemill_domain::outbox::lifecycle_events::ExecutionTransition;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an order may be refused"]
pub enum ExecutionChanged {
    Done {
        from: BatchStatus,
        /// The current status; unchanged if there was nothing to do.
        to: BatchStatus,
    },
    Refused(ExecutionRefusal),
    NoSuchExecution,
}

impl Jobs<'_> {
    /// Requests a stop. The process sees the request at the end of its chunk, or is woken.
    #[crate::boxed]
    pub async fn request_stop(
        &mut self,
        id: ExecutionId,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<ExecutionChanged> {
        let Some(head) = self.job_execution_lock(id).await? else {
            return Ok(ExecutionChanged::NoSuchExecution);
        };
        let from = head.status;
        let to = match lifecycle::next(from, ExecutionEvent::RequestStop) {
            Ok(to) => to,
            Err(refusal) => return Ok(ExecutionChanged::Refused(refusal)),
        };
        if to != from {
            let now = self.now().await?;
            let (id, status) = (id.get(), to);
            let change =
                StatusChange { id, status, started_at: None, ended_at: None, exit: None, now: now.into() };
            self.job_execution_save_status(&change).await?;
            let reason_text = reason.map(storable);
            self.job_note_save_stop(id, &actor.name, reason_text.as_deref(), now).await?;
            self.audit_order(&head, actor, ExecutionTransition::Stopping, to, reason).await?;
        }
        // The first wake-up may have been lost.
        self.wake(&stop_topic(id));
        Ok(ExecutionChanged::Done { from, to })
    }

    /// Abandons an execution for good: its instance is never restarted.
    #[crate::boxed]
    pub async fn abandon_execution(
        &mut self,
        id: ExecutionId,
        actor: &Actor,
        reason: &str,
    ) -> Result<ExecutionChanged> {
        let Some(head) = self.job_execution_find(id).await? else {
            return Ok(ExecutionChanged::NoSuchExecution);
        };
        // Wait for a launch that is under way, so that it either counts or sees this.
        self.job_instance_lock_by_id(head.instance).await?;
        let Some(head) = self.job_execution_lock(id).await? else {
            return Ok(ExecutionChanged::NoSuchExecution);
        };
        let from = head.status;
        let to = match lifecycle::next(from, ExecutionEvent::Abandon) {
            Ok(to) => to,
            Err(refusal) => return Ok(ExecutionChanged::Refused(refusal)),
        };
        if to != from {
            let now = self.now().await?.into();
            let ended_at = Some(now);
            let change =
                StatusChange { id: id.get(), status: to, started_at: None, ended_at, exit: None, now };
            self.job_execution_save_status(&change).await?;
            self.job_orphan_restart_taken(id.get()).await?;
            self.notify_end(id).await?;
            self.audit_order(&head, actor, ExecutionTransition::Abandoned, to, Some(reason)).await?;
        }
        Ok(ExecutionChanged::Done { from, to })
    }

    /// Declares that nothing runs an execution any more, so that it can be restarted; refused while its process lives.
    /// For an execution of Spring Batch the process is unknown, so the operator decides.
    #[crate::boxed]
    pub async fn recover_execution(
        &mut self,
        id: ExecutionId,
        actor: &Actor,
        reason: &str,
    ) -> Result<ExecutionChanged> {
        if self.job_execution_find(id).await?.is_none() {
            return Ok(ExecutionChanged::NoSuchExecution);
        }
        let (life, held) = self.life_of_owner(id).await?;
        let Some(head) = self.job_execution_lock(id).await? else {
            return Ok(ExecutionChanged::NoSuchExecution);
        };
        let from = head.status;
        let to = match lifecycle::next(from, ExecutionEvent::Recover(life)) {
            Ok(to) => to,
            Err(refusal) => return Ok(ExecutionChanged::Refused(refusal)),
        };
        // Should its process come back, the fence must reject it.
        match held {
            Some(fence) => {
                self.lease_forget(&lease_key(id), fence).await?;
            }
            None => self.lease_forget_free(&lease_key(id)).await?,
        }
        let exit = ExitStatus::failed(format!("recovered by {}: {reason}", actor.name));
        self.fail_steps(id, &exit).await?;
        let now = self.now().await?;
        let message = columns::exit(&exit).0.message;
        self.job_step_fail_unknown(id, &message, now.into()).await?;
        self.save_end(id, to, &exit, now, false).await?;
        self.audit_order(&head, actor, ExecutionTransition::Recovered, to, Some(reason)).await?;
        Ok(ExecutionChanged::Done { from, to })
    }

    /// Whether the process that holds the execution's lease lives, and its fence. Locks the lease, which waits for the
    /// process's writes, and the process, which cannot come back meanwhile.
    async fn life_of_owner(&mut self, id: ExecutionId) -> Result<(Life, Option<Fence>)> {
        let Some(row) = self.lease_lock(&lease_key(id)).await? else { return Ok((Life::Gone, None)) };
        let Lease::Held { fence, .. } = row.lease else { return Ok((Life::Gone, None)) };
        let process = self.process_lock_shared(fence.owner).await?;
        let now = self.now().await?;
        let is_alive = process.is_some_and(|process| process.state.is_live(now));
        Ok((if is_alive { Life::Alive } else { Life::Gone }, Some(fence)))
    }

    /// Ends the running steps of an execution that no process runs.
    pub(super) async fn fail_steps(&mut self, id: ExecutionId, exit: &ExitStatus) -> Result<()> {
        self.close_partitions(id).await?;
        let now = self.now().await?.into();
        let message = columns::exit(exit).0.message;
        Ok(self.job_step_fail_running(id, &message, now).await?)
    }

    async fn audit_order(
        &mut self,
        head: &ExecutionHead,
        actor: &Actor,
        what: ExecutionTransition,
        to: BatchStatus,
        reason: Option<&str>,
    ) -> Result<()> {
        let action = match what {
            ExecutionTransition::Stopping => "execution.stop",
            ExecutionTransition::Abandoned => "execution.abandon",
            _ => "execution.recover",
        };
        let id = head.id;
        let at = self.now().await?;
        self.publish_execution_event(id, StatusNews { what, status: to, exit_code: None, at }).await?;
        let object = object(id);
        let entry =
            AuditEntry::new(actor.clone(), action, &object).from_to(head.status.as_str(), to.as_str());
        self.audit().record(&entry.with_reason(reason)).await
    }
}
