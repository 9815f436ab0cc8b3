//! Claims, returns, retries, recoveries and ends of a render.

use super::super::retry_rules::{Job, Remedy, jitter, needs_alert};
use super::super::{Failure, Phase, Progress, Status, Trouble};
use super::{Act, Approval, Concern, Decision, File, Policy, RECOVERIES_TOLD_AFTER, Reason, Render, Slot};
use crate::lease::{Epoch, Fence, Lease};
use crate::process::ProcessId;
use crate::time::Timestamp;

pub(super) fn claim(render: &Render, by: ProcessId, policy: &Policy, now: Timestamp) -> Decision {
    if render.status != Status::Pending || now < render.run_after || render.awaits_approval() {
        return Decision::only(Act::Nothing);
    }
    if render.is_to_be_cancelled() {
        return cancelled(render, Slot::BusyUntilItEnds);
    }
    if render.counts.attempts >= policy.attempts_max {
        let message = format!("it was claimed {} times without success", render.counts.attempts);
        return failed(render, &Trouble::new(Failure::WorkerLost, &message), Slot::BusyUntilItEnds);
    }
    let mut next = render.clone();
    next.phase = match (render.phase.claimed(), render.job) {
        // Without its job there is no file to continue with.
        (Phase::Validating | Phase::Copying, None) => Phase::Claimed,
        (phase, _) => phase,
    };
    next.status = next.phase.status();
    // A waiting render has no owner, whatever SQL has left in the row.
    next.lease = Lease::Held {
        fence: Fence { owner: by, epoch: render.lease.epoch().next() },
        until: Some(now.plus(policy.lease_for)),
    };
    next.counts.attempts = render.counts.attempts.saturating_add(1);
    next.reason = None;
    if next.job.is_none() {
        next.progress = Progress::NONE;
    }
    let act = match next.phase {
        Phase::Validating => Act::Validate,
        Phase::Copying => Act::Copy,
        Phase::Publishing => Act::LookAtFinal,
        _ if next.job.is_some() => Act::LookAtJob,
        _ => Act::Prepare,
    };
    Decision::write(next, act)
}

/// Its worker has disappeared. Its job at nexrender continues, and the next worker checks it.
pub(super) fn recovered(render: &Render, policy: &Policy, now: Timestamp) -> Decision {
    if render.is_to_be_cancelled() {
        return cancelled(render, Slot::BusyUntilItEnds);
    }
    let mut next = render.clone();
    next.counts.recoveries = render.counts.recoveries.saturating_add(1);
    let recoveries = next.counts.recoveries;
    let message = format!("its worker disappeared (recovery {recoveries})");
    let trouble = Trouble::new(Failure::WorkerLost, &message);
    if next.counts.attempts >= policy.attempts_max || recoveries > policy.recoveries_max {
        return failed(&next, &trouble, Slot::BusyUntilItEnds);
    }
    release(&mut next);
    let wait = policy.patience.after_recovery(recoveries, jitter(render.id, recoveries));
    next.run_after = now.plus(wait);
    next.reason = Some(reason(&trouble));
    let mut decision = Decision::write(next, Act::Nothing);
    if recoveries > RECOVERIES_TOLD_AFTER {
        decision.concerns.push(Concern::Recovered { recoveries });
    }
    add_if_late(decision)
}

/// Its worker stops: the render goes back as if not claimed, and its job continues.
pub(super) fn stopped(render: &Render, now: Timestamp) -> Decision {
    let mut next = render.clone();
    release(&mut next);
    next.counts.attempts = render.counts.attempts.saturating_sub(1);
    next.run_after = now;
    Decision::write(next, Act::Nothing)
}

pub(super) fn troubled(
    render: &Render,
    trouble: &Trouble,
    slot: Slot,
    policy: &Policy,
    now: Timestamp,
) -> Decision {
    let failure = trouble.failure;
    match policy.patience.remedy(failure) {
        Remedy::GiveUp => failed(render, trouble, slot),
        // Nobody wants the file any more, so nobody waits for the store.
        Remedy::Wait { .. } if render.cancel_requested_at.is_some() => cancelled(render, slot),
        remedy @ (Remedy::Wait { backoff } | Remedy::StopClaiming { backoff }) => {
            let mut decision = stopped(render, now);
            if let Some(next) = &mut decision.write {
                next.run_after = now.plus(backoff.delay(1, jitter(render.id, 1)));
                next.reason = Some(reason(trouble));
            }
            decision.concerns.push(Concern::Failure(failure));
            if matches!(remedy, Remedy::Wait { .. }) {
                return add_if_late(decision);
            }
            decision.act = Act::StopClaiming;
            decision
        }
        Remedy::Again { stage, retries, backoff, job } => {
            let mut next = render.clone();
            let count = next.counts.count(stage);
            if count > retries || next.counts.attempts >= policy.attempts_max {
                return failed(&next, trouble, slot);
            }
            // Once the file may have its final name, only a check of it decides what is repeated.
            let job = if render.phase == Phase::Publishing && failure != Failure::OutputInvalid {
                Job::Same
            } else {
                job
            };
            release(&mut next);
            let mut act = Act::Nothing;
            if job == Job::New {
                next.phase = Phase::Queued;
                next.progress = Progress::NONE;
                act = drop_job(next.job.take(), slot, File::Delete);
            }
            next.run_after = now.plus(backoff.delay(count, jitter(render.id, count)));
            next.reason = Some(reason(trouble));
            let mut decision = Decision::write(next, act);
            if needs_alert(failure) {
                decision.concerns.push(Concern::Failure(failure));
            }
            add_if_late(decision)
        }
    }
}

