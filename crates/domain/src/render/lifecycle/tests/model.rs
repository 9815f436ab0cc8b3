//! The lifecycle with random events: invariants after each event, and every render ends.

use super::super::*;
use crate::lease::{Epoch, Fence, Lease};
use crate::render::{Failure, Phase, RenderId, Report, Status, Trouble};
use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;

/// A random event.
#[derive(Clone, Debug)]
enum Step {
    Claim(u128),
    Cancel,
    Lapse,
    /// By the worker with the lease.
    Work(Work),
    /// By a worker without the lease.
    Ghost(Work),
    Approve,
    Reject,
    /// A dashboard writes `cancelled` by SQL.
    Dashboard,
    Pass(u64),
}

fn works() -> impl Strategy<Value = Work> {
    let failure = || (0..Failure::ALL.len()).prop_map(|index| Failure::ALL[index]);
    let remote = [Phase::WaitingForNode, Phase::NodePreparing, Phase::Rendering, Phase::Encoding];
    prop_oneof![
        1 => Just(Work::Renew),
        3 => Just(Work::Prepared),
        3 => Just(Work::Submitted),
        2 => (0..4_usize, any::<f64>()).prop_map(move |(index, percent)| {
            Work::Reported(Report::At { phase: remote[index], percent: Some(percent) })
        }),
        3 => Just(Work::Reported(Report::Finished)),
        1 => failure().prop_map(|failure| Work::Reported(Report::Failed { failure, message: "m".into() })),
        1 => Just(Work::Reported(Report::Cancelled)),
        1 => Just(Work::Reported(Report::Lost)),
        1 => Just(Work::Reported(Report::Unknown { word: "w".into() })),
        1 => failure().prop_map(Work::Overdue),
        1 => Just(Work::OutputFound),
        3 => Just(Work::Validated),
        2 => Just(Work::NeedsApproval),
        3 => Just(Work::Copied),
        3 => Just(Work::Published),
        1 => Just(Work::FinalMissing),
        2 => failure().prop_map(|failure| Work::Failed(Trouble::new(failure, "m"))),
        1 => Just(Work::Stop),
    ]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..4_u128).prop_map(Step::Claim),
        12 => works().prop_map(Step::Work),
        2 => works().prop_map(Step::Ghost),
        1 => Just(Step::Lapse),
        2 => Just(Step::Approve),
        2 => prop_oneof![Just(1), Just(30), Just(61), Just(2_000)].prop_map(Step::Pass),
    ];
    // Cancelling ends most worlds, so it is rare.
    vec(
        prop_oneof![40 => step, 1 => Just(Step::Cancel), 1 => Just(Step::Reject), 1 => Just(Step::Dashboard)],
        0..most,
    )
}

struct World {
    render: Render,
    now: Timestamp,
    policy: Policy,
    completions: u32,
    /// The job whose file a person has approved.
    approved: Option<Epoch>,
}

impl World {
    fn new() -> Self {
        let now = Timestamp::EPOCH.plus(Duration::from_secs(1_000));
        let policy = Policy::standard().unwrap();
        Self { render: Render::new(RenderId::new(7), now), now, policy, completions: 0, approved: None }
    }

    fn fence(&self) -> Option<Fence> {
        match self.render.lease {
            Lease::Held { fence, .. } => Some(fence),
            Lease::Free { .. } => None,
        }
    }

