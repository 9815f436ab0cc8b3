//! What operators may do with a render, and the refusals. [`decide`](super::decide) does the rest.

use super::lifecycle::{Act, Decision, File, Render, Slot};
use super::{Phase, Status};
use crate::action::Action;
use crate::lease::Lease;
use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderRefusal {
    #[error("the render has ended, it is {status}")]
    Ended { status: Status },
    /// The file may have its final name already.
    #[error("the file is being published, so it is too late to cancel the render")]
    TooLate,
    #[error("a worker has the render, it is {status}")]
    AtWork { status: Status },
    #[error("no worker has the render, it is {status}")]
    NotHeld { status: Status },
    #[error("the render is completed, and its file is published")]
    Completed,
    #[error("the render has not ended, it is {status}")]
    NotEnded { status: Status },
    #[error("the render does not wait, it is {status}")]
    NotWaiting { status: Status },
    #[error("the render waits for approval")]
    AwaitsApproval,
    #[error("the render does not wait for approval, it is {status}")]
    NotAwaiting { status: Status },
    /// Somebody else was faster.
    #[error("the render was changed since revision {expected}, it is at revision {current}")]
    Changed { expected: i64, current: i64 },
}

crate::code::coded!(OrderRefusal, RenderOrderRefused);
crate::code::fixes!(OrderRefusal {
    Ended => "there is nothing to cancel; to render it once more, retry it";
    TooLate => "wait until it ends, then delete the file if necessary";
    AtWork => "wait until it ends, or cancel it first";
    NotHeld => "there is nothing to recover; to render it once more, retry it";
    Completed => "to get another file, correct it: `tidemill render correct`";
    NotEnded => "wait until it ends, or cancel it first";
    NotWaiting => "there is no place in the queue to change; to render it once more, retry it";
    AwaitsApproval => "approve or reject it";
    NotAwaiting => "look at the render again; a file is approved once it is rendered and checked, and before it is published";
    Changed => "look at the render again, and repeat the action if that is still necessary";
});

pub fn may_cancel(render: &Render) -> Result<(), OrderRefusal> {
    match (render.status, render.phase) {
        (status, _) if status.is_terminal() => Err(OrderRefusal::Ended { status }),
        (status, Phase::Publishing) if status.is_active() => Err(OrderRefusal::TooLate),
        _ => Ok(()),
    }
}

/// Whether its file may be approved or rejected now.
pub fn may_approve(render: &Render) -> Result<(), OrderRefusal> {
    if render.awaits_approval() { Ok(()) } else { Err(OrderRefusal::NotAwaiting { status: render.status }) }
}

pub fn may_recover(render: &Render, now: Timestamp) -> Result<(), OrderRefusal> {
    let is_lapsed = match render.lease {
        Lease::Held { until, .. } => until.is_none_or(|until| until <= now),
        Lease::Free { .. } => false,
    };
    match render.status {
        _ if is_lapsed => Ok(()),
        status if status.is_active() => Err(OrderRefusal::AtWork { status }),
        status => Err(OrderRefusal::NotHeld { status }),
    }
}

/// The priority only decides about waiting renders.
pub fn may_prioritize(render: &Render) -> Result<(), OrderRefusal> {
    match render.status {
        _ if render.awaits_approval() => Err(OrderRefusal::AwaitsApproval),
        Status::Pending => Ok(()),
        status => Err(OrderRefusal::NotWaiting { status }),
    }
}

/// The actions to offer now. A retry of a pending render is offered only if the render waits for a later time.
pub fn possible(render: &Render, now: Timestamp) -> Vec<Action> {
    let is_put_off = render.status == Status::Pending && render.run_after > now;
    let has_failed = matches!(render.status, Status::Failed | Status::Cancelled);
    let all = [
        (Action::RenderApprove, may_approve(render).is_ok()),
        (Action::RenderReject, may_approve(render).is_ok()),
        (Action::RenderCancel, render.cancel_requested_at.is_none() && may_cancel(render).is_ok()),
        (Action::RenderRetry, (is_put_off || has_failed) && retry(render, now).is_ok()),
        (Action::RenderPrioritize, may_prioritize(render).is_ok()),
        (Action::RenderCorrect, correct(render, now).is_ok()),
        (Action::RenderRecover, may_recover(render, now).is_ok()),
    ];
    all.into_iter().filter_map(|(action, is_possible)| is_possible.then_some(action)).collect()
}

