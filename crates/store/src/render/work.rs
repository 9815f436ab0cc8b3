//! A worker's reports about a render. Each is one transaction, and counts only under the fence.

use super::record::RenderRecord;
use super::save::Change;
use crate::error::Result;
use crate::tx::Renders;
use serde_json::Value;
use tidemill_domain::lease::Fence;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::{Act, Decision, Event, Policy, RenderId, Work, decide};

/// Written beside the decision, and only if the decision writes something.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Notes<'a> {
    /// With `Work::Prepared`: the job for nexrender. Kept with the attempt, encrypted where data is.
    pub document: Option<&'a Value>,
    /// With `Work::Prepared`: where the node leaves the file.
    pub staged_path: Option<&'a str>,
    /// With `Work::Submitted`, or when a job is adopted: nexrender's id of the job.
    pub remote_job: Option<&'a str>,
    /// With `Work::Reported`: a value that changes with the job (`RemoteJob::updated`).
    pub mark: Option<&'a str>,
    /// With `Work::Validated` or `Work::Failed`: the result of the checks. Kept with the attempt.
    pub report: Option<&'a Value>,
    pub poster_path: Option<&'a str>,
    /// With `Work::Copied` or `Work::NeedsApproval`.
    pub output_bytes: Option<u64>,
    /// The same: in hexadecimal digits.
    pub output_sha256: Option<&'a str>,
    /// With `Work::Copied` or `Work::Published`: the final path, for people.
    pub output_path: Option<&'a str>,
    /// With `Work::Copied` or `Work::Published`: its URLs in object stores, one on each line; after an empty line those of
    /// earlier files.
    pub output_objects: Option<&'a str>,
    /// With `Work::Published`: where the file before is now.
    pub previous_path: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Worked {
    /// `decision.act` is the next action.
    pub decision: Decision,
    pub record: RenderRecord,
}

impl Renders<'_> {
    /// Applies a report. `None` if the row is gone: then give up. Needs a transaction.
    pub async fn work(
        &mut self,
        id: RenderId,
        fence: Fence,
        work: Work,
        notes: Notes<'_>,
        policy: &Policy,
    ) -> Result<Option<Worked>> {
        let event = Event::Work { fence, work };
        let given_back = AttemptOutcome::of_waiting(&event);
        let Some(record) = self.render_lock(id).await? else { return Ok(None) };
        let now = self.now().await?;
        let decision = decide(&record.render, &event, policy, now);
        let by = record.worker_name.clone().unwrap_or_else(|| fence.owner.to_string());
        let leftover_kept = policy.lease_for;
        let change = Change { by: &by, given_back, leftover_kept, notes, now };
        if let Some(record) = self.save_render(record, &decision, change).await? {
            return Ok(Some(Worked { decision, record }));
        }
        // Nothing was written, so return the current row.
        let Some(record) = self.find(id).await? else { return Ok(None) };
        let decision = decide(&record.render, &event, policy, now);
        let act = match decision.act {
            act @ Act::DropJob { .. } => act,
            _ => Act::GiveUp,
        };
        let decision = Decision { write: None, act, concerns: Vec::new() };
        Ok(Some(Worked { decision, record }))
    }

    /// Renews the leases of renders without other news, in one statement; works without a transaction
    /// ([`Store::alone`](crate::Store::alone)). A render missing from the answer was not renewed, because its lease is
    /// lost or it was cancelled: report `Work::Renew` by [`work`](Self::work), and do what that returns.
    pub async fn renew(&mut self, held: &[(RenderId, Fence)], policy: &Policy) -> Result<Vec<RenderId>> {
        let micros = i64::try_from(policy.lease_for.as_micros()).unwrap_or(i64::MAX);
        let now = self.fake_now();
        let ids = self.render_renew(held, micros, now).await?;
        Ok(ids.into_iter().map(RenderId::new).collect())
    }
}