    fn event(&mut self, step: Step) -> Option<Event> {
        match step {
            Step::Claim(number) => Some(Event::Claim { by: ProcessId::new(Uuid::from_u128(number)) }),
            Step::Cancel => Some(Event::Cancel),
            Step::Approve => Some(Event::Approve),
            Step::Reject => Some(Event::Reject { why: "a wrong name".into() }),
            Step::Lapse => Some(Event::Lapse),
            Step::Work(work) => self.fence().map(|fence| Event::Work { fence, work }),
            Step::Ghost(work) => {
                let owner = ProcessId::new(Uuid::from_u128(9));
                Some(Event::Work { fence: Fence { owner, epoch: self.render.lease.epoch() }, work })
            }
            Step::Dashboard => {
                if !self.render.status.is_terminal() {
                    self.render.status = Status::Cancelled;
                    // By the trigger.
                    self.render.approval = self.render.approval.filter(|one| *one == Approval::Approved);
                    self.render.cancel_requested_at = Some(self.now);
                }
                None
            }
            Step::Pass(seconds) => {
                self.now = self.now.plus(Duration::from_secs(seconds));
                None
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<Act, TestCaseError> {
        let is_ghost = matches!(step, Step::Ghost(_));
        let Some(event) = self.event(step) else { return Ok(Act::Nothing) };
        let before = self.render.clone();
        if event == Event::Approve && before.awaits_approval() {
            self.approved = before.job;
        }
        let decision = decide(&before, &event, &self.policy, self.now);
        let Some(next) = decision.write else { return Ok(decision.act) };
        prop_assert!(!is_ghost, "a ghost has written {next:?}");
        self.check(&before, &next)?;
        self.render = next;
        Ok(decision.act)
    }

    fn check(&mut self, before: &Render, next: &Render) -> Result<(), TestCaseError> {
        if before.status.is_terminal() {
            prop_assert_eq!(next.status, before.status, "what has ended stays so");
        }
        let is_held = matches!(next.lease, Lease::Held { .. });
        prop_assert_eq!(is_held, next.status.is_active(), "whoever works has the lease: {:?}", next);
        prop_assert!(next.lease.epoch() >= before.lease.epoch());
        if next.status.is_active() {
            prop_assert_eq!(next.status, next.phase.status());
        }
        if next.status == Status::Pending {
            prop_assert_eq!(next.phase.resumed(), next.phase, "where it goes on");
        }
        prop_assert!(next.counts.attempts <= self.policy.attempts_max);
        prop_assert!(next.counts.recoveries <= self.policy.recoveries_max + 1);
        for count in [next.counts.submit, next.counts.render, next.counts.upload] {
            prop_assert!(count <= self.policy.patience.retries + 1);
        }
        if next.lease.epoch() == before.lease.epoch() && next.job == before.job {
            prop_assert!(next.progress >= before.progress, "progress fell");
        }
        prop_assert_eq!(next.progress == Progress::DONE, next.status == Status::Completed);
        if next.status == Status::Completed && before.status != Status::Completed {
            self.completions += 1;
            prop_assert_eq!(before.phase, Phase::Publishing, "nothing is published that was not recorded");
        }
        prop_assert!(self.completions <= 1);
        if before.awaits_approval() {
            prop_assert!(!next.status.is_active(), "somebody works on what waits for approval: {next:?}");
        }
        match next.approval {
            Some(Approval::Awaiting) => {
                prop_assert_eq!((next.status, next.phase), (Status::Pending, Phase::Copying));
                prop_assert!(next.job.is_some(), "there is a file to look at");
            }
            Some(Approval::Approved) => prop_assert_eq!(next.job, self.approved, "it is for that file only"),
            None => {}
        }
        self.check_next_step(next)
    }

    /// A render that has not ended is checked again within bounded time.
    fn check_next_step(&self, next: &Render) -> Result<(), TestCaseError> {
        let soon = |at: Timestamp, within: Duration| at.since(self.now) <= within;
        match (next.status, next.lease) {
            (Status::Pending, _) => prop_assert!(soon(next.run_after, Duration::from_secs(900))),
            (status, Lease::Held { until: Some(until), .. }) if status.is_active() => {
                prop_assert!(soon(until, self.policy.lease_for));
            }
            (status, lease) => prop_assert!(status.is_terminal(), "{status} {lease:?}"),
        }
        Ok(())
    }

    /// A worker for which every action succeeds.
    fn obey(&mut self, act: Act) -> Result<Act, TestCaseError> {
        let work = match act {
            Act::Prepare => Work::Prepared,
            Act::Submit => Work::Submitted,
            Act::LookAtJob | Act::Poll => Work::Reported(Report::Finished),
            Act::LookForOutput(_) => Work::OutputFound,
            Act::Validate => Work::Validated,
            Act::Copy => Work::Copied,
            Act::Publish | Act::LookAtFinal => Work::Published,
            Act::Nothing | Act::DropJob { .. } | Act::StopClaiming | Act::GiveUp => Work::Renew,
        };
        self.take(Step::Work(work))
    }

    /// Its worker disappears, that is detected, and another one may claim.
    fn recover(&mut self) -> Result<Act, TestCaseError> {
        self.take(Step::Pass(901))?;
        self.take(Step::Lapse)?;
        self.take(Step::Approve)?;
        self.take(Step::Pass(901))?;
        self.take(Step::Claim(2))
    }
}

/// A failure prints its smallest input, so no file of regressions is needed.
fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

#[test]
fn no_sequence_of_events_breaks_what_must_hold() {
    proptest!(cases(1_500), |(steps in steps(60))| {
        let mut world = World::new();
        for step in steps {
            world.take(step)?;
        }
    });
}

#[test]
fn with_luck_every_render_ends_in_a_few_steps_wherever_it_is() {
    proptest!(cases(400), |(steps in steps(40))| {
        let mut world = World::new();
        for step in steps {
            world.take(step)?;
        }
        let mut act = world.recover()?;
        for _ in 0..10 {
            act = world.obey(act)?;
        }
        prop_assert!(world.render.status.is_terminal(), "{:?}", world.render);
    });
}

#[test]
fn cancel_always_ends_even_if_no_worker_ever_answers() {
    proptest!(cases(400), |(steps in steps(40))| {
        let mut world = World::new();
        for step in steps {
            world.take(step)?;
        }
        world.take(Step::Cancel)?;
        if world.render.phase != Phase::Publishing {
            world.recover()?;
        }
        // A render that was publishing is checked until its outcome is known.
        for _ in 0..=world.policy.recoveries_max + 1 {
            world.recover()?;
        }
        prop_assert!(world.render.status.is_terminal(), "{:?}", world.render);
    });
}

#[test]
fn whatever_fails_for_ever_is_given_up_within_the_most_attempts() {
    let counted = |failure: &Failure| {
        !matches!(
            failure,
            Failure::WrongSecret | Failure::NotNexrender | Failure::PathNotMapped | Failure::NasNotMounted
        )
    };
    let failures: Vec<_> = Failure::ALL.into_iter().filter(counted).collect();
    let failure = (0..failures.len()).prop_map(move |index| failures[index]);

    proptest!(cases(200), |(failures in vec(failure, 20))| {
        let mut world = World::new();
        for failure in failures {
            world.take(Step::Claim(1))?;
            world.take(Step::Work(Work::Failed(Trouble::new(failure, "m"))))?;
            world.take(Step::Pass(901))?;
        }
        prop_assert_eq!(world.render.status, Status::Failed);
    });
}

#[test]
fn every_epoch_has_its_own_job() {
    proptest!(cases(400), |(steps in steps(60))| {
        let mut world = World::new();
        let mut submitted: Vec<Epoch> = Vec::new();
        for step in steps {
            let before = world.render.job;
            world.take(step)?;
            if let Some(epoch) = world.render.job
                && before != Some(epoch)
            {
                prop_assert!(!submitted.contains(&epoch), "the name of epoch {epoch} was used before");
                submitted.push(epoch);
            }
        }
    });
}
