//! The lifecycle by example.

mod approval;
mod model;
mod nas;

use super::*;
use crate::lease::{Epoch, Fence, Lease};
use crate::render::{Failure, Phase, RenderId, Report, Status, Trouble};
use uuid::Uuid;

/// A render and its worker.
struct Play {
    render: Render,
    fence: Fence,
    now: Timestamp,
    policy: Policy,
}

impl Play {
    /// Claimed by a first worker.
    fn claimed() -> (Self, Act) {
        let now = Timestamp::EPOCH.plus(Duration::from_secs(1_000));
        let mut play = Self {
            render: Render::new(RenderId::new(4711), now),
            fence: Fence { owner: worker(1), epoch: Epoch::ZERO },
            now,
            policy: Policy::standard().unwrap(),
        };
        let act = play.claim(1);
        (play, act)
    }

    /// At a phase, with its own job.
    fn at(phase: Phase) -> Self {
        let (mut play, _) = Self::claimed();
        for (from, work) in [
            (Phase::Claimed, Work::Prepared),
            (Phase::Submitting, Work::Submitted),
            (Phase::WaitingForNode, at(Phase::Rendering, 40.0)),
            (Phase::Rendering, at(Phase::Encoding, 80.0)),
            (Phase::Encoding, Work::Reported(Report::Finished)),
            (Phase::Validating, Work::Validated),
            (Phase::Copying, Work::Copied),
        ] {
            if play.render.phase == from && from < phase {
                play.works(work);
            }
        }
        assert_eq!(play.render.phase, phase);
        play
    }

    fn apply(&mut self, event: &Event) -> Decision {
        let decision = decide(&self.render, event, &self.policy, self.now);
        if let Some(next) = &decision.write {
            self.render = next.clone();
        }
        decision
    }

    fn claim(&mut self, number: u128) -> Act {
        self.now = self.now.max(self.render.run_after);
        let decision = self.apply(&Event::Claim { by: worker(number) });
        if let Lease::Held { fence, .. } = self.render.lease {
            self.fence = fence;
        }
        decision.act
    }

    fn works(&mut self, work: Work) -> Decision {
        let fence = self.fence;
        self.apply(&Event::Work { fence, work })
    }

    fn fails(&mut self, failure: Failure) -> Decision {
        self.works(Work::Failed(Trouble::new(failure, "so it is")))
    }

    /// The worker is silent for longer than its lease.
    fn vanishes(&mut self) -> Decision {
        self.now = self.now.plus(self.policy.lease_for);
        self.apply(&Event::Lapse)
    }

    fn waits(&self) -> u64 {
        self.render.run_after.since(self.now).as_secs()
    }
}

fn worker(number: u128) -> ProcessId {
    ProcessId::new(Uuid::from_u128(number))
}

fn drops(slot: Slot, file: File) -> Act {
    Act::DropJob { epoch: Epoch::new(1), slot, file }
}

fn at(phase: Phase, percent: f64) -> Work {
    Work::Reported(Report::At { phase, percent: Some(percent) })
}

#[test]
fn a_good_render_goes_all_the_way() {
    let (mut play, act) = Play::claimed();
    assert_eq!((play.render.status, act), (Status::Preparing, Act::Prepare));

    for (work, status, act) in [
        (Work::Prepared, Status::Preparing, Act::Submit),
        (Work::Submitted, Status::Rendering, Act::Poll),
        (at(Phase::NodePreparing, 0.0), Status::Rendering, Act::Poll),
        (at(Phase::Rendering, 45.0), Status::Rendering, Act::Poll),
        (at(Phase::Encoding, 80.0), Status::Encoding, Act::Poll),
        (Work::Reported(Report::Finished), Status::Uploading, Act::Validate),
        (Work::Validated, Status::Uploading, Act::Copy),
        (Work::Copied, Status::Uploading, Act::Publish),
        (Work::Published, Status::Completed, drops(Slot::Free, File::Delete)),
    ] {
        let decision = play.works(work);
        assert_eq!((play.render.status, decision.act), (status, act));
    }
    assert_eq!(play.render.progress, Progress::DONE);
    assert_eq!(play.render.lease, Lease::Free { epoch: Epoch::new(1) });
}

