//! The course of an execution, as its own process records it.

use super::record::EXECUTION;
use super::{columns, object};
use crate::error::Result;
use crate::statement::stored;
use crate::tx::{Jobs, StatusChange};
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::job::lifecycle::{self, ExecutionEvent};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus, InstanceId};
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::outbox::lifecycle_events::{ExecutionChange, ExecutionTransition};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

stored! {
    /// The columns that decisions need.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct ExecutionHead in EXECUTION {
        pub(super) id: ExecutionId = "job_execution_id",
        pub(super) instance: i64 = "job_instance_id",
        pub(super) status: BatchStatus,
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StatusNews<'a> {
    pub(super) what: ExecutionTransition,
    pub(super) status: BatchStatus,
    pub(super) exit_code: Option<&'a str>,
    pub(super) at: Timestamp,
}

impl Jobs<'_> {
    /// False if it is no longer ours, or cannot begin in its status: roll back.
    #[crate::boxed]
    pub async fn begin_execution(&mut self, id: ExecutionId, lease: &LeaseKey, fence: Fence) -> Result<bool> {
        if !self.leases().confirm(lease, fence).await? {
            return Ok(false);
        }
        let Some(head) = self.job_execution_lock(id).await? else { return Ok(false) };
        let Ok(status) = lifecycle::next(head.status, ExecutionEvent::Begin) else { return Ok(false) };
        let at = self.now().await?;
        let now = at.into();
        let change =
            StatusChange { id: id.get(), status, started_at: Some(now), ended_at: None, exit: None, now };
        self.job_execution_save_status(&change).await?;
        let news = StatusNews { what: ExecutionTransition::Started, status, exit_code: None, at };
        self.publish_execution_event(id, news).await?;
        Ok(true)
    }

    pub async fn is_stopping(&mut self, id: ExecutionId) -> Result<bool> {
        let head = self.job_execution_find(id).await?;
        Ok(head.is_some_and(|head| head.status == BatchStatus::Stopping))
    }

    /// Saves the job's context, as [`ExecutionContext::to_text`] wrote it. False if the execution is no longer ours.
    ///
    /// [`ExecutionContext::to_text`]: tidemill_domain::job::ExecutionContext::to_text
    pub async fn save_job_context(
        &mut self,
        id: ExecutionId,
        lease: &LeaseKey,
        fence: Fence,
        text: &str,
    ) -> Result<bool> {
        if !self.leases().confirm(lease, fence).await? {
            return Ok(false);
        }
        self.job_context_save_of_job(id, &columns::context(text)).await?;
        Ok(true)
    }

    /// Ends the execution and releases its lease. False if it is no longer ours, or cannot end like this: roll back.
    #[crate::boxed]
    pub async fn end_execution(
        &mut self,
        id: ExecutionId,
        lease: &LeaseKey,
        fence: Fence,
        status: BatchStatus,
        exit: &ExitStatus,
    ) -> Result<bool> {
        if !self.leases().confirm(lease, fence).await? {
            return Ok(false);
        }
        let Some(head) = self.job_execution_lock(id).await? else { return Ok(false) };
        let before = head.status;
        let Ok(after) = lifecycle::next(before, ExecutionEvent::End(status)) else { return Ok(false) };
        // Steps that were begun and not ended, for example after a lost answer, end with it.
        self.fail_steps(id, exit).await?;
        let actor = self.process_actor(fence.owner).await?;
        let now = self.now().await?;
        self.save_end(id, after, exit, now.into(), false).await?;
        let entry = AuditEntry::new(actor, "execution.end", &object(id))
            .from_to(before.as_str(), after.as_str())
            .because(&exit.code);
        self.audit_insert(&entry, now).await?;
        let (what, exit_code) = (ExecutionTransition::Ended, Some(exit.code.as_str()));
        self.publish_execution_event(id, StatusNews { what, status: after, exit_code, at: now }).await?;
        // The id of an execution is never reused, so the lease's row can go too.
        Ok(self.lease_forget(lease, fence).await? == 1)
    }

    pub(super) async fn save_end(
        &mut self,
        id: ExecutionId,
        status: BatchStatus,
        exit: &ExitStatus,
        now: crate::codec::DbStamp,
        restart_due: bool,
    ) -> Result<()> {
        let (exit, long) = columns::exit(exit);
        let (id, exit) = (id.get(), Some(&exit));
        let change = StatusChange { id, status, started_at: None, ended_at: Some(now), exit, now };
        self.job_execution_save_status(&change).await?;
        self.job_note_save_end(id, long.as_deref(), restart_due).await?;
        Ok(())
    }

    async fn process_actor(&mut self, id: ProcessId) -> Result<Actor> {
        let process = self.process_by_id(id).await?;
        let name = process.map_or_else(|| id.get().to_string(), |process| process.identity.name);
        Ok(Actor { name, role: Role::Worker, request_id: None })
    }

    /// Records lifecycle events. The execution's row is locked, or was inserted by this transaction.
    pub(super) async fn publish_execution_event(
        &mut self,
        id: ExecutionId,
        news: StatusNews<'_>,
    ) -> Result<()> {
        if !self.lifecycle_events().jobs {
            return Ok(());
        }
        let Some((instance, job)) = self.job_execution_job(id).await? else { return Ok(()) };
        let StatusNews { what, status, exit_code, at } = news;
        let instance = InstanceId::new(instance);
        let change = ExecutionChange { execution: id, instance, job: &job, what, status, exit_code, at };
        if let Some(event) = self.lifecycle_events().of_execution(&change) {
            self.publish(&event).await?;
        }
        Ok(())
    }
}