/// What cancelling the render now would do, for the confirmation.
pub fn cancel_means(render: &Render) -> &'static str {
    match (render.status, render.phase) {
        (Status::Pending, Phase::Publishing) => {
            "The next worker that looks at it cancels it, unless its file is published already. Files that object stores \
             already have stay there."
        }
        (Status::Pending, _) if render.job.is_none() => "It is cancelled at once. Nothing was rendered.",
        _ if render.awaits_approval() => {
            "It is cancelled at once. The rendered file is deleted; nothing is published."
        }
        (Status::Pending, _) => {
            "It is cancelled at once. If a node renders it, the node continues until it is done: nexrender cannot stop it. \
             The licence stays busy until then, and the file is deleted."
        }
        (_, Phase::Queued | Phase::Claimed | Phase::Submitting | Phase::WaitingForNode) => {
            "Its worker notices within 15 seconds and deletes the job from nexrender. Nothing was rendered."
        }
        (_, Phase::NodePreparing | Phase::Rendering | Phase::Encoding) => {
            "Its worker notices within 15 seconds. The node continues until it is done: nexrender cannot stop it. \
             The licence stays busy until then, and the file is deleted."
        }
        (_, Phase::Validating | Phase::Copying | Phase::Publishing | Phase::Published) => {
            "Its worker notices within 15 seconds. The rendered file is deleted; nothing is published."
        }
    }
}

pub const APPROVE_MEANS: &str =
    "This file is published. If it has changed since it was checked, it is asked for again.";

pub const REJECT_MEANS: &str = "The render fails with this reason, and the rendered file is deleted. Nothing is published. \
                                Then correct its data, or retry it.";

pub fn retry_means(render: &Render) -> &'static str {
    match render.status {
        Status::Pending => "It does not wait any longer: the next free worker takes it.",
        _ if goes_on(render) => "It is published without rendering again. All failure counts are reset.",
        _ => "It is rendered again. All failure counts are reset.",
    }
}

pub const PRIORITIZE_MEANS: &str =
    "Its place in the queue changes at once. Higher priorities are rendered first.";

pub fn correct_means(render: &Render) -> &'static str {
    match render.status {
        Status::Completed => {
            "It is rendered again with this data. The published file stays until the new one is there; \
             render.correction says which of the two is renamed."
        }
        _ => "It is rendered again with this data. All failure counts are reset.",
    }
}

pub fn recover_means(render: &Render) -> &'static str {
    match render.status {
        Status::Cancelled => "Its job is deleted from nexrender. It stays cancelled.",
        _ => {
            "Its worker has disappeared. Another worker takes it and continues the job if nexrender still has it. \
             If the old worker comes back, its reports are ignored."
        }
    }
}

/// Whether only publishing is retried.
fn goes_on(render: &Render) -> bool {
    match (render.status, render.phase) {
        (Status::Failed, Phase::Publishing) => true,
        (Status::Failed, Phase::Copying) => render.job.is_some(),
        _ => false,
    }
}

/// Retries a render at once, with all counts reset. A render that only could not be published is not rendered again.
pub fn retry(render: &Render, now: Timestamp) -> Result<Decision, OrderRefusal> {
    match render.status {
        Status::Completed => return Err(OrderRefusal::Completed),
        _ if render.awaits_approval() => return Err(OrderRefusal::AwaitsApproval),
        status if status.is_active() => return Err(OrderRefusal::AtWork { status }),
        _ => {}
    }
    let next = if render.status == Status::Pending {
        let lease = Lease::Free { epoch: render.lease.epoch() };
        Render { run_after: now, lease, ..render.clone() }
    } else if goes_on(render) {
        let Render { phase, progress, job, approval, .. } = *render;
        Render { phase, progress, job, approval, ..afresh(render, now) }
    } else {
        afresh(render, now)
    };
    let act = if next.job.is_none() { stop_worker(render) } else { Act::Nothing };
    Ok(Decision { write: Some(next), act, concerns: Vec::new() })
}

