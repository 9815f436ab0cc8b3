//! Handles a worker's report, phase by phase.

use super::super::{Failure, Phase, Progress, Report, Status, Trouble};
use super::settle::{asks_for_approval, cancelled, completed, drop_job, stopped, troubled, unwritten};
use super::{Act, Decision, File, Policy, Render, Slot, Work};
use crate::lease::{Fence, Lease, LeaseEvent, Life, Term, next as next_lease, settles};
use crate::time::Timestamp;

pub(super) fn decide(
    render: &Render,
    fence: Fence,
    work: &Work,
    policy: &Policy,
    now: Timestamp,
) -> Decision {
    let slot = slot(render, work);
    if !settles(render.lease, fence) {
        // If the render was cancelled, its job must not run on unnoticed.
        return Decision::only(match (render.status, render.job) {
            (Status::Cancelled, Some(_)) => drop_job(render.job, slot, File::Delete),
            _ => Act::GiveUp,
        });
    }
    match render.status {
        // The status was set by SQL: the worker sees it now.
        Status::Cancelled => return cancelled(render, slot),
        Status::Pending | Status::Completed | Status::Failed => return Decision::only(Act::GiveUp),
        Status::Preparing | Status::Rendering | Status::Encoding | Status::Uploading => {}
    }
    if render.is_to_be_cancelled() {
        return cancelled(render, slot);
    }
    match (render.phase, work) {
        (_, Work::Renew) => renew(render, fence, policy, now),
        (_, Work::Stop) => stopped(render, now),
        (_, Work::Failed(trouble)) => troubled(render, trouble, slot, policy, now),

        (Phase::Claimed, Work::Prepared) if render.job.is_some() => Decision::only(Act::LookAtJob),
        (Phase::Claimed, Work::Prepared) => {
            let mut next = at(render, Phase::Submitting);
            next.job = Some(fence.epoch);
            Decision::write(next, Act::Submit)
        }
        (Phase::Submitting, Work::Submitted) => Decision::write(at(render, Phase::WaitingForNode), Act::Poll),
        (phase, Work::Reported(report)) if may_have_job(phase) && render.job.is_some() => {
            reported(render, fence, report, slot, policy, now)
        }
        (phase, Work::Overdue(Failure::NotPicked)) if phase.is_remote() => {
            let why =
                "no render node took the job in time: none runs, all are busy, or none selects its tags";
            let trouble = Trouble::new(Failure::NotPicked, why);
            troubled(render, &trouble, slot, policy, now)
        }
        (phase, Work::Overdue(failure)) if phase.is_remote() => Decision::only(Act::LookForOutput(*failure)),
        (phase, Work::OutputFound) if may_have_job(phase) && render.job.is_some() => {
            Decision::write(at(render, Phase::Validating), Act::Validate)
        }

        (Phase::Validating, Work::Validated) => Decision::write(at(render, Phase::Copying), Act::Copy),
        (Phase::Validating | Phase::Copying, Work::NeedsApproval) => asks_for_approval(render, now),
        (Phase::Copying, Work::Copied) => Decision::write(at(render, Phase::Publishing), Act::Publish),
        (Phase::Publishing, Work::Published) => completed(render),
        (Phase::Publishing, Work::FinalMissing) => final_missing(render),

        // It does not fit the phase, so it is ignored.
        _ => Decision::only(Act::Nothing),
    }
}

fn renew(render: &Render, fence: Fence, policy: &Policy, now: Timestamp) -> Decision {
    let renewal = LeaseEvent::Renew { fence, term: Term::For(policy.lease_for) };
    match next_lease(render.lease, Life::Alive, renewal, now) {
        Ok(lease @ Lease::Held { .. }) => Decision::write(Render { lease, ..render.clone() }, Act::Nothing),
        // It has lapsed: another worker may take the render.
        Ok(Lease::Free { .. }) | Err(_) => Decision::only(Act::GiveUp),
    }
}

fn reported(
    render: &Render,
    fence: Fence,
    report: &Report,
    slot: Slot,
    policy: &Policy,
    now: Timestamp,
) -> Decision {
    match report {
        Report::At { phase, percent } => {
            let mut next = at(render, if phase.is_remote() { *phase } else { render.phase });
            if let Some(percent) = percent {
                next.progress = render.progress.raised(*percent);
            }
            Decision::write(next, Act::Poll)
        }
        Report::Finished => Decision::write(at(render, Phase::Validating), Act::Validate),
        Report::Failed { failure: Failure::NasUnwritable, message } => {
            unwritten(render, &Trouble::new(Failure::NasUnwritable, message), slot, policy, now)
        }
        Report::Failed { failure, message } => {
            troubled(render, &Trouble::new(*failure, message), slot, policy, now)
        }
        Report::Cancelled => {
            let trouble = Trouble::new(Failure::RemoteCancelled, "the job was cancelled in nexrender");
            troubled(render, &trouble, slot, policy, now)
        }
        // It was about to be posted.
        Report::Lost if render.phase == Phase::Submitting => Decision::only(Act::Submit),
        Report::Lost if render.job == Some(fence.epoch) => {
            // A name is used only once. The next claim has another one.
            let trouble = Trouble::new(Failure::Lost, "nexrender no longer knows the job");
            troubled(render, &trouble, slot, policy, now)
        }
        Report::Lost => {
            let mut next = at(render, Phase::Claimed);
            next.job = None;
            next.progress = Progress::NONE;
            Decision::write(next, Act::Prepare)
        }
        Report::Unknown { .. } => Decision::only(Act::Poll),
    }
}

fn final_missing(render: &Render) -> Decision {
    if render.cancel_requested_at.is_some() {
        return cancelled(render, Slot::Free);
    }
    match render.job {
        Some(_) => Decision::write(at(render, Phase::Copying), Act::Copy),
        None => Decision::write(at(render, Phase::Claimed), Act::Prepare),
    }
}

fn at(render: &Render, phase: Phase) -> Render {
    Render { phase, status: phase.status(), ..render.clone() }
}

fn may_have_job(phase: Phase) -> bool {
    phase.is_remote() || matches!(phase, Phase::Claimed | Phase::Submitting)
}

/// Whether the licence is free once the job is dropped: not when a node may be rendering.
fn slot(render: &Render, work: &Work) -> Slot {
    let has_ended = match work {
        Work::Reported(report) => report.is_end() || *report == Report::Lost,
        _ => false,
    };
    if has_ended || render.phase >= Phase::Validating || render.phase == Phase::WaitingForNode {
        Slot::Free
    } else {
        Slot::BusyUntilItEnds
    }
}
