//! A worker claims renders: highest priority first, then the nearest deadline, then the oldest.

use super::record::RenderRecord;
use super::row::RenderRow;
use super::save::Change;
use super::work::Worked;
use crate::crash_point;
use crate::error::{Result, StoreError};
use crate::tx::{Renders, Takeover};
use tidemill_domain::lease::{Fence, Lease};
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{Act, BroadcastDate, Decision, Event, Policy, Render, RenderId, decide};
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

/// A row about to be claimed, and the rule's decision.
struct Candidate {
    row: RenderRow,
    before: Render,
    decision: Decision,
}

impl Renders<'_> {
    /// Claims at most `count` waiting renders. Encrypts clear data where there is a key. Needs a transaction.
    pub async fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Claims> {
        let now = self.now().await?;
        let rows = self.render_lock_waiting(now, request.count).await?;
        let mut claims = Claims::default();
        let mut claimed = Vec::with_capacity(rows.len());
        for row in rows {
            let asked = match ask(row, request, now) {
                Ok(asked) => asked,
                Err((id, error)) => {
                    self.set_render_aside(id, &error, now).await?;
                    continue;
                }
            };
            match &asked.decision.write {
                Some(Render { lease: Lease::Held { .. }, .. }) => claimed.push(asked),
                Some(_) => {
                    let Candidate { row, before, decision } = asked;
                    let change = Change::new(request.worker, now);
                    if let Some(row) = self.save_render(row, &before, &decision, change).await? {
                        claims.ended.push(Worked { decision, record: row.record()? });
                    }
                }
                None => {}
            }
        }
        claims.claimed = self.take_over(claimed, request, now).await?;
        Ok(claims)
    }

    async fn take_over(
        &mut self,
        asked: Vec<Candidate>,
        request: ClaimRequest<'_>,
        now: Timestamp,
    ) -> Result<Vec<Claimed>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let takeover = Takeover {
            worker: request.by.into(),
            name: request.worker,
            until: now.plus(request.policy.lease_for).into(),
            now: now.into(),
        };
        let mut claimed = Vec::with_capacity(asked.len());
        for Candidate { mut row, decision, .. } in asked {
            let Some(Render { lease: Lease::Held { fence, .. }, .. }) = decision.write else { continue };
            if let Some(after) = &decision.write {
                row.set(after);
            }
            row.worker_name = Some(request.worker.to_owned());
            row.started_at.get_or_insert(now.into());
            row.updated_at = now.into();
            row.revision += 1;
            if row.broadcast_date.is_none() {
                let date = BroadcastDate::of(row.created_at.into(), request.zone);
                row.broadcast_date = date.map(|date| date.to_string());
            }
            claimed.push((row, fence, decision.act));
        }
        let rows: Vec<&RenderRow> = claimed.iter().map(|(row, ..)| row).collect();
        self.render_save_claimed(&rows, takeover).await?;
        self.render_attempt_begin(&rows, takeover).await?;
        crash_point!("render_claimed");
        let mut records = Vec::with_capacity(claimed.len());
        for (mut row, fence, act) in claimed {
            if row.gfx_key_id.is_none()
                && let Some(key) = self.seal_clear_data(RenderId::new(row.id)).await?
            {
                row.gfx_key_id = Some(key);
                row.revision += 1;
            }
            records.push(Claimed { record: row.record()?, fence, act });
        }
        Ok(records)
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
        Ok(self.render_set_aside(id, &code, &error.to_string(), now).await?)
    }
}

fn ask(
    row: RenderRow,
    request: ClaimRequest<'_>,
    now: Timestamp,
) -> Result<Candidate, (RenderId, StoreError)> {
    // Parse the whole record, so that nothing fails once it is claimed.
    let before = match row.record() {
        Ok(record) => record.render,
        Err(error) => return Err((RenderId::new(row.id), error)),
    };
    let decision = decide(&before, &Event::Claim { by: request.by }, request.policy, now);
    Ok(Candidate { row, before, decision })
}
