//! Any order of refusals, probes, operators and time.

use super::*;
use crate::pool::Weight;
use crate::pool::tests::{id, some};
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// The longest way from any state that nobody opened by hand to closed, if a probe starts at once and works.
const CLOSES_WITHIN: Duration = Duration::from_secs(600 + 60 + 20 * 30);

fn level(usage: u64, limit: u64) -> Level {
    Level { usage, limit, max_units: 1_000 }
}

fn refused() -> BreakerChange {
    BreakerChange::Refused { reason: "ORA-00018".to_owned() }
}

fn opened() -> BreakerChange {
    BreakerChange::Open { by: "ann".to_owned(), reason: "the database restarts".to_owned() }
}

fn closed() -> BreakerChange {
    BreakerChange::Close { by: "ann".to_owned(), reason: "it is back".to_owned() }
}

fn after(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

#[test]
fn a_refusal_halves_the_limit_and_each_refused_probe_doubles_the_pause() {
    let mut breaker = Breaker::default().changed(&refused(), level(80, 100), START).unwrap();
    assert_eq!((breaker.phase, breaker.units), (Phase::Open { until: Some(after(30)) }, 40));
    assert_eq!(breaker.changed(&refused(), level(70, 100), after(29)), None, "one moment counts once");

    let (mut now, mut pauses) = (START, Vec::new());
    for number in 0..6 {
        let Phase::Open { until: Some(until) } = breaker.phase else { panic!("{breaker:?}") };
        pauses.push(until.since(now).as_secs());
        now = until;
        let probing =
            breaker.advanced(100, Probe::Pending, now).unwrap().with_probe(id(number), now).unwrap();
        breaker = probing.changed(&refused(), level(10, 40), now).unwrap();
        assert_eq!(breaker.units, 40, "a refused probe changes the pause");
    }
    assert_eq!(pauses, [30, 60, 120, 240, 480, 600]);
}

#[test]
fn the_limit_rises_by_a_twentieth_every_half_minute() {
    let ramping = Breaker { phase: Phase::Ramping, since: START, units: 40, ..Breaker::default() };
    let limit = |seconds| ramping.limit(100, after(seconds));

    assert_eq!((limit(0), limit(29), limit(30), limit(60), limit(100_000)), (40, 40, 45, 50, 100));
    assert_eq!(ramping.advanced(100, Probe::Pending, after(359)), None);
    assert_eq!(ramping.advanced(100, Probe::Pending, after(360)).unwrap().phase, Phase::Closed);
    let again = ramping.changed(&refused(), level(50, 50), after(60)).unwrap();
    assert_eq!((again.units, again.pause), (25, Duration::from_secs(30)));
}

#[test]
fn what_an_operator_opened_stays_open_until_somebody_closes_it() {
    let open = Breaker::default().changed(&opened(), level(10, 100), START).unwrap();

    assert_eq!(open.changed(&refused(), level(10, 100), after(9)), None);
    assert_eq!(open.advanced(100, Probe::Worked, after(1_000_000)), None);
    assert_eq!((open.wait(after(1)), open.limit(100, after(1))), (None, 100));
    assert_eq!(open.changed(&closed(), level(10, 100), after(9)).unwrap().phase, Phase::Closed);
    assert_eq!(Breaker::default().changed(&closed(), level(10, 100), START), None, "it was closed");
}

#[test]
fn a_phase_begins_again_when_the_clock_has_gone_back() {
    let open = Breaker::default().changed(&refused(), level(80, 100), after(9_000)).unwrap();
    let again = open.advanced(100, Probe::Pending, START).unwrap();
    assert_eq!(again.phase, Phase::Open { until: Some(after(30)) });
}

#[test]
fn only_the_first_that_can_start_is_a_probe_and_in_its_smallest_size() {
    let claimant = |number| Claimant {
        ticket: id(number),
        asked: some(8),
        least: some(2),
        weight: Weight::PLAIN,
        has: 0,
        overtaken: 0,
        estimated_start: None,
    };
    let admitted = |phase, policy| {
        let queue = [claimant(1), claimant(2), claimant(3)];
        Breaker { phase, ..Breaker::default() }
            .admits(&queue, |claimant| claimant.ticket != id(1), policy)
            .iter()
            .map(|claimant| (claimant.ticket.get().as_u128(), claimant.asked.get()))
            .collect::<Vec<_>>()
    };

    assert_eq!(admitted(Phase::Closed, Policy::Halving), [(1, 8), (2, 8), (3, 8)]);
    assert_eq!(admitted(Phase::Probing { ticket: None }, Policy::Halving), [(2, 2)]);
    assert_eq!(admitted(Phase::Probing { ticket: None }, Policy::Fifo), [(2, 8)]);
    assert_eq!(admitted(Phase::Probing { ticket: Some(id(1)) }, Policy::Halving), []);
    assert_eq!(admitted(Phase::Open { until: None }, Policy::Halving), []);
}

#[derive(Clone, Debug)]
enum Step {
    Change(BreakerChange),
    Advance(Probe),
    Probe(u8),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Change(refused())),
        1 => Just(Step::Change(opened())),
        1 => Just(Step::Change(closed())),
        4 => prop::sample::select(vec![Probe::Pending, Probe::Worked, Probe::Lost]).prop_map(Step::Advance),
        4 => any::<u8>().prop_map(Step::Probe),
        // Now and then the clock goes back.
        4 => (-100_i64..900).prop_map(Step::Wait),
    ]
}

