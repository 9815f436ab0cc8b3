//! Operator actions on a render. Each has an audit entry in the same transaction.

use super::object;
use super::record::RenderRecord;
use super::save::Change;
use super::submit::has_nul;
use crate::error::{Result, StoreError};
use crate::statement::statements;
use crate::tx::Renders;
use serde_json::Value;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::render::order::{self, OrderRefusal};
use tidemill_domain::render::selection::PriorityChange;
use tidemill_domain::render::{Decision, Event, Policy, RenderId, Status, decide};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
#[must_use = "an order may be refused"]
pub enum RenderChanged {
    Done {
        from: Status,
        /// A cancelled render stays in work until its worker notices.
        record: Box<RenderRecord>,
    },
    Refused(OrderRefusal),
    NoSuchRender,
}

impl Renders<'_> {
    /// Cancels a render. One in work goes on until its worker notices.
    #[crate::boxed]
    pub async fn cancel(
        &mut self,
        id: RenderId,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<RenderChanged> {
        let Some(record) = self.render_lock(id).await? else { return Ok(RenderChanged::NoSuchRender) };
        if let Err(refusal) = order::may_cancel(&record.render) {
            return Ok(RenderChanged::Refused(refusal));
        }
        let now = self.now().await?;
        let policy = Policy::standard().expect("the numbers of the document are in bounds");
        let decision = decide(&record.render, &Event::Cancel, &policy, now);
        let order = Order { action: "render.cancel", actor, reason, now };
        self.order(record, &decision, order).await
    }

    /// Approves the file that waits for it. Refused if the render is not at `revision` any more, if there is one.
    #[crate::boxed]
    pub async fn approve(
        &mut self,
        id: RenderId,
        revision: Option<i64>,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<RenderChanged> {
        self.answer(id, revision, Event::Approve, ("render.approve", actor, reason)).await
    }

    /// Rejects the file that waits for approval, under the same condition.
    #[crate::boxed]
    pub async fn reject(
        &mut self,
        id: RenderId,
        revision: Option<i64>,
        actor: &Actor,
        reason: &str,
    ) -> Result<RenderChanged> {
        let event = Event::Reject { why: reason.to_owned() };
        self.answer(id, revision, event, ("render.reject", actor, Some(reason))).await
    }

    async fn answer(
        &mut self,
        id: RenderId,
        revision: Option<i64>,
        event: Event,
        (action, actor, reason): (&'static str, &Actor, Option<&str>),
    ) -> Result<RenderChanged> {
        let Some(record) = self.render_lock(id).await? else { return Ok(RenderChanged::NoSuchRender) };
        let current = record.revision;
        let decided = order::may_approve(&record.render)
            .and_then(|()| order::check_revision(revision.unwrap_or(current), current));
        if let Err(refusal) = decided {
            return Ok(RenderChanged::Refused(refusal));
        }
        let now = self.now().await?;
        let policy = Policy::standard().expect("the numbers of the document are in bounds");
        let decision = decide(&record.render, &event, &policy, now);
        self.order(record, &decision, Order { action, actor, reason, now }).await
    }

    /// Retries a render at once.
    #[crate::boxed]
    pub async fn retry(
        &mut self,
        id: RenderId,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<RenderChanged> {
        let Some(record) = self.render_lock(id).await? else { return Ok(RenderChanged::NoSuchRender) };
        let now = self.now().await?;
        let decision = match order::retry(&record.render, now) {
            Ok(decision) => decision,
            Err(refusal) => return Ok(RenderChanged::Refused(refusal)),
        };
        let order = Order { action: "render.retry", actor, reason, now };
        self.order(record, &decision, order).await
    }

    /// Changes the priority of a waiting render, and so its place in the queue.
    #[crate::boxed]
    pub async fn prioritize(
        &mut self,
        id: RenderId,
        change: PriorityChange,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<RenderChanged> {
        let Some(mut record) = self.render_lock(id).await? else { return Ok(RenderChanged::NoSuchRender) };
        if let Err(refusal) = order::may_prioritize(&record.render) {
            return Ok(RenderChanged::Refused(refusal));
        }
        let (now, before) = (self.now().await?, record.priority);
        record.priority = change.of_priority(before);
        (record.updated_at, record.revision) = (now, record.revision + 1);
        self.render_prioritize(id, record.priority, &actor.name, now).await?;
        let entry = AuditEntry::new(actor.clone(), "render.prioritize", &object(id))
            .from_to(&before.to_string(), &record.priority.to_string());
        self.audit_insert(&entry.with_reason(reason), now).await?;
        Ok(RenderChanged::Done { from: record.render.status, record: Box::new(record) })
    }

    /// Renders a render that has ended again, with this checked data. Refused if it is not at `revision` any more.
    #[crate::boxed]
    pub async fn correct(
        &mut self,
        id: RenderId,
        revision: i64,
        data: &Value,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<RenderChanged> {
        if has_nul(data) {
            return Err(StoreError::NulInRender);
        }
        let Some(mut record) = self.render_lock(id).await? else { return Ok(RenderChanged::NoSuchRender) };
        let now = self.now().await?;
        let decided = order::check_revision(revision, record.revision);
        let decision = match decided.and_then(|()| order::correct(&record.render, now)) {
            Ok(decision) => decision,
            Err(refusal) => return Ok(RenderChanged::Refused(refusal)),
        };
        record.key_id = self.replace_data(id, &data.to_string()).await?;
        record.revision += 1;
        let order = Order { action: "render.correct", actor, reason, now };
        self.order(record, &decision, order).await
    }

    /// Takes a render from a vanished worker, without waiting for the reaper. Refused while its lease is valid.
    #[crate::boxed]
    pub async fn recover(
        &mut self,
        id: RenderId,
        policy: &Policy,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<RenderChanged> {
        let Some(record) = self.render_lock(id).await? else { return Ok(RenderChanged::NoSuchRender) };
        let now = self.now().await?;
        let status = record.render.status;
        match order::may_recover(&record.render, now) {
            Ok(()) => {}
            // Repeating the request, or being later than the reaper, is fine.
            Err(OrderRefusal::NotHeld { status: from @ Status::Pending }) => {
                return Ok(RenderChanged::Done { from, record: Box::new(record) });
            }
            Err(refusal) => return Ok(RenderChanged::Refused(refusal)),
        }
        let Some(reaped) = self.reap(record, policy, &actor.name, now).await? else {
            return Ok(RenderChanged::Refused(OrderRefusal::NotHeld { status }));
        };
        let order = Order { action: "render.recover", actor, reason, now };
        self.audit_order_of_render(status, &reaped.record, order).await?;
        Ok(RenderChanged::Done { from: status, record: Box::new(reaped.record) })
    }

    /// The same for at most `limit` renders, with the status before and the current row. Needs a transaction.
    #[crate::boxed]
    pub async fn recover_all(
        &mut self,
        limit: u32,
        policy: &Policy,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<Vec<(Status, RenderRecord)>> {
        let now = self.now().await?;
        let reaped = self.reap_lapsed(limit, policy, &actor.name, now).await?;
        let mut recovered = Vec::with_capacity(reaped.len());
        for (from, reaped) in reaped {
            let order = Order { action: "render.recover", actor, reason, now };
            self.audit_order_of_render(from, &reaped.record, order).await?;
            recovered.push((from, reaped.record));
        }
        Ok(recovered)
    }

    async fn order(
        &mut self,
        record: RenderRecord,
        decision: &Decision,
        order: Order<'_>,
    ) -> Result<RenderChanged> {
        let change = Change::new(&order.actor.name, order.now);
        let from = record.render.status;
        let Some(record) = self.save_render(record, decision, change).await? else {
            return Ok(RenderChanged::NoSuchRender);
        };
        self.audit_order_of_render(from, &record, order).await?;
        Ok(RenderChanged::Done { from, record: Box::new(record) })
    }

    async fn audit_order_of_render(
        &mut self,
        from: Status,
        record: &RenderRecord,
        order: Order<'_>,
    ) -> Result<()> {
        let entry = AuditEntry::new(order.actor.clone(), order.action, &object(record.id()))
            .from_to(from.as_str(), record.render.status.as_str());
        Ok(self.audit_insert(&entry.with_reason(order.reason), order.now).await?)
    }
}

#[derive(Clone, Copy, Debug)]
struct Order<'a> {
    action: &'static str,
    actor: &'a Actor,
    reason: Option<&'a str>,
    now: Timestamp,
}

statements! {
    /// Of a locked row that waits.
    fn render_prioritize(id: RenderId, priority: i64, by: &str, now: Timestamp) -> u64 {
        "update render_queue
         set priority = $2, updated_at = $4, changed_by = $3, revision = revision + 1
         where id = $1 and status = 'pending'"
    }
}
