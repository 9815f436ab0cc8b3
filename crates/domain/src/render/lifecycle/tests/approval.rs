//! A person's approval, before a file is published.

use super::*;

/// A render whose file waits for approval.
fn asked() -> Play {
    let mut play = Play::at(Phase::Validating);
    assert_eq!(play.works(Work::NeedsApproval).act, Act::Nothing);
    play
}

fn reject() -> Event {
    Event::Reject { why: "the name is wrong".into() }
}

#[test]
fn a_file_that_needs_approval_waits_without_a_worker_and_burns_no_attempt() {
    let mut play = asked();

    let render = play.render.clone();
    assert_eq!((render.status, render.phase), (Status::Pending, Phase::Copying));
    assert_eq!((render.lease, render.counts.attempts), (Lease::Free { epoch: Epoch::new(1) }, 0));
    assert!(render.awaits_approval() && render.needs_file_of(Epoch::new(1)));
    play.now = play.now.plus(Duration::from_secs(7 * 86_400));
    assert_eq!(play.claim(2), Act::Nothing);
    assert_eq!(play.apply(&Event::Lapse).write, None);
    assert_eq!(play.render, render);
}

#[test]
fn what_is_approved_is_published_and_what_has_changed_since_is_asked_for_again() {
    let mut play = asked();
    play.apply(&Event::Approve);

    assert_eq!(play.claim(2), Act::Copy);
    play.works(Work::NeedsApproval);
    assert!(play.render.awaits_approval(), "{:?}", play.render);
    play.apply(&Event::Approve);
    assert_eq!(play.claim(3), Act::Copy);
    play.works(Work::Copied);
    play.works(Work::Published);

    assert_eq!((play.render.status, play.render.counts.attempts), (Status::Completed, 1));
}

#[test]
fn the_approval_outlives_a_worker_but_not_the_file() {
    let mut play = asked();
    play.apply(&Event::Approve);
    play.claim(2);
    play.now = play.now.plus(LEASE);
    play.apply(&Event::Lapse);
    assert_eq!(play.render.approval, Some(Approval::Approved));

    play.claim(3);
    play.fails(Failure::OutputInvalid);

    assert_eq!((play.render.phase, play.render.job, play.render.approval), (Phase::Queued, None, None));
}

#[test]
fn a_rejected_file_is_deleted_and_rendered_again_when_it_is_wanted() {
    let mut play = asked();

    let decision = play.apply(&reject());

    assert_eq!(decision.act, drops(Slot::Free, File::Delete));
    let render = &play.render;
    let reason = render.reason.as_ref().unwrap();
    assert_eq!((render.status, render.phase, render.approval), (Status::Failed, Phase::Validating, None));
    assert_eq!((reason.code, reason.message.as_str()), (Code::RenderNotApproved, "the name is wrong"));
    assert!(!render.needs_file_of(Epoch::new(1)));
    let again = crate::render::order::retry(render, play.now).unwrap().write.unwrap();
    assert_eq!((again.phase, again.job), (Phase::Queued, None));
}

#[test]
fn only_what_waits_for_approval_is_approved_or_rejected() {
    let mut cancelled = asked();
    assert_eq!(cancelled.apply(&Event::Cancel).act, drops(Slot::Free, File::Delete));
    for phase in Phase::ALL {
        let render = Render { phase, status: phase.status(), ..Play::claimed().0.render };
        for event in [Event::Approve, reject()] {
            assert_eq!(decide(&render, &event, &cancelled.policy, cancelled.now).write, None, "{phase}");
            assert_eq!(cancelled.apply(&event).write, None);
        }
    }
    assert_eq!(cancelled.render.status, Status::Cancelled);
}
