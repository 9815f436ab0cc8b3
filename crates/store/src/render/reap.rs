//! Renders of vanished workers.

use super::record::{CheckedRender, RenderRecord};
use super::save::Change;
use crate::error::Result;
use crate::tx::Renders;
use std::time::Duration;
use tidemill_domain::lease::Lease;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::{Decision, Event, Policy, Status, decide};
use tidemill_domain::time::Timestamp;

/// The actor in the audit log.
const REAPER: &str = "reaper";

/// How long a silent worker's row is kept.
const WORKERS_KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, PartialEq, Debug)]
pub struct Reaped {
    pub owner: Option<ProcessId>,
    pub decision: Decision,
    pub record: RenderRecord,
}

impl Renders<'_> {
    /// Takes at most `limit` renders from vanished workers; deletes long vanished workers. Needs a transaction.
    pub async fn reap_expired(&mut self, limit: u32, policy: &Policy) -> Result<Vec<Reaped>> {
        let now = self.now().await?;
        let reaped = self.reap_lapsed(limit, policy, REAPER, now).await?;
        self.render_worker_prune(now.minus(WORKERS_KEPT_FOR)).await?;
        Ok(reaped.into_iter().map(|(_, reaped)| reaped).collect())
    }

    /// Returns each with its status before. Sets invalid rows aside.
    pub(super) async fn reap_lapsed(
        &mut self,
        limit: u32,
        policy: &Policy,
        by: &str,
        now: Timestamp,
    ) -> Result<Vec<(Status, Reaped)>> {
        let rows = self.render_lock_lapsed(now, limit).await?;
        let mut all = Vec::with_capacity(rows.len());
        for CheckedRender(row) in rows {
            match row {
                Ok(record) => {
                    let status = record.render.status;
                    let reaped = self.reap(record, policy, by, now).await?;
                    all.extend(reaped.map(|reaped| (status, reaped)));
                }
                Err((id, error)) => self.set_render_aside(id, &error, now).await?,
            }
        }
        Ok(all)
    }

    /// Takes one from its worker, if that has vanished; the row is locked.
    pub(super) async fn reap(
        &mut self,
        record: RenderRecord,
        policy: &Policy,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Reaped>> {
        let decision = decide(&record.render, &Event::Lapse, policy, now);
        if decision.write.is_none() {
            return Ok(None);
        }
        let owner = match record.render.lease {
            Lease::Held { fence, .. } => Some(fence.owner),
            Lease::Free { .. } => None,
        };
        let change = Change { given_back: AttemptOutcome::of_waiting(&Event::Lapse), ..Change::new(by, now) };
        let saved = self.save_render(record, &decision, change).await?;
        Ok(saved.map(|record| Reaped { owner, decision, record }))
    }
}
