//! A NAS or an object store that takes no files, and a name that is taken.

use super::*;

#[test]
fn a_film_that_the_nas_did_not_take_from_its_node_is_rendered_again_later_and_not_for_ever() {
    let mut play = Play::at(Phase::Rendering);
    let mut waits = Vec::new();
    for attempts in 1..=3 {
        let failed = Report::Failed { failure: Failure::NasUnwritable, message: "ENOSPC".into() };
        let decision = play.works(Work::Reported(failed));

        assert!(matches!(decision.act, Act::DropJob { slot: Slot::Free, file: File::Delete, .. }));
        assert_eq!(decision.concerns, [Concern::Failure(Failure::NasUnwritable)]);
        assert_eq!((play.render.status, play.render.phase), (Status::Pending, Phase::Queued));
        assert_eq!(play.render.counts, Counts { attempts, ..Counts::default() });
        waits.push(play.waits());
        assert_eq!(play.claim(1), Act::Prepare);
        play.works(Work::Prepared);
        play.works(Work::Submitted);
    }
    assert!(waits.is_sorted() && waits[0] > 50, "{waits:?}");
}

#[test]
fn a_name_that_is_taken_ends_the_render_and_touches_no_job() {
    let mut play = Play::at(Phase::Submitting);
    assert_eq!((play.fails(Failure::NameTaken).act, play.render.job), (Act::Nothing, None));
}

#[test]
fn a_store_that_is_down_is_waited_for_without_counting_and_nothing_is_rendered_again() {
    let mut play = Play::at(Phase::Publishing);
    for _ in 0..50 {
        let decision = play.fails(Failure::TargetDown);

        // Others go on: only a NAS that is down stops the worker.
        assert_eq!(decision.act, Act::Nothing);
        assert_eq!(decision.concerns, [Concern::Failure(Failure::TargetDown)]);
        assert_eq!((play.render.status, play.render.phase), (Status::Pending, Phase::Publishing));
        assert_eq!((play.render.counts, play.render.job), (Counts::default(), Some(Epoch::new(1))));
        assert!((27..=30).contains(&play.waits()), "{}", play.waits());
        assert_eq!(play.claim(1), Act::LookAtFinal);
    }
    assert_eq!(play.works(Work::FinalMissing).act, Act::Copy);
    assert_eq!((play.fails(Failure::TargetDown).act, play.claim(2)), (Act::Nothing, Act::Copy));
}

#[test]
fn a_render_that_nobody_wants_does_not_wait_for_a_store() {
    let mut play = Play::at(Phase::Publishing);
    play.apply(&Event::Cancel);
    let decision = play.fails(Failure::TargetDown);

    assert_eq!((play.render.status, decision.act), (Status::Cancelled, drops(Slot::Free, File::Delete)));

    let mut play = Play::at(Phase::Publishing);
    play.fails(Failure::TargetDown);
    play.apply(&Event::Cancel);
    assert_eq!((play.render.status, play.render.run_after), (Status::Pending, play.now));
    assert_eq!(play.claim(2), Act::LookAtFinal);
    assert_eq!(play.works(Work::FinalMissing).act, drops(Slot::Free, File::Delete));
    assert_eq!(play.render.status, Status::Cancelled);
}