/// Renders a render that has ended again, from the beginning, because its data is corrected.
pub fn correct(render: &Render, now: Timestamp) -> Result<Decision, OrderRefusal> {
    if !render.status.is_terminal() {
        return Err(OrderRefusal::NotEnded { status: render.status });
    }
    let act = match render.job.filter(|_| goes_on(render)) {
        // Its file was kept, because it only could not be published.
        Some(epoch) => Act::DropJob { epoch, slot: Slot::Free, file: File::Delete },
        None => stop_worker(render),
    };
    Ok(Decision { write: Some(afresh(render, now)), act, concerns: Vec::new() })
}

/// Refuses an action on a render that was changed after somebody looked at it.
pub fn check_revision(expected: i64, current: i64) -> Result<(), OrderRefusal> {
    if expected == current { Ok(()) } else { Err(OrderRefusal::Changed { expected, current }) }
}

/// Whether a file may have the final name of a render that has ended, so that its next file needs another one.
pub fn may_be_published(ended: &Render) -> bool {
    ended.status == Status::Completed || ended.phase == Phase::Publishing
}

/// It waits as if it was never tried, but its next claim has a new epoch.
fn afresh(render: &Render, now: Timestamp) -> Render {
    Render {
        lease: Lease::Free { epoch: render.lease.epoch() },
        deadline: render.deadline,
        ..Render::new(render.id, now)
    }
}