/// Whether it is closed in time if nothing is refused any more, and every probe works.
fn closes(
    mut breaker: Breaker,
    limit: u64,
    mut now: Timestamp,
    advance: impl Fn(&Breaker, Timestamp) -> Option<Breaker>,
) -> bool {
    let end = now.plus(CLOSES_WITHIN);
    while now <= end {
        breaker = advance(&breaker, now).unwrap_or(breaker);
        breaker = breaker.with_probe(id(7), now).unwrap_or(breaker);
        if breaker.phase == Phase::Closed && breaker.limit(limit, now) == limit {
            return true;
        }
        now = now.plus(Duration::from_secs(10));
    }
    false
}

fn after_steps(steps: &[Step], usage: u64, limit: u64) -> (Breaker, Timestamp) {
    let (mut breaker, mut now) = (Breaker::default(), START);
    for step in steps {
        let before = breaker.clone();
        match step {
            Step::Change(change) => {
                let level = level(usage, breaker.limit(limit, now));
                breaker = breaker.changed(change, level, now).unwrap_or(breaker);
            }
            Step::Advance(probe) => breaker = breaker.advanced(limit, *probe, now).unwrap_or(breaker),
            Step::Probe(number) => {
                breaker = breaker.with_probe(id((*number).into()), now).unwrap_or(breaker);
                if let Phase::Probing { ticket: ticket @ Some(_) } = before.phase {
                    assert_eq!(breaker.phase, Phase::Probing { ticket }, "a second probe");
                }
            }
            Step::Wait(seconds) => {
                let length = Duration::from_secs(seconds.unsigned_abs());
                now = if *seconds < 0 { now.minus(length) } else { now.plus(length) };
            }
        }
        let now_limit = breaker.limit(limit, now);
        assert!((1.min(limit)..=limit).contains(&now_limit), "{now_limit} of {limit}: {breaker:?}");
        let later = now.plus(Duration::from_secs(45));
        assert!(now_limit <= breaker.limit(limit, later), "time alone lowers nothing: {breaker:?}");
        if before.phase == (Phase::Open { until: None }) && !matches!(step, Step::Change(_)) {
            assert_eq!(breaker.phase, before.phase, "opened by hand");
        }
    }
    (breaker, now)
}

proptest! {
    #[test]
    fn any_breaker_stays_in_its_bounds_and_closes_again(
        steps in prop::collection::vec(step(), 0..40),
        usage in 0_u64..2_000,
        limit in prop_oneof![Just(0_u64), 1_u64..50, 1_u64..2_000, Just(u64::MAX)],
    ) {
        let (breaker, now) = after_steps(&steps, usage, limit);
        let is_by_hand = breaker.phase == Phase::Open { until: None };

        let worked = |breaker: &Breaker, now| breaker.advanced(limit, Probe::Worked, now);

        prop_assert_eq!(closes(breaker.clone(), limit, now, worked), !is_by_hand, "{:?}", breaker);
        let text = serde_json::to_string(&breaker).unwrap();
        prop_assert_eq!(serde_json::from_str::<Breaker>(&text).unwrap(), breaker);
    }
}

#[test]
fn a_breaker_that_never_closes_would_be_noticed() {
    let open = Breaker::default().changed(&refused(), level(80, 100), START).unwrap();
    let worked = |breaker: &Breaker, now| breaker.advanced(100, Probe::Worked, now);
    let never_ends = |breaker: &Breaker, now| worked(breaker, now).filter(|next| next.phase != Phase::Closed);
    let never_believes = |breaker: &Breaker, now| breaker.advanced(100, Probe::Lost, now);

    assert!(closes(open.clone(), 100, START, worked));
    assert!(!closes(open.clone(), 100, START, never_ends));
    assert!(!closes(open, 100, START, never_believes));
}
