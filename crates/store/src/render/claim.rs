//! A worker claims renders: highest priority first, then the nearest deadline, then the oldest.

use super::record::{CheckedRender, RenderRecord};
use super::save::Change;
use super::work::Worked;
use crate::crash_point;
use crate::error::{Result, StoreError};
use crate::tx::Renders;
use tidemill_domain::lease::{Fence, Lease};
use tidemill_domain::outbox::lifecycle_events::RenderChange;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{Act, BroadcastDate, Event, Policy, Render, RenderId, Status, decide};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    pub by: ProcessId,
    pub worker: &'a str,
    /// How many it has room for.
    pub count: u32,
    pub policy: &'a Policy,
    /// The zone of the broadcast day, where the render has none.
    pub zone: &'a Zone,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    pub record: RenderRecord,
    /// Needed for everything it reports about the render.
    pub fence: Fence,
    /// The first action.
    pub act: Act,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claims {
    pub claimed: Vec<Claimed>,
    /// Renders that ended instead, because they were cancelled or claimed too often.
    pub ended: Vec<Worked>,
}

impl Renders<'_> {
    /// Claims at most `count` waiting renders. Encrypts clear data where there is a key. Needs a transaction.
    pub async fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Claims> {
        let now = self.now().await?;
        let rows = self.render_lock_waiting(now, request.count).await?;
        let mut claims = Claims::default();
        for CheckedRender(row) in rows {
            let mut record = match row {
                Ok(record) => record,
                Err((id, error)) => {
                    self.set_render_aside(id, &error, now).await?;
                    continue;
                }
            };
            let decision = decide(&record.render, &Event::Claim { by: request.by }, request.policy, now);
            match &decision.write {
                Some(after @ Render { lease: Lease::Held { fence, .. }, .. }) => {
                    record.set(after);
                    record.worker_name = Some(request.worker.to_owned());
                    record.started_at.get_or_insert(now);
                    record.updated_at = now;
                    record.revision += 1;
                    if record.broadcast_date.is_none() {
                        record.broadcast_date = BroadcastDate::of(record.created_at, request.zone);
                    }
                    claims.claimed.push(Claimed { record, fence: *fence, act: decision.act });
                }
                Some(_) => {
                    let change = Change::new(request.worker, now);
                    if let Some(record) = self.save_render(record, &decision, change).await? {
                        claims.ended.push(Worked { decision, record });
                    }
                }
                None => {}
            }
        }
        if !claims.claimed.is_empty() {
            self.take_over(&mut claims.claimed, request, now).await?;
        }
        Ok(claims)
    }

    async fn take_over(
        &mut self,
        claimed: &mut [Claimed],
        request: ClaimRequest<'_>,
        now: Timestamp,
    ) -> Result<()> {
        let records: Vec<&RenderRecord> = claimed.iter().map(|claimed| &claimed.record).collect();
        self.render_save_claimed(&records, request, now).await?;
        // Earlier attempts without an end were lost: the status was changed by SQL.
        let ids: Vec<i64> = records.iter().map(|record| record.id().get()).collect();
        self.render_attempt_lose(&ids, now).await?;
        self.render_attempt_begin(&records, request, now).await?;
        crash_point!("render_claimed");
        for Claimed { record, .. } in claimed {
            if record.key_id.is_none()
                && let Some(key) = self.seal_clear_data(record.id()).await?
            {
                record.key_id = Some(key);
                record.revision += 1;
            }
        }
        Ok(())
    }

    /// Ends a render with an invalid row, so that it does not block the others.
    pub(super) async fn set_render_aside(
        &mut self,
        id: RenderId,
        error: &StoreError,
        now: Timestamp,
    ) -> Result<()> {
        tracing::error!(render.id = id.get(), %error, "the row of render {id} makes no sense, so it has failed");
        let code = error.code().to_string();
        self.render_set_aside(id, &code, &error.to_string(), now).await?;
        let (status, code) = (Status::Failed, Some(error.code()));
        let change = RenderChange {
            render: id,
            composition: None,
            cue_item: None,
            status,
            code,
            output: None,
            objects: &[],
            at: now,
        };
        self.notify_of_render(&change).await
    }
}