#[test]
fn a_state_that_goes_back_shows_its_phase_and_keeps_its_progress() {
    let mut play = Play::at(Phase::Rendering);

    play.works(at(Phase::NodePreparing, 0.0));

    assert_eq!((play.render.phase, play.render.progress.get()), (Phase::NodePreparing, 40));
    let unknown = play.works(Work::Reported(Report::Unknown { word: "render:dancing".into() }));
    assert_eq!((unknown.write, unknown.act), (None, Act::Poll));
}

#[test]
fn another_worker_adopts_what_runs_and_does_not_submit_it_again() {
    let mut play = Play::at(Phase::Rendering);
    play.vanishes();
    assert_eq!((play.render.status, play.render.phase, play.waits()), (Status::Pending, Phase::Queued, 0));

    assert_eq!(play.claim(2), Act::LookAtJob);
    let adopted = play.works(at(Phase::Rendering, 55.0));

    assert_eq!((adopted.act, play.render.job), (Act::Poll, Some(Epoch::new(1))));
    assert_eq!(play.render.lease.epoch(), Epoch::new(2));
    assert_eq!(play.render.progress.get(), 55);
}

#[test]
fn what_finished_meanwhile_is_validated_and_what_failed_is_tried_anew() {
    for (report, act, status) in [
        (Report::Finished, Act::Validate, Status::Uploading),
        (Report::At { phase: Phase::WaitingForNode, percent: None }, Act::Poll, Status::Rendering),
        (
            Report::Failed { failure: Failure::RenderFailed, message: "AESend failed".into() },
            drops(Slot::Free, File::Delete),
            Status::Pending,
        ),
        (Report::Lost, Act::Prepare, Status::Preparing),
    ] {
        let mut play = Play::at(Phase::Rendering);
        play.vanishes();
        play.claim(2);

        let decision = play.works(Work::Reported(report.clone()));

        assert_eq!((decision.act, play.render.status), (act, status), "{report:?}");
    }
}

#[test]
fn a_name_is_never_used_for_a_second_job() {
    // Lost while its worker has it: the next claim has another name.
    let mut play = Play::at(Phase::Rendering);
    play.works(Work::Reported(Report::Lost));
    assert_eq!((play.render.status, play.render.job, play.render.counts.submit), (Status::Pending, None, 1));
    assert_eq!(play.claim(1), Act::Prepare);
    play.works(Work::Prepared);
    assert_eq!(play.render.job, Some(Epoch::new(2)));

    // Lost before this worker had it: its own name is new already.
    let mut play = Play::at(Phase::Rendering);
    play.vanishes();
    play.claim(2);
    play.works(Work::Reported(Report::Lost));
    play.works(Work::Prepared);
    assert_eq!((play.render.phase, play.render.job), (Phase::Submitting, Some(Epoch::new(2))));
    // A worker that checks before it posts finds nothing, and posts.
    assert_eq!(play.works(Work::Reported(Report::Lost)).act, Act::Submit);
}

#[test]
fn what_was_about_to_be_published_is_looked_for_first() {
    let mut play = Play::at(Phase::Publishing);
    play.vanishes();
    assert_eq!(play.claim(2), Act::LookAtFinal);
    assert_eq!(play.render.status, Status::Uploading);
    play.works(Work::Published);
    assert_eq!(play.render.status, Status::Completed);

    let mut play = Play::at(Phase::Publishing);
    play.vanishes();
    play.claim(2);
    assert_eq!(play.works(Work::FinalMissing).act, Act::Copy);
}

