//! All decisions about a render: one total function from a row and an event to what is written and done.
//!
//! ```text
//!   pending ──claim──► claimed ──prepared──► submitting ──submitted──► waiting for a node … encoding
//!                        │ adopt: its job runs ──────────────────────────────┘          │ finished
//!                        └ adopt: its job is finished ───────────────► validating ◄─────┘
//!   validating ──validated──► copying ──copied──► publishing ──published──► completed
//!     or copying ──needs approval──► pending, until a person approves it (copying) or rejects it (failed)
//!   any of these ──failure──► pending, later      or failed, as the retry rules say
//!                ──lapse────► pending, its job continues  or failed, after too many
//!                ──stop─────► pending, as if not claimed
//!   before publishing ──cancel──► cancelled
//! ```
//!
//! Invariants: final states stay; only the worker with the lease is heard; attempts are bounded; progress never falls
//! within one job; a render completes only after it was recorded as publishing; nobody claims a render that awaits approval,
//! and an approval is for the file of one job. From `publishing` on the file may have its
//! final name, so it is looked for before anything is repeated, and a render is cancelled only if it turns out that nothing
//! has that name.

mod settle;
mod work;

#[cfg(test)]
mod tests;

use super::failure::Backend;
use super::retry_rules::{Patience, Stage};
use super::{Failure, Phase, Progress, RenderId, Report, Status, Trouble};
use crate::backoff::BadBackoff;
use crate::code::Code;
use crate::lease::{Epoch, Fence, Lease};
use crate::process::ProcessId;
use crate::time::Timestamp;
use std::time::Duration;

/// So that the renders of a worker that was killed are adopted within ten seconds.
pub const LEASE: Duration = Duration::from_secs(7);

/// An alert tells of a render that loses more workers than this.
pub const RECOVERIES_TOLD_AFTER: u32 = 3;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Render {
    pub id: RenderId,
    pub status: Status,
    /// While it waits, where it continues.
    pub phase: Phase,
    pub progress: Progress,
    pub lease: Lease,
    /// The epoch of its last job, submitted or about to be; none when there is no job to continue.
    pub job: Option<Epoch>,
    pub counts: Counts,
    pub run_after: Timestamp,
    /// When it goes on air.
    pub deadline: Option<Timestamp>,
    /// None if nobody was asked about the file of its job.
    pub approval: Option<Approval>,
    pub cancel_requested_at: Option<Timestamp>,
    pub reason: Option<Reason>,
}

impl Render {
    pub fn new(id: RenderId, now: Timestamp) -> Self {
        Self {
            id,
            status: Status::Pending,
            phase: Phase::Queued,
            progress: Progress::NONE,
            lease: Lease::NEW,
            job: None,
            counts: Counts::default(),
            run_after: now,
            deadline: None,
            approval: None,
            cancel_requested_at: None,
            reason: None,
        }
    }

    /// Whether the file of this epoch's job may still be needed.
    pub fn needs_file_of(&self, epoch: Epoch) -> bool {
        let may_go_on = match self.status {
            Status::Completed | Status::Cancelled => false,
            // The file is good and only could not be published.
            Status::Failed => self.phase >= Phase::Copying,
            _ => true,
        };
        may_go_on && self.job == Some(epoch)
    }

    /// Since `run_after`.
    pub fn awaits_approval(&self) -> bool {
        self.status == Status::Pending && self.approval == Some(Approval::Awaiting)
    }

    fn is_to_be_cancelled(&self) -> bool {
        self.cancel_requested_at.is_some() && self.phase != Phase::Publishing
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Claims that were not given back.
    pub attempts: u32,
    pub recoveries: u32,
    pub submit: u32,
    pub render: u32,
    pub upload: u32,
}

impl Counts {
    fn count(&mut self, stage: Stage) -> u32 {
        let count = match stage {
            Stage::Submit => &mut self.submit,
            Stage::Render => &mut self.render,
            Stage::Upload => &mut self.upload,
        };
        *count = count.saturating_add(1);
        *count
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    pub code: Code,
    pub message: String,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A worker takes it.
    Claim {
        by: ProcessId,
    },
    /// An operator cancels it.
    Cancel,
    /// A person has looked at its file.
    Approve,
    Reject {
        why: String,
    },
    /// Recovers the render if its worker has disappeared.
    Lapse,
    /// A report of its worker. Workers without the lease are ignored.
    Work {
        fence: Fence,
        work: Work,
    },
}

/// What a worker reports. The first report after a request to cancel learns of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    Renew,
    /// The job is built and may be submitted.
    Prepared,
    Submitted,
    Reported(Report),
    Overdue(Failure),
    /// The file is complete and no longer growing, whatever nexrender reports.
    OutputFound,
    Validated,
    /// The file is good, but a person has to approve it before it is published.
    NeedsApproval,
    Copied,
    /// The file has its final name, from this worker or an earlier one.
    Published,
    FinalMissing,
    Failed(Trouble),
    Stop,
}

impl Work {
    /// The backend to check before this is reported, because it may be the fault of this render alone.
    pub fn blames(&self) -> Option<Backend> {
        match self {
            Self::Failed(trouble) => trouble.failure.blames(),
            _ => None,
        }
    }

