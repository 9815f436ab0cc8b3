//! What the adaptive policy grants, and that planted faults in grants are caught.

use super::super::{Forecast, Policy, decide, reasons};
use super::*;
use crate::pool::tests::{at, id, some};
use crate::pool::{Reason, TicketId, Weight};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A request of a test: what it asks for, and how long it takes with that.
#[derive(Clone, Copy, Debug)]
struct Ask {
    asked: u32,
    least: u32,
    seconds: u64,
    deadline: u64,
}

/// Half of the work is parallel.
struct Table<'a> {
    asks: &'a [Ask],
    releases: Vec<(Timestamp, u64)>,
}

impl Forecast for Table<'_> {
    fn now(&self) -> Timestamp {
        at(0)
    }

    fn run_time(&self, ticket: TicketId, parallel: NonZeroU32) -> Duration {
        let ask = self.asks[ticket.get().as_u128() as usize];
        let more = f64::from(ask.asked) / f64::from(parallel.get());
        Duration::from_secs_f64(ask.seconds as f64 * (0.5 + 0.5 * more))
    }

    fn deadline(&self, ticket: TicketId) -> Timestamp {
        at(self.asks[ticket.get().as_u128() as usize].deadline)
    }

    fn releases(&self) -> Vec<(Timestamp, u64)> {
        self.releases.clone()
    }
}

fn claimants(asks: &[Ask]) -> Vec<Claimant> {
    let claimant = |(index, ask): (u128, &Ask)| Claimant {
        ticket: id(index),
        asked: some(ask.asked),
        least: some(ask.least),
        weight: Weight::PLAIN,
        has: 0,
        overtaken: 0,
        estimated_start: None,
    };
    (0..).zip(asks).map(claimant).collect()
}

fn granted(limit: u64, releases: &[(u64, u64)], asks: &[Ask], queue: &[Claimant]) -> Vec<Grant> {
    let releases: Vec<(Timestamp, u64)> =
        releases.iter().map(|(after, units)| (at(*after), *units)).collect();
    let usage = releases.iter().map(|(_, units)| units).sum();
    let forecast = Table { asks, releases };
    let held = BTreeSet::new();
    decide(Policy::Adaptive, &View { limit, usage, queue, held: &held, forecast: &forecast })
}

/// Index, parallelism, and the two reasons.
fn told(limit: u64, releases: &[(u64, u64)], asks: &[Ask]) -> Vec<(u128, u32, Turn, Size)> {
    let grants = granted(limit, releases, asks, &claimants(asks)).into_iter();
    grants.map(|grant| (grant.ticket.get().as_u128(), grant.parallel.get(), grant.turn, grant.size)).collect()
}

fn ask(asked: u32, least: u32, seconds: u64) -> Ask {
    Ask { asked, least, seconds, deadline: 0 }
}

#[test]
fn the_first_starts_when_it_fits() {
    assert_eq!(told(1_000, &[(50, 900)], &[ask(16, 2, 60)]), [(0, 16, Turn::First, Size::Full)]);
}

#[test]
fn others_start_early_if_they_end_before_the_reservation_or_leave_its_units_free() {
    // 4 units are free; the first needs 10 of them and gets 6 more after 100 s, when 2 are left over.
    let running = [(100, 8), (500, 8)];
    let first = ask(10, 10, 1_000);

    assert_eq!(told(20, &running, &[first, ask(3, 3, 100)]), [(1, 3, Turn::EndsBefore, Size::Full)]);
    assert_eq!(told(20, &running, &[first, ask(2, 2, 101)]), [(1, 2, Turn::SpareUnits, Size::Full)]);
    assert_eq!(told(20, &running, &[first, ask(3, 3, 101)]), []);
    let two = [first, ask(2, 2, 900), ask(1, 1, 900)];
    assert_eq!(
        told(20, &running, &two),
        [(1, 2, Turn::SpareUnits, Size::Full)],
        "the spare units are used once"
    );
}

#[test]
fn of_several_the_shortest_starts_first() {
    let asks = [ask(10, 10, 1_000), ask(3, 3, 90), ask(3, 3, 30)];
    assert_eq!(told(20, &[(100, 16)], &asks), [(2, 3, Turn::EndsBefore, Size::Full)]);
}