#[test]
fn whoever_prepares_although_there_is_a_job_looks_at_that_one() {
    let mut play = Play::at(Phase::Rendering);
    play.vanishes();
    play.claim(2);

    let prepared = play.works(Work::Prepared);

    assert_eq!((prepared.write, prepared.act), (None, Act::LookAtJob));
    assert_eq!(play.render.job, Some(Epoch::new(1)));
}

#[test]
fn a_ghost_writes_nothing_and_gives_up() {
    let mut play = Play::at(Phase::Copying);
    let ghost = play.fence;
    play.vanishes();
    play.claim(2);
    let before = play.render.clone();

    for work in [Work::Copied, Work::Published, Work::Renew, Work::Stop, Work::Validated] {
        let decision = play.apply(&Event::Work { fence: ghost, work });
        assert_eq!((decision.write, decision.act), (None, Act::GiveUp));
    }
    assert_eq!(play.render, before);
}

#[test]
fn only_the_upload_is_repeated_after_the_nas_failed() {
    let mut play = Play::at(Phase::Copying);
    for count in 1..=3 {
        play.fails(Failure::NasFailed);
        assert_eq!((play.render.phase, play.render.counts.upload), (Phase::Copying, count));
        assert!((27..=30).contains(&play.waits()), "{}", play.waits());
        assert_eq!(play.claim(1), Act::Copy);
    }
    let decision = play.fails(Failure::NasFailed);

    assert_eq!((play.render.status, play.render.phase), (Status::Failed, Phase::Copying));
    assert_eq!(play.render.reason.map(|reason| reason.code), Some(Code::NasFailed));
    assert_eq!(decision.act, drops(Slot::Free, File::Keep));
}

#[test]
fn a_bad_file_is_rendered_again_by_a_new_job() {
    let mut play = Play::at(Phase::Validating);

    play.fails(Failure::OutputInvalid);

    assert_eq!(
        (play.render.phase, play.render.job, play.render.progress),
        (Phase::Queued, None, Progress::NONE)
    );
    assert!((54..=60).contains(&play.waits()));
    assert_eq!(play.claim(1), Act::Prepare);
}

#[test]
fn stages_count_apart() {
    let mut play = Play::at(Phase::Validating);
    for _ in 0..3 {
        play.fails(Failure::OutputInvalid);
        play.claim(1);
        play.fails(Failure::NexrenderDown);
        play.claim(1);
        assert_eq!(play.render.status, Status::Preparing);
    }
    assert_eq!((play.render.counts.render, play.render.counts.submit), (3, 3));
}

#[test]
fn nexrender_down_waits_longer_each_time_and_keeps_the_job() {
    let mut play = Play::at(Phase::Rendering);
    for most in [60, 120, 240] {
        play.fails(Failure::NexrenderDown);
        assert!((most - most / 10..=most).contains(&play.waits()), "{} of {most}", play.waits());
        assert_eq!(play.claim(1), Act::LookAtJob);
    }
    play.fails(Failure::NexrenderDown);
    assert_eq!(play.render.status, Status::Failed);
}

#[test]
fn a_missing_template_fails_at_once_and_somebody_hears_of_it() {
    let mut play = Play::at(Phase::Rendering);

    let decision = play.works(Work::Reported(Report::Failed {
        failure: Failure::TemplateMissing,
        message: "ENOENT".into(),
    }));

    assert_eq!((play.render.status, play.render.counts.attempts), (Status::Failed, 1));
    assert_eq!(decision.concerns, [Concern::Failure(Failure::TemplateMissing)]);
}

#[test]
fn a_wrong_configuration_burns_no_attempt_and_stops_the_worker() {
    for failure in [
        Failure::WrongSecret,
        Failure::NotNexrender,
        Failure::PathNotMapped,
        Failure::NasUnwritable,
        Failure::NasNotMounted,
    ] {
        let mut play = Play::at(Phase::Copying);
        let decision = play.fails(failure);

        assert_eq!(decision.act, Act::StopClaiming);
        assert_eq!(decision.concerns, [Concern::Failure(failure)]);
        assert_eq!(play.render.counts, Counts::default());
        assert_eq!((play.render.status, play.render.phase), (Status::Pending, Phase::Copying));
    }
}