/// The node has rendered, but the NAS did not take the file. Rendering again is useless until it does. The claim stays
/// counted: if only that node's disk is full, the render must end some time.
pub(super) fn unwritten(
    render: &Render,
    trouble: &Trouble,
    slot: Slot,
    policy: &Policy,
    now: Timestamp,
) -> Decision {
    let mut decision = troubled(render, trouble, slot, policy, now);
    if let Some(next) = &mut decision.write {
        let attempts = render.counts.attempts;
        next.counts.attempts = attempts;
        next.run_after = now.plus(policy.patience.after_unwritten(attempts, jitter(render.id, attempts)));
        (next.phase, next.progress) = (Phase::Queued, Progress::NONE);
        decision.act = drop_job(next.job.take(), slot, File::Delete);
    }
    add_if_late(decision)
}

/// The file is good, and it waits for a person as if not claimed. Nothing else waits for that: its place, its licence and its
/// lease are free.
pub(super) fn asks_for_approval(render: &Render, now: Timestamp) -> Decision {
    let mut decision = stopped(&Render { phase: Phase::Copying, ..render.clone() }, now);
    if let Some(next) = &mut decision.write {
        next.approval = Some(Approval::Awaiting);
    }
    decision
}

pub(super) fn rejected(render: &Render, why: &str) -> Decision {
    let answered = Render { approval: None, ..render.clone() };
    failed(&answered, &Trouble::new(Failure::NotApproved, why), Slot::Free)
}

/// The phase stays, so that a retry knows where to continue.
fn failed(render: &Render, trouble: &Trouble, slot: Slot) -> Decision {
    let mut next = render.clone();
    next.status = Status::Failed;
    next.lease = Lease::Free { epoch: render.lease.epoch() };
    next.reason = Some(reason(trouble));
    if trouble.failure == Failure::NameTaken && render.phase == Phase::Submitting {
        // It never had a job: the one with this name belongs to another queue.
        next.job = None;
    }
    if matches!(trouble.failure, Failure::OutputInvalid | Failure::NotApproved) {
        // The file was good when it was checked and no longer is, or nobody wants it: it must not be used.
        next.phase = next.phase.min(Phase::Validating);
    }
    let file = if next.phase >= Phase::Copying { File::Keep } else { File::Delete };
    let act = drop_job(next.job, slot, file);
    let mut decision = Decision::write(next, act);
    if needs_alert(trouble.failure) {
        decision.concerns.push(Concern::Failure(trouble.failure));
    }
    decision
}

pub(super) fn cancelled(render: &Render, slot: Slot) -> Decision {
    let mut next = render.clone();
    next.status = Status::Cancelled;
    next.lease = Lease::Free { epoch: render.lease.epoch() };
    next.approval = None;
    Decision::write(next, drop_job(render.job, slot, File::Delete))
}

pub(super) fn completed(render: &Render) -> Decision {
    let mut next = render.clone();
    next.phase = Phase::Published;
    next.status = Status::Completed;
    next.progress = Progress::DONE;
    next.lease = Lease::Free { epoch: render.lease.epoch() };
    // nexrender keeps finished jobs forever and becomes slow.
    Decision::write(next, drop_job(render.job, Slot::Free, File::Delete))
}

pub(super) fn drop_job(job: Option<Epoch>, slot: Slot, file: File) -> Act {
    job.map_or(Act::Nothing, |epoch| Act::DropJob { epoch, slot, file })
}

fn release(next: &mut Render) {
    next.status = Status::Pending;
    next.phase = next.phase.resumed();
    next.lease = Lease::Free { epoch: next.lease.epoch() };
}

fn reason(trouble: &Trouble) -> Reason {
    Reason { code: trouble.code, message: trouble.message.clone() }
}

fn add_if_late(mut decision: Decision) -> Decision {
    let next = decision.write.as_ref();
    let late = next.and_then(|next| next.deadline.filter(|deadline| *deadline <= next.run_after));
    decision.concerns.extend(late.map(|deadline| Concern::Late { deadline }));
    decision
}