#[test]
fn less_is_taken_only_if_it_ends_earlier() {
    // With half it takes 150 s instead of 100.
    assert_eq!(told(20, &[(50, 12)], &[ask(16, 2, 100)]), [(0, 8, Turn::First, Size::EndsEarlier)]);
    assert_eq!(told(20, &[(49, 12)], &[ask(16, 2, 100)]), [], "waiting 49 s is better");
    assert_eq!(told(20, &[(50, 17)], &[ask(16, 2, 100)]), [], "3 fit, but a quarter is 4");
    assert_eq!(told(20, &[(800, 17)], &[ask(16, 2, 100)]), [(0, 2, Turn::First, Size::EndsEarlier)]);
    assert_eq!(
        told(20, &[], &[ask(64, 2, 100)]),
        [(0, 16, Turn::First, Size::EndsEarlier)],
        "more never fits"
    );
}

#[test]
fn each_that_waits_is_told_which_rule_keeps_it_waiting() {
    // 8 units are free. The first and the third would end later with half of their units.
    let asks = [ask(16, 2, 100), ask(3, 3, 9_000), ask(16, 2, 100), ask(10, 10, 1)];
    let forecast = Table { asks: &asks, releases: vec![(at(49), 12)] };
    let (held, mut queue) = (BTreeSet::new(), claimants(&asks));
    let told = |queue: &[Claimant]| -> Vec<Reason> {
        let view = View { limit: 20, usage: 12, queue, held: &held, forecast: &forecast };
        reasons(Policy::Adaptive, &view, None).into_iter().map(|(_, reason)| reason).collect()
    };
    use Reason::{BehindInQueue, EndsEarlierInFull, LargerRequestReserved, PoolDraining};

    assert_eq!(told(&queue), [EndsEarlierInFull, LargerRequestReserved, EndsEarlierInFull, BehindInQueue]);
    queue[0].overtaken = OVERTAKES_MAX;
    assert_eq!(told(&queue), [EndsEarlierInFull, PoolDraining, PoolDraining, BehindInQueue]);
}

#[test]
fn under_pressure_half_is_taken_if_the_deadline_holds() {
    let asks = |deadline| [Ask { deadline, ..ask(16, 2, 100) }, ask(40, 40, 500)];
    // Half takes 150 s, and 240 with the margin.
    assert_eq!(told(20, &[(1, 12)], &asks(240)), [(0, 8, Turn::First, Size::Pressure)]);
    assert_eq!(told(20, &[(1, 12)], &asks(239)), []);
}

#[test]
fn who_was_overtaken_too_often_or_waits_too_long_is_not_overtaken() {
    let asks = [ask(10, 10, 1_000), ask(3, 3, 10)];
    let running = [(100, 16)];
    let mut queue = claimants(&asks);
    assert_eq!(granted(20, &running, &asks, &queue).len(), 1);

    queue[0].overtaken = OVERTAKES_MAX;
    assert_eq!(granted(20, &running, &asks, &queue), []);

    queue[0].overtaken = OVERTAKES_MAX - 1;
    assert_eq!(granted(20, &running, &asks, &queue).len(), 1);

    queue[0].estimated_start = Some(at(0).minus(SLACK + Duration::from_secs(1)));
    assert_eq!(granted(20, &running, &asks, &queue), []);
}

#[test]
fn in_one_pass_nobody_is_overtaken_more_often_than_allowed() {
    let asks: Vec<Ask> =
        std::iter::once(ask(200, 200, 1_000)).chain((0..100).map(|_| ask(1, 1, 10))).collect();
    let mut queue = claimants(&asks);
    queue[0].overtaken = OVERTAKES_MAX - 7;

    assert_eq!(granted(300, &[(100, 200)], &asks, &queue).len(), 7);
}