#[test]
fn a_worker_that_is_to_stop_gives_back_its_render_and_its_attempt() {
    let mut play = Play::at(Phase::Rendering);

    play.works(Work::Stop);

    assert_eq!((play.render.status, play.render.counts), (Status::Pending, Counts::default()));
    assert_eq!((play.render.job, play.waits()), (Some(Epoch::new(1)), 0));
    assert_eq!(play.claim(2), Act::LookAtJob);
}

#[test]
fn what_stalls_is_looked_for_before_it_is_rendered_again() {
    let mut play = Play::at(Phase::Rendering);
    let decision = play.works(Work::Overdue(Failure::Stalled));
    assert_eq!((decision.write, decision.act), (None, Act::LookForOutput(Failure::Stalled)));

    assert_eq!(play.works(Work::OutputFound).act, Act::Validate);

    let mut play = Play::at(Phase::Rendering);
    let decision = play.fails(Failure::Stalled);
    assert_eq!(decision.act, drops(Slot::BusyUntilItEnds, File::Delete));
    assert_eq!((play.render.status, play.render.job), (Status::Pending, None));
}

#[test]
fn cancel_ends_what_waits_at_once_and_what_runs_when_its_worker_sees_it() {
    let mut waiting = Play::at(Phase::Rendering);
    waiting.works(Work::Stop);
    let decision = waiting.apply(&Event::Cancel);
    assert_eq!(waiting.render.status, Status::Cancelled);
    assert_eq!(decision.act, drops(Slot::BusyUntilItEnds, File::Delete));

    let mut running = Play::at(Phase::Rendering);
    assert_eq!(running.apply(&Event::Cancel).act, Act::Nothing);
    assert_eq!(running.render.status, Status::Rendering);
    let seen = running.works(Work::Renew);
    assert_eq!(seen.act, drops(Slot::BusyUntilItEnds, File::Delete));
    assert_eq!((running.render.status, running.render.phase), (Status::Cancelled, Phase::Rendering));

    let mut queued = Play::at(Phase::WaitingForNode);
    queued.apply(&Event::Cancel);
    let seen = queued.works(Work::Renew);
    assert_eq!(seen.act, drops(Slot::Free, File::Delete));
}

#[test]
fn a_cancelled_render_whose_worker_vanished_is_cancelled_too() {
    let mut play = Play::at(Phase::Rendering);
    play.apply(&Event::Cancel);

    play.vanishes();

    assert_eq!((play.render.status, play.render.counts.recoveries), (Status::Cancelled, 0));
}

#[test]
fn it_is_too_late_to_cancel_what_is_being_published() {
    let mut play = Play::at(Phase::Publishing);
    play.apply(&Event::Cancel);
    play.works(Work::Renew);
    play.works(Work::Published);
    assert_eq!(play.render.status, Status::Completed);

    // Unless it turns out that nothing was published.
    let mut play = Play::at(Phase::Publishing);
    play.apply(&Event::Cancel);
    play.vanishes();
    play.claim(2);
    play.works(Work::FinalMissing);
    assert_eq!(play.render.status, Status::Cancelled);
}

#[test]
fn a_status_that_a_dashboard_wrote_ends_the_work() {
    let dashboard = |play: &mut Play| {
        play.render.status = Status::Cancelled;
        play.render.cancel_requested_at = Some(play.now);
    };
    let drop = drops(Slot::BusyUntilItEnds, File::Delete);

    let mut play = Play::at(Phase::Rendering);
    dashboard(&mut play);
    assert_eq!(play.works(at(Phase::Rendering, 60.0)).act, drop);
    assert_eq!(play.render.lease, Lease::Free { epoch: Epoch::new(1) });
    // Seen again by a write that changed no row.
    assert_eq!(play.works(at(Phase::Rendering, 61.0)).act, drop);

    let mut play = Play::at(Phase::Rendering);
    dashboard(&mut play);
    assert_eq!(play.vanishes().act, drop);
    assert_eq!((play.render.status, play.render.lease.epoch()), (Status::Cancelled, Epoch::new(1)));
}

