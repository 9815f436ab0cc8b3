//! A NAS that takes no files, and a name that is taken on it.

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
