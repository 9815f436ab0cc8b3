//! What becomes of a render, whatever happens: one total function from a row and an event to what is written and done.
//!
//! ```text
//!   pending ──claim──► claimed ──prepared──► submitting ──submitted──► waiting for a node … encoding
//!                        │ adopt: its job runs ──────────────────────────────┘          │ finished
//!                        └ adopt: its job is finished ───────────────► validating ◄─────┘
//!   validating ──validated──► copying ──copied──► publishing ──published──► completed
//!   any of these ──failure──► pending, later      or failed, as the matrix says
//!                ──lapse────► pending, its job goes on    or failed, when it happens too often
//!                ──stop─────► pending, as if nobody had claimed it
//!   whatever is not yet publishing ──cancel──► cancelled
//! ```
//!
//! Invariants: what has ended stays so; whoever works on a render has its lease, and nobody else's word counts; attempts
//! are bounded; progress never falls with one job; nothing is completed that was not recorded as publishing before. From
//! `publishing` on the file may have its final name, so it is looked for before anything is done again, and it is too
//! late to cancel.

mod settle;
mod work;

#[cfg(test)]
mod tests;

use super::retry_rules::{Patience, Stage};
use super::{Failure, Phase, Progress, RenderId, Report, Status, Trouble};
use crate::backoff::BadBackoff;
use crate::code::Code;
use crate::lease::{Epoch, Fence, Lease};
use crate::process::ProcessId;
use crate::time::Timestamp;
use std::time::Duration;

/// A render that loses more workers than this is worth a look.
pub const RECOVERIES_TOLD_AFTER: u32 = 3;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Render {
    pub id: RenderId,
    pub status: Status,
    /// What is done with it; of one that waits, where it goes on.
    pub phase: Phase,
    pub progress: Progress,
    pub lease: Lease,
    /// The epoch in which its last job was submitted, or was about to be; none when there is no job to go on with.
    pub job: Option<Epoch>,
    pub counts: Counts,
    pub run_after: Timestamp,
    /// When it is on air.
    pub deadline: Option<Timestamp>,
    /// When somebody did not want it any more.
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
            cancel_requested_at: None,
            reason: None,
        }
    }

    /// Whether somebody may still want the file that the job of this epoch has left.
    pub fn needs_file_of(&self, epoch: Epoch) -> bool {
        let may_go_on = match self.status {
            Status::Completed | Status::Cancelled => false,
            // It is good, and only could not be published.
            Status::Failed => self.phase >= Phase::Copying,
            _ => true,
        };
        may_go_on && self.job == Some(epoch)
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
    pub const fn of(&self, stage: Stage) -> u32 {
        match stage {
            Stage::Submit => self.submit,
            Stage::Render => self.render,
            Stage::Upload => self.upload,
        }
    }

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
    Claim { by: ProcessId },
    /// Somebody does not want it any more.
    Cancel,
    /// Somebody looks whether its worker has vanished.
    Lapse,
    /// Its worker has something to say. Whoever lost the lease is not heard.
    Work { fence: Fence, work: Work },
}

/// What a worker can say about its render. A request to cancel is seen with whatever it says first.
#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    Renew,
    /// The job is made, and nexrender may have it.
    Prepared,
    Submitted,
    Reported(Report),
    Overdue(Failure),
    /// The file is there, complete and no longer growing, whatever nexrender says.
    OutputFound,
    Validated,
    Copied,
    /// The file has its final name, by us or by whoever had the render before.
    Published,
    FinalMissing,
    Failed(Trouble),
    Stop,
}

/// What is to be done, after what is written is committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Nothing,
    Prepare,
    /// Ask nexrender what became of the job of an earlier worker.
    LookAtJob,
    /// Look whether nexrender has the job, and post it if not.
    Submit,
    Poll,
    /// See whether the file is there although nexrender says otherwise; if not, the render has failed like this.
    LookForOutput(Failure),
    Validate,
    Copy,
    Publish,
    /// See whether a file has the final name already.
    LookAtFinal,
    /// Take the job of this epoch out of nexrender.
    DropJob {
        epoch: Epoch,
        /// Whether its licence is free now.
        slot: Slot,
        /// What becomes of the file that it has left or still leaves.
        file: File,
    },
    /// Claim nothing more until the configuration is mended.
    StopClaiming,
    /// Stop at once and publish nothing: somebody else has the render.
    GiveUp,
}

crate::words! {
    pub enum Slot {
        Free = "free",
        /// nexrender cannot stop what runs: it is busy until that ends by itself.
        BusyUntilItEnds = "busy",
    }

    pub enum File {
        /// It is good and only could not be published: somebody may retry that.
        Keep = "keep",
        Delete = "delete",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Concern {
    /// A failure that does not mend itself.
    Failure(Failure),
    /// Its workers vanish, one after the other.
    Recovered { recoveries: u32 },
    /// It is tried again only when it should be on air.
    Late { deadline: Timestamp },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The row as it is to be; none when nothing is written.
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
    /// How often a render is claimed at most, whatever the reasons.
    pub attempts_max: u32,
    pub recoveries_max: u32,
    /// After how many times somebody hears of it.
    pub recoveries_told_after: u32,
    pub lease_for: Duration,
}

impl Policy {
    /// The document's numbers, and a lease of a minute.
    pub fn standard() -> Result<Self, BadBackoff> {
        Ok(Self::new(Patience::new(None, None)?))
    }

    /// The same with another patience. A render may be claimed as often as it takes to use up every single count.
    pub fn new(patience: Patience) -> Self {
        let recoveries_max = 5;
        Self {
            patience,
            attempts_max: patience.retries.saturating_mul(3).saturating_add(recoveries_max + 1),
            recoveries_max,
            recoveries_told_after: RECOVERIES_TOLD_AFTER,
            lease_for: Duration::from_secs(60),
        }
    }
}

pub fn decide(render: &Render, event: &Event, policy: &Policy, now: Timestamp) -> Decision {
    match event {
        Event::Claim { by } => settle::claim(render, *by, policy, now),
        Event::Cancel => cancel(render, now),
        Event::Lapse => lapse(render, policy, now),
        Event::Work { fence, work } => work::decide(render, *fence, work, policy, now),
    }
}

fn cancel(render: &Render, now: Timestamp) -> Decision {
    if render.status.is_terminal() {
        return Decision::only(Act::Nothing);
    }
    let mut next = render.clone();
    next.cancel_requested_at = Some(render.cancel_requested_at.unwrap_or(now));
    if render.status == Status::Pending && next.is_to_be_cancelled() {
        return settle::cancelled(&next, Slot::BusyUntilItEnds);
    }
    Decision::write(next, Act::Nothing)
}

fn lapse(render: &Render, policy: &Policy, now: Timestamp) -> Decision {
    // A render has its own term. One without an end was not written by us, and would never end.
    let is_live = matches!(render.lease, Lease::Held { until: Some(until), .. } if now < until);
    match render.status {
        _ if is_live => Decision::only(Act::Nothing),
        status if status.is_active() => settle::recovered(render, policy, now),
        // Somebody has set the status by SQL, and the worker was gone before it saw that.
        Status::Cancelled if matches!(render.lease, Lease::Held { .. }) => {
            settle::cancelled(render, Slot::BusyUntilItEnds)
        }
        _ => Decision::only(Act::Nothing),
    }
}