/// It was ended by SQL and its worker has not noticed yet: the free lease stops the worker.
fn stop_worker(render: &Render) -> Act {
    match (render.lease, render.job) {
        (Lease::Held { .. }, Some(epoch)) => {
            Act::DropJob { epoch, slot: Slot::BusyUntilItEnds, file: File::Delete }
        }
        _ => Act::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Epoch, Fence};
    use crate::process::ProcessId;
    use crate::render::lifecycle::{Approval, Counts};
    use crate::render::retry_rules::Patience;
    use crate::render::{Event, Failure, Policy, RenderId, Trouble, Work, decide};
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn render(status: Status, phase: Phase) -> Render {
        let counts = Counts { attempts: 4, upload: 3, ..Counts::default() };
        let job = Some(Epoch::new(2));
        Render { status, phase, counts, job, ..Render::new(RenderId::new(1), Timestamp::EPOCH) }
    }

    fn retried(render: &Render) -> Render {
        retry(render, NOW).unwrap().write.unwrap()
    }

    fn held(status: Status, phase: Phase, until: Option<Timestamp>) -> Render {
        let fence = Fence { owner: ProcessId::new(uuid::Uuid::nil()), epoch: Epoch::new(3) };
        Render { lease: Lease::Held { fence, until }, ..render(status, phase) }
    }

    #[test]
    fn it_is_too_late_to_cancel_what_is_published() {
        let refused = |status, phase| may_cancel(&render(status, phase)).unwrap_err();

        assert_eq!(refused(Status::Uploading, Phase::Publishing), OrderRefusal::TooLate);
        assert_eq!(
            refused(Status::Completed, Phase::Published),
            OrderRefusal::Ended { status: Status::Completed }
        );
        assert_eq!(may_cancel(&render(Status::Uploading, Phase::Copying)), Ok(()));
        assert_eq!(may_cancel(&render(Status::Pending, Phase::Queued)), Ok(()));
        let waits_for_a_store = render(Status::Pending, Phase::Publishing);
        assert_eq!(may_cancel(&waits_for_a_store), Ok(()));
        assert!(cancel_means(&waits_for_a_store).contains("unless its file is published"));
    }

    #[test]
    fn what_could_only_not_be_published_is_not_rendered_again() {
        let again = retried(&render(Status::Failed, Phase::Copying));

        assert_eq!(
            (again.status, again.phase, again.job),
            (Status::Pending, Phase::Copying, Some(Epoch::new(2)))
        );
        assert_eq!((again.counts, again.run_after), (Counts::default(), NOW));
    }

    #[test]
    fn a_film_that_is_no_longer_good_is_not_gone_on_with() {
        let policy = Policy::new(Patience::new(Some(0), None).unwrap());
        for phase in [Phase::Copying, Phase::Publishing] {
            let held = held(Status::Uploading, phase, Some(NOW.plus(Duration::from_secs(1))));
            let Lease::Held { fence, .. } = held.lease else { panic!("nobody has it") };
            let work = Work::Failed(Trouble::new(Failure::OutputInvalid, "a hole in the middle"));

            let decision = decide(&held, &Event::Work { fence, work }, &policy, NOW);

            let failed = decision.write.unwrap();
            assert_eq!((failed.status, failed.phase), (Status::Failed, Phase::Validating), "{phase}");
            assert!(matches!(decision.act, Act::DropJob { file: File::Delete, .. }), "{phase}");
            let again = retried(&failed);
            assert_eq!((again.phase, again.job), (Phase::Queued, None), "{phase}");
        }
    }

    #[test]
    fn a_render_is_taken_only_from_a_worker_that_has_vanished() {
        let held = |status, until| held(status, Phase::Rendering, until);
        let later = NOW.plus(Duration::from_secs(1));

        assert_eq!(may_recover(&held(Status::Rendering, Some(NOW)), NOW), Ok(()));
        assert_eq!(may_recover(&held(Status::Cancelled, Some(NOW)), NOW), Ok(()));
        assert_eq!(
            may_recover(&held(Status::Rendering, Some(later)), NOW),
            Err(OrderRefusal::AtWork { status: Status::Rendering })
        );
        for status in [Status::Pending, Status::Failed, Status::Completed] {
            let refused = may_recover(&render(status, Phase::Queued), NOW);
            assert_eq!(refused, Err(OrderRefusal::NotHeld { status }));
        }
    }

    #[test]
    fn whoever_cancels_what_a_node_renders_is_told_that_the_licence_stays_busy() {
        for phase in Phase::ALL {
            let said = cancel_means(&render(phase.status(), phase));
            assert_eq!(said.contains("licence stays busy"), is_at_node(phase), "{phase}: {said}");
        }
        assert!(
            !cancel_means(&Render { job: None, ..render(Status::Pending, Phase::Queued) }).contains("node")
        );
    }

    fn is_at_node(phase: Phase) -> bool {
        // A waiting render may have a job at a node.
        matches!(phase, Phase::Queued | Phase::NodePreparing | Phase::Rendering | Phase::Encoding)
    }

    #[test]
    fn whoever_retries_is_told_what_is_done_again() {
        for status in [Status::Pending, Status::Failed, Status::Cancelled] {
            for phase in Phase::ALL {
                let render = render(status, phase);
                let kept = retried(&render).job.is_some() && status != Status::Pending;
                assert_eq!(retry_means(&render).contains("without rendering"), kept, "{status} {phase}");
            }
        }
    }

    #[test]
    fn what_was_cancelled_or_failed_before_begins_anew() {
        for (status, phase) in [
            (Status::Cancelled, Phase::Copying),
            (Status::Failed, Phase::Rendering),
            (Status::Failed, Phase::Validating),
        ] {
            let again = retried(&render(status, phase));
            assert_eq!((again.phase, again.job), (Phase::Queued, None), "{status} {phase}");
        }
    }

    #[test]
    fn a_worker_that_has_not_heard_of_the_end_loses_its_render_and_its_job() {
        let asleep = held(Status::Cancelled, Phase::Rendering, Some(NOW));

        let decision = retry(&asleep, NOW).unwrap();

        let slot = Slot::BusyUntilItEnds;
        assert_eq!(decision.act, Act::DropJob { epoch: Epoch::new(2), slot, file: File::Delete });
        assert_eq!(decision.write.unwrap().lease, Lease::Free { epoch: Epoch::new(3) });
        // A render that only could not be published keeps its job and file.
        let good = retry(&held(Status::Failed, Phase::Copying, Some(NOW)), NOW).unwrap();
        assert_eq!((good.act, good.write.unwrap().job), (Act::Nothing, Some(Epoch::new(2))));
    }

    #[test]
    fn only_what_can_be_done_is_offered() {
        let mut render = Render::new(RenderId::new(1), NOW);
        assert_eq!(possible(&render, NOW), [Action::RenderCancel, Action::RenderPrioritize]);
        render.run_after = NOW.plus(Duration::from_secs(60));
        let put_off = [Action::RenderCancel, Action::RenderRetry, Action::RenderPrioritize];
        assert_eq!(possible(&render, NOW), put_off);
        for (status, expected) in [
            (Status::Failed, &[Action::RenderRetry, Action::RenderCorrect][..]),
            (Status::Cancelled, &[Action::RenderRetry, Action::RenderCorrect]),
            (Status::Completed, &[Action::RenderCorrect]),
        ] {
            render.status = status;
            assert_eq!(possible(&render, NOW), expected, "{status}");
        }
        let lapsed = held(Status::Rendering, Phase::Rendering, Some(NOW));
        assert_eq!(possible(&lapsed, NOW), [Action::RenderCancel, Action::RenderRecover]);
    }

    #[test]
    fn what_waits_for_approval_is_not_tried_again_but_answered() {
        let waiting =
            Render { approval: Some(Approval::Awaiting), ..render(Status::Pending, Phase::Copying) };

        let expected = [Action::RenderApprove, Action::RenderReject, Action::RenderCancel];
        assert_eq!(possible(&waiting, NOW), expected);
        assert_eq!(retry(&waiting, NOW), Err(OrderRefusal::AwaitsApproval));
        assert!(cancel_means(&waiting).contains("file is deleted"));
        let approved =
            Render { approval: Some(Approval::Approved), ..render(Status::Failed, Phase::Copying) };
        assert_eq!(retried(&approved).approval, Some(Approval::Approved), "it only could not be published");
        assert_eq!(correct(&approved, NOW).unwrap().write.unwrap().approval, None);
        let refusal = OrderRefusal::NotAwaiting { status: Status::Failed };
        assert_eq!(may_approve(&approved), Err(refusal));
    }

    #[test]
    fn a_correction_begins_anew_whatever_the_end_was() {
        for status in [Status::Completed, Status::Failed, Status::Cancelled] {
            for phase in Phase::ALL {
                let ended = Render { deadline: Some(NOW), ..render(status, phase) };

                let decision = correct(&ended, NOW).unwrap();

                let next = decision.write.unwrap();
                assert_eq!((next.status, next.phase, next.job), (Status::Pending, Phase::Queued, None));
                assert_eq!((next.counts, next.deadline), (Counts::default(), Some(NOW)));
                assert_eq!(next.lease.epoch(), ended.lease.epoch());
                // A good file of the old data must not be published later.
                let drops = status == Status::Failed && matches!(phase, Phase::Copying | Phase::Publishing);
                assert_eq!(matches!(decision.act, Act::DropJob { .. }), drops, "{status} {phase}");
            }
        }
        for phase in Phase::ALL {
            let status = phase.status();
            if !status.is_terminal() {
                let refused = correct(&render(status, phase), NOW).unwrap_err();
                assert_eq!(refused, OrderRefusal::NotEnded { status });
            }
        }
        let asleep = held(Status::Completed, Phase::Rendering, Some(NOW));
        let slot = Slot::BusyUntilItEnds;
        let act = Act::DropJob { epoch: Epoch::new(2), slot, file: File::Delete };
        assert_eq!(correct(&asleep, NOW).unwrap().act, act);
    }

    #[test]
    fn of_two_corrections_of_one_revision_the_second_is_refused() {
        assert_eq!(check_revision(7, 7), Ok(()));
        assert_eq!(check_revision(7, 8), Err(OrderRefusal::Changed { expected: 7, current: 8 }));
        assert!(may_be_published(&render(Status::Completed, Phase::Published)));
        assert!(may_be_published(&render(Status::Failed, Phase::Publishing)));
        assert!(!may_be_published(&render(Status::Failed, Phase::Copying)));
    }

    #[test]
    fn nothing_is_tried_again_that_runs_or_is_complete() {
        let refused = |status, phase| retry(&render(status, phase), NOW).unwrap_err();

        assert_eq!(refused(Status::Completed, Phase::Published), OrderRefusal::Completed);
        assert_eq!(
            refused(Status::Rendering, Phase::Rendering),
            OrderRefusal::AtWork { status: Status::Rendering }
        );
        assert!(!OrderRefusal::Completed.fix().is_empty());
        let waiting = retried(&render(Status::Pending, Phase::Copying));
        assert_eq!((waiting.run_after, waiting.phase, waiting.counts.attempts), (NOW, Phase::Copying, 4));
    }
}
