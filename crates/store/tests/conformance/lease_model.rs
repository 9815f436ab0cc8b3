//! Leases against a model: random owners on random paths through time, on the real store. However they register,
//! acquire, renew, crash, come back as ghosts and take over from each other, no two of them may ever believe that
//! they own one lease, and nothing may be settled under an epoch that has passed.
//!
//! Reading order: `transition` (what can happen), `model` (what should be answered), `subject` (what is), then
//! `oracles` with their `beliefs`; `fault` is what the oracles are tested with.

mod beliefs;
mod fault;
mod model;
mod oracles;
mod subject;
mod transition;

use self::fault::Fault;
use self::model::{Answer, Model, Reference};
use self::oracles::{Oracle, Watch};
use self::subject::{Arena, Subject};
use self::transition::Transition;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use proptest_state_machine::ReferenceStateMachine;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn no_two_owners_and_no_stale_epoch_on_sqlite() {
    check(&Arena::sqlite());
}

#[test]
fn no_two_owners_and_no_stale_epoch_on_postgres() {
    if let Some(arena) = Arena::postgres() {
        check(&arena);
    }
}

#[test]
fn a_lease_given_away_too_early_is_noticed() {
    check_notices(Fault::LifeIgnored, Oracle::OneBeliever);
}

#[test]
fn an_owner_that_does_not_fence_itself_is_noticed() {
    check_notices(Fault::NotSelfFencing, Oracle::OneBeliever);
}

#[test]
fn a_heartbeat_that_raises_the_dead_is_noticed() {
    check_notices(Fault::HeartbeatRevives, Oracle::OneBeliever);
}

#[test]
fn a_skipped_fence_is_noticed() {
    check_notices(Fault::FenceSkipped, Oracle::LastOwnerSettles);
}

#[test]
fn an_epoch_that_falls_is_noticed() {
    check_notices(Fault::EpochFalls, Oracle::SettledEpochsNeverShrink);
}

#[test]
fn an_epoch_that_is_not_raised_is_noticed() {
    check_notices(Fault::EpochNotRaised, Oracle::EpochsGrowByOne);
}

#[test]
fn an_answer_that_differs_from_the_model_is_noticed() {
    check_notices(Fault::RefusalUntold, Oracle::AnswersAsTheModel);
}

/// How many cases the normal run has.
const CASES: u32 = 128;

/// The variable that repeats a run.
const SEED: &str = "PROPTEST_RNG_SEED";

/// A generated case, as proptest hands it out.
type Case = (Model, Vec<Transition>, Option<Arc<AtomicUsize>>);

/// How often something happened that the promises are about.
#[derive(Default)]
struct Tally {
    take_overs: Cell<u32>,
    settled: Cell<u32>,
    stale_settles_refused: Cell<u32>,
    late_heartbeats_refused: Cell<u32>,
    lost_renewals: Cell<u32>,
}

impl Tally {
    fn count(&self, answer: &Answer) {
        let counter = match answer {
            Answer::Acquired(Ok(granted)) if granted.taken_over_from.is_some() => &self.take_overs,
            Answer::Settled(true) => &self.settled,
            Answer::Settled(false) => &self.stale_settles_refused,
            Answer::Heartbeat(Err(_)) => &self.late_heartbeats_refused,
            Answer::Renewed(renewed) if renewed.is_empty() => &self.lost_renewals,
            _ => return,
        };
        counter.set(counter.get() + 1);
    }
}

/// Everything holds, and not because nothing happened.
fn check(arena: &Arena) {
    let config = config();
    let (cases, seed) = (config.cases, config.rng_seed);

    let tally = Tally::default();
    if let Err(error) = run(config, arena, None, &Oracle::ALL, &tally) {
        panic!("{error}\nrun again with {SEED}={seed}");
    }

    for (what, count) in [
        ("take-overs", &tally.take_overs),
        ("settled work", &tally.settled),
        ("refused stale settles", &tally.stale_settles_refused),
        ("refused late heartbeats", &tally.late_heartbeats_refused),
        ("lost renewals", &tally.lost_renewals),
    ] {
        let count = count.get();
        assert!(count >= cases / 12, "only {count} times {what} in {cases} cases; {SEED}={seed}");
    }
}

/// `oracle`, with all others silent, finds `fault`.
fn check_notices(fault: Fault, oracle: Oracle) {
    // The number of cases is not up to the variables: a fault has to be found in a short run, too.
    let config = Config { cases: CASES * 4, ..config() };
    let seed = config.rng_seed;

    let outcome = run(config, &Arena::sqlite(), Some(fault), &[oracle], &Tally::default());

    let Err(TestError::Fail(reason, _)) = outcome.map_err(|error| *error) else {
        panic!("{oracle:?} did not notice {fault:?} with {SEED}={seed}");
    };
    assert!(reason.message().starts_with(&format!("{oracle:?}: ")), "{reason}");
}

/// The usual number of cases, unless the usual variables say otherwise, from a seed that can be printed.
fn config() -> Config {
    let given = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { given.cases } else { CASES };
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(RandomState::new().hash_one("seed")),
        fixed => fixed,
    };
    Config { cases, rng_seed, failure_persistence: None, ..given }
}

/// Runs generated cases until one breaks a promise.
fn run(
    config: Config,
    arena: &Arena,
    fault: Option<Fault>,
    oracles: &[Oracle],
    tally: &Tally,
) -> Result<(), Box<TestError<Case>>> {
    let strategy = Reference::sequential_strategy(10..=50);
    let outcome = TestRunner::new(config).run(&strategy, |(mut model, transitions, seen)| {
        let mut subject = Subject::new(arena, fault);
        let mut watch = Watch::new(oracles, fault);
        for transition in transitions {
            // Lets the shrinking drop at once what came after the failure.
            if let Some(seen) = &seen {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            model = Reference::apply(model, &transition);
            let done = subject.perform(&transition);
            watch
                .judge(&transition, &done, &model.answer)
                .map_err(|broken| TestCaseError::fail(broken.to_string()))?;
            tally.count(&done.answer);
        }
        Ok(())
    });
    outcome.map_err(Box::new)
}