#[test]
fn a_poisonous_render_stops_after_a_few_workers() {
    let (mut play, _) = Play::claimed();
    let mut told = Vec::new();
    let mut vanished = 0;
    while !play.render.status.is_terminal() {
        vanished += 1;
        told.extend(play.vanishes().concerns);
        play.claim(vanished);
    }

    assert_eq!((vanished, play.render.status), (6, Status::Failed));
    assert_eq!(play.render.reason.map(|reason| reason.code), Some(Code::RenderWorkerLost));
    let recovered = |recoveries| Concern::Recovered { recoveries };
    assert_eq!(told, [recovered(4), recovered(5), Concern::Failure(Failure::WorkerLost)]);
}

#[test]
fn a_row_at_work_that_nobody_has_or_has_without_an_end_is_recovered() {
    for until in [None, Some(Timestamp::EPOCH)] {
        let mut play = Play::at(Phase::Rendering);
        play.render.lease = Lease::Held { fence: play.fence, until };
        play.apply(&Event::Lapse);
        assert_eq!(play.render.status, Status::Pending, "{until:?}");
    }
    let mut play = Play::at(Phase::Rendering);
    play.render.lease = Lease::Free { epoch: Epoch::new(1) };
    play.apply(&Event::Lapse);
    assert_eq!(play.render.status, Status::Pending);
}

#[test]
fn whoever_is_tried_again_only_after_air_time_is_told_of() {
    let mut play = Play::at(Phase::Rendering);
    let deadline = play.now.plus(Duration::from_secs(10));
    play.render.deadline = Some(deadline);

    assert_eq!(play.fails(Failure::RenderFailed).concerns, [Concern::Late { deadline }]);
}

#[test]
fn nobody_claims_before_its_time_or_what_is_cancelled() {
    let mut play = Play::at(Phase::Validating);
    play.fails(Failure::OutputInvalid);
    let early = decide(&play.render, &Event::Claim { by: worker(2) }, &play.policy, play.now);
    assert_eq!((early.write, early.act), (None, Act::Nothing));

    play.render.cancel_requested_at = Some(play.now);
    play.claim(2);
    assert_eq!(play.render.status, Status::Cancelled);
}

#[test]
fn a_cancelled_job_in_nexrender_fails_unless_it_was_we_who_asked() {
    let mut play = Play::at(Phase::WaitingForNode);
    play.works(Work::Reported(Report::Cancelled));
    assert_eq!(play.render.status, Status::Failed);
    assert_eq!(play.render.reason.map(|reason| reason.code), Some(Code::RenderRemoteCancelled));

    let mut play = Play::at(Phase::WaitingForNode);
    play.apply(&Event::Cancel);
    play.works(Work::Reported(Report::Cancelled));
    assert_eq!(play.render.status, Status::Cancelled);
}

#[test]
fn a_file_is_needed_as_long_as_somebody_may_publish_it() {
    let is_needed = |play: &Play| play.render.needs_file_of(play.fence.epoch);
    let mut play = Play::at(Phase::Copying);
    assert!(is_needed(&play) && !play.render.needs_file_of(play.fence.epoch.next()));

    // It only could not be published, so an operator may retry that.
    play.works(Work::Failed(Trouble::new(Failure::NasRefused, "read-only")));
    assert!(is_needed(&play), "{:?}", play.render);
    let mut bad = Play::at(Phase::Validating);
    bad.works(Work::Failed(Trouble::new(Failure::Refused, "no profile")));
    assert!(!is_needed(&bad), "{:?}", bad.render);

    let mut published = Play::at(Phase::Publishing);
    published.works(Work::Published);
    assert!(!is_needed(&published));
}