/// Checks grants with other code than the policy's.
fn check(
    limit: u64,
    running: &[(u64, u64)],
    asks: &[Ask],
    queue: &[Claimant],
    grants: &[Grant],
) -> Result<(), String> {
    let holds = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {grants:?}")) };
    let table = Table { asks, releases: Vec::new() };
    let usage: u64 = running.iter().map(|(_, units)| units).sum();
    let (mut after, mut ends, mut seen) = (usage, running.to_vec(), BTreeSet::new());
    for grant in grants {
        let place = grant.ticket.get().as_u128() as usize;
        let claimant = &queue[place];
        holds(seen.insert(place), "granted twice")?;
        let steps = [1, 2, 4].map(|part| (claimant.asked.get() / part).max(claimant.least.get()));
        let is_step = steps.contains(&grant.parallel.get()) || grant.parallel == claimant.least;
        holds(is_step, "no size of the policy")?;
        holds((grant.size == Size::Full) == (grant.parallel == claimant.asked), "another reason")?;
        after += u64::from(grant.parallel.get());
        holds(after <= limit, "over the limit")?;
        let mut ahead = (0..place).filter(|ahead| !seen.contains(ahead)).peekable();
        holds(ahead.peek().is_none() || grant.turn != Turn::First, "not the first")?;
        for ahead in ahead {
            let later = seen.iter().filter(|place| **place > ahead).count() as u32;
            holds(queue[ahead].overtaken + later <= OVERTAKES_MAX, "overtaken too often")?;
        }
        let seconds = table.run_time(grant.ticket, grant.parallel).as_secs();
        ends.push((seconds, u64::from(grant.parallel.get())));
    }
    // When the first that waits could start without those that overtake it, and with them.
    let is_granted = |claimant: &Claimant| grants.iter().any(|grant| grant.ticket == claimant.ticket);
    let Some(first) = queue.iter().find(|claimant| !is_granted(claimant)) else { return Ok(()) };
    let wanted = u64::from(first.asked.get());
    let free_at = |ends: &[(u64, u64)]| {
        let mut ends = ends.to_vec();
        ends.sort_unstable();
        let mut free = limit.saturating_sub(ends.iter().map(|(_, units)| units).sum());
        let mut now = 0;
        for (at, units) in ends {
            if free >= wanted {
                break;
            }
            (free, now) = (free + units, at);
        }
        now
    };
    let in_turn = grants.iter().filter(|grant| grant.turn == Turn::First).count();
    let is_delayed = free_at(&ends) > free_at(&ends[..running.len() + in_turn]);
    holds(!is_delayed || wanted > limit || usage > limit, "the first is delayed")
}

#[test]
fn planted_faults_are_caught() {
    let asks = [ask(10, 10, 1_000), ask(3, 3, 101), ask(3, 3, 100)];
    let (queue, running) = (claimants(&asks), [(100, 8), (500, 8)]);
    let grant =
        |index, parallel, turn| Grant { ticket: id(index), parallel: some(parallel), turn, size: Size::Full };
    let fault = |grants: &[Grant], queue: &[Claimant]| check(20, &running, &asks, queue, grants).unwrap_err();

    assert_eq!(check(20, &running, &asks, &queue, &granted(20, &running, &asks, &queue)), Ok(()));
    let ignores_the_reservation = grant(1, 3, Turn::SpareUnits);
    assert!(fault(&[ignores_the_reservation], &queue).starts_with("the first is delayed"));
    let mut patient = queue.clone();
    patient[0].overtaken = OVERTAKES_MAX;
    assert!(fault(&[grant(2, 3, Turn::EndsBefore)], &patient).starts_with("overtaken too often"));
    assert!(fault(&[grant(2, 3, Turn::First)], &queue).starts_with("not the first"));
    assert!(fault(&[grant(0, 10, Turn::First)], &queue).starts_with("over the limit"));
    assert!(fault(&[grant(2, 2, Turn::EndsBefore)], &queue).starts_with("no size"));
}

proptest! {
    #[test]
    fn it_never_exceeds_the_limit_or_gives_less_than_the_least_or_delays_the_first(
        limit in 1_u64..200,
        mut running in prop::collection::vec((1_u64..3_000, 1_u64..40), 0..12),
        asks in prop::collection::vec((1_u32..64, 1_u32..64, 1_u64..3_000, 0_u64..6_000), 0..12),
        overtaken in prop::collection::vec(0_u32..=OVERTAKES_MAX, 12),
    ) {
        let asks: Vec<Ask> = asks
            .into_iter()
            .map(|(asked, least, seconds, deadline)| Ask { asked, least: least.min(asked), seconds, deadline })
            .collect();
        running.sort_unstable();
        let mut queue = claimants(&asks);
        queue.iter_mut().zip(&overtaken).for_each(|(claimant, count)| claimant.overtaken = *count);

        let grants = granted(limit, &running, &asks, &queue);

        prop_assert_eq!(check(limit, &running, &asks, &queue, &grants), Ok(()));
    }
}