    /// The same report if that backend passes its check.
    #[must_use]
    pub fn of_one_render(self) -> Self {
        match self {
            Self::Failed(trouble) => Self::Failed(trouble.of_one_render()),
            other => other,
        }
    }
}

/// What to do after the write is committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Nothing,
    Prepare,
    /// Ask nexrender about the job of an earlier worker.
    LookAtJob,
    /// Check whether nexrender has the job, and post it if not.
    Submit,
    Poll,
    /// Look for the file although nexrender reports otherwise; without it, the render has failed like this.
    LookForOutput(Failure),
    Validate,
    Copy,
    Publish,
    /// Check whether a file has the final name already.
    LookAtFinal,
    /// Delete the job of this epoch from nexrender.
    DropJob {
        epoch: Epoch,
        /// Whether its licence is free now.
        slot: Slot,
        file: File,
    },
    /// Claim nothing more until the configuration is fixed.
    StopClaiming,
    /// Stop at once and publish nothing: another worker has the render.
    GiveUp,
}

crate::words! {
    pub enum Approval {
        Awaiting = "awaiting",
        Approved = "approved",
    }

    pub enum Slot {
        Free = "free",
        /// nexrender cannot stop a running job: the licence is busy until it ends.
        BusyUntilItEnds = "busy",
    }

    pub enum File {
        /// The file is good and only could not be published: an operator may retry that.
        Keep = "keep",
        Delete = "delete",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Concern {
    /// A failure that does not resolve itself.
    Failure(Failure),
    /// Its workers keep disappearing.
    Recovered { recoveries: u32 },
    /// The next attempt comes after it should be on air.
    Late { deadline: Timestamp },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// None when nothing is written.
    pub write: Option<Render>,
    pub act: Act,
    pub concerns: Vec<Concern>,
}

impl Decision {
    fn only(act: Act) -> Self {
        Self { write: None, act, concerns: Vec::new() }
    }

    fn write(render: Render, act: Act) -> Self {
        Self { write: Some(render), act, concerns: Vec::new() }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policy {
    pub patience: Patience,
    /// Maximum number of claims, whatever the reasons.
    pub attempts_max: u32,
    pub recoveries_max: u32,
    pub lease_for: Duration,
}

impl Policy {
    /// The source document's numbers, and a lease of [`LEASE`].
    pub fn standard() -> Result<Self, BadBackoff> {
        Ok(Self::new(Patience::new(None, None)?))
    }

    /// With another patience. The maximum of claims allows for every single retry.
    pub fn new(patience: Patience) -> Self {
        let recoveries_max = 5;
        Self {
            patience,
            attempts_max: patience.retries.saturating_mul(3).saturating_add(recoveries_max + 1),
            recoveries_max,
            lease_for: LEASE,
        }
    }
}

pub fn decide(render: &Render, event: &Event, policy: &Policy, now: Timestamp) -> Decision {
    let mut decision = match event {
        Event::Claim { by } => settle::claim(render, *by, policy, now),
        Event::Cancel => cancel(render, now),
        Event::Approve | Event::Reject { .. } if !render.awaits_approval() => Decision::only(Act::Nothing),
        Event::Approve => {
            let approval = Some(Approval::Approved);
            Decision::write(Render { approval, run_after: now, ..render.clone() }, Act::Nothing)
        }
        Event::Reject { why } => settle::rejected(render, why),
        Event::Lapse => lapse(render, policy, now),
        Event::Work { fence, work } => work::decide(render, *fence, work, policy, now),
    };
    if let Some(next) = &mut decision.write
        && next.job != render.job
    {
        // Another job renders another file, which nobody has seen.
        next.approval = None;
    }
    decision
}

fn cancel(render: &Render, now: Timestamp) -> Decision {
    if render.status.is_terminal() {
        return Decision::only(Act::Nothing);
    }
    let mut next = render.clone();
    next.cancel_requested_at = Some(render.cancel_requested_at.unwrap_or(now));
    if render.status == Status::Pending && next.is_to_be_cancelled() {
        let slot = if render.awaits_approval() { Slot::Free } else { Slot::BusyUntilItEnds };
        return settle::cancelled(&next, slot);
    }
    if render.status == Status::Pending {
        // Its file may have its final name. Whoever claims it next finds out, and need not wait for that.
        next.run_after = render.run_after.min(now);
    }
    Decision::write(next, Act::Nothing)
}

fn lapse(render: &Render, policy: &Policy, now: Timestamp) -> Decision {
    // A render's lease has its own end. One without was not written by us, and would never end.
    let is_live = matches!(render.lease, Lease::Held { until: Some(until), .. } if now < until);
    match render.status {
        _ if is_live => Decision::only(Act::Nothing),
        status if status.is_active() => settle::recovered(render, policy, now),
        // The status was set by SQL, and the worker disappeared before it saw that.
        Status::Cancelled if matches!(render.lease, Lease::Held { .. }) => {
            settle::cancelled(render, Slot::BusyUntilItEnds)
        }
        _ => Decision::only(Act::Nothing),
    }
}
