//! Demand of pools with tickets of any kind.

use super::*;
use crate::pool::run_times::RunKind;
use crate::pool::tests::{at, id, record, some};
use crate::pool::{Class, Holder, Settings};
use proptest::prelude::*;

const MINUTE: u64 = 60;

fn ticket(number: u128, state: State, asked: u32, held_since: u64) -> Ticket {
    let ticket = crate::pool::tests::ticket(number, asked, at(held_since));
    let has = |since| Some(since).filter(|_| state.counts());
    let (granted_at, claimed_at) = (has(at(held_since)), has(at(held_since)));
    Ticket { state, granted: state.counts().then_some(ticket.asked), granted_at, claimed_at, ..ticket }
}

fn ledger(max_units: u32, tickets: impl IntoIterator<Item = Ticket>, runs: &[u32]) -> Ledger {
    let settings = Settings { threshold_percent: 100, ..Settings::new("ADW".parse().unwrap(), max_units) };
    let mut ledger = Ledger::restore(settings, 1, tickets);
    for seconds in runs {
        // Of another DAG, so that the parallelism does not matter.
        let kind = RunKind { dag_id: "other".to_owned(), table: String::new(), parallel: some(1) };
        ledger.run_times.add_seconds(kind, Class::Normal, *seconds);
    }
    ledger
}

/// The counter grows by `first` units in the first five minutes of this time of day, and by `rest` in the ten after.
fn past(now: Timestamp, days: &[(u64, u64)]) -> PastRequests {
    let mut readings = BTreeMap::new();
    let mut counter = 0;
    for (start, (first, rest)) in
        past_starts(now).take(days.len()).collect::<Vec<_>>().into_iter().rev().zip(days)
    {
        for (end, more) in [(start, 7), (start.plus(STEP), *first), (start.plus(STEP * 3), *rest)] {
            counter += more;
            readings.insert(end.minus(STEP), counter);
        }
    }
    PastRequests::new(&readings, now)
}

fn both(p50: u64, p90: u64) -> LaterDemand {
    LaterDemand { p50, p90 }
}

#[test]
fn without_any_history_the_pool_needs_later_what_it_needs_now() {
    let tickets = [ticket(1, State::Running, 6, 0), ticket(2, State::Waiting, 8, 0)];

    let demand = demand(&ledger(10, tickets, &[]), at(MINUTE), &PastRequests::default());

    assert_eq!(demand, Demand { now: 14, in_5_min: both(14, 14), in_15_min: both(14, 14) });
}

#[test]
fn holders_are_counted_while_they_are_expected_to_run() {
    // Half of the runs take at most 4 minutes, nine of ten at most 12.
    let ledger = ledger(100, [ticket(1, State::Running, 6, 0)], &[240, 240, 240, 720, 720]);

    let demand = demand(&ledger, at(0), &PastRequests::default());

    assert_eq!(demand, Demand { now: 6, in_5_min: both(0, 6), in_15_min: both(0, 0) });
}

#[test]
fn the_queue_is_counted_until_its_last_run_is_expected_to_end() {
    // The second starts after ten minutes.
    let tickets = [ticket(1, State::Running, 6, 0), ticket(2, State::Waiting, 8, 0)];
    let ledger = ledger(10, tickets, &[600; 3]);

    let demand = demand(&ledger, at(0), &PastRequests::default());

    assert_eq!(demand, Demand { now: 14, in_5_min: both(14, 14), in_15_min: both(8, 8) });
}

#[test]
fn a_paused_pool_keeps_its_queue() {
    let mut ledger = ledger(10, [ticket(1, State::Waiting, 8, 0)], &[60]);
    let pause = crate::pool::settings::Pause { by: "ann".into(), reason: "patch".into(), at: at(0) };
    ledger.set_settings(Settings { paused: Some(pause), ..ledger.settings().clone() });

    let demand = demand(&ledger, at(0), &PastRequests::default());

    assert_eq!(demand.in_15_min, both(8, 8));
}

#[test]
fn requests_of_past_days_at_this_time_are_expected_again() {
    let now = at(30 * 24 * 3600 + 10 * MINUTE);
    let past = past(now, &[(10, 20), (12, 30), (40, 60)]);

    // Nothing is known about the length of runs, so all of them are still there.
    let unknown = demand(&ledger(100, [], &[]), now, &past);
    assert_eq!(unknown, Demand { now: 0, in_5_min: both(12, 40), in_15_min: both(42, 100) });
    // A run of five minutes is there at the end of 15 minutes if it began in the last third.
    let short = demand(&ledger(100, [], &[300; 3]), now, &past);
    assert_eq!(short, Demand { now: 0, in_5_min: both(12, 40), in_15_min: both(14, 34) });
}

#[test]
fn a_day_without_a_reading_does_not_count() {
    let now = at(30 * 24 * 3600);
    let mut readings: BTreeMap<Timestamp, u64> =
        PastRequests::steps(now).into_iter().zip((0..).step_by(5)).collect();
    assert_eq!(readings.len(), 21, "three for each day, none twice");
    let counted = |readings: &BTreeMap<_, _>| PastRequests::new(readings, now).0.map(|days| days.len());
    assert_eq!(counted(&readings), [7, 7]);

    readings.remove(&now.minus(DAY).plus(STEP * 2));

    assert_eq!(counted(&readings), [7, 6]);
}

#[test]
fn only_new_requests_are_counted() {
    let new =
        |units| record(at(0), Event::Enqueued { ticket: Box::new(ticket(1, State::Waiting, units, 0)) });
    let confirmed = record(at(0), Event::Confirmed { ticket: id(0) });

    assert_eq!(requested(&[new(3), confirmed, new(4)]), 7);
}

prop_compose! {
    fn any_ticket(id: u128)(
        state in prop::sample::select(vec![State::Waiting, State::Granted, State::Running, State::Suspect]),
        asked in prop_oneof![1_u32..100, Just(u32::MAX)],
        held_since in 0_u64..10_000,
    ) -> Ticket {
        ticket(id, state, asked, held_since)
    }
}

proptest! {
    #[test]
    fn the_later_quantile_is_never_below_the_earlier_one_and_nothing_overflows(
        tickets in prop::collection::vec(any_ticket(0), 0..20),
        max_units in prop_oneof![0_u32..200, Just(u32::MAX)],
        runs in prop::collection::vec(prop_oneof![0_u32..3_000, Just(u32::MAX)], 0..40),
        days in prop::collection::vec((0_u64..1_000, 0_u64..1_000), 0..7),
        huge: bool,
        now in 0_u64..20_000,
    ) {
        let number = |(number, ticket): (u128, Ticket)| Ticket {
            id: id(number),
            holder: Holder::run("dag", &number.to_string()).unwrap(),
            ..ticket
        };
        let ledger = ledger(max_units, (1..).zip(tickets).map(number), &runs);
        let now = at(now);
        let mut past = past(now, &days);
        if huge {
            past.0 = [vec![u64::MAX], vec![u64::MAX]];
        }

        let demand = demand(&ledger, now, &past);

        prop_assert!(demand.in_5_min.p50 <= demand.in_5_min.p90, "{:?}", demand);
        prop_assert!(demand.in_15_min.p50 <= demand.in_15_min.p90, "{:?}", demand);
        prop_assert!(demand.now >= ledger.usage());
        let arriving = |horizon: usize, percent| quantile(&past.0[horizon], percent).unwrap_or(0);
        let most = |arrive: u64| demand.now.saturating_add(arrive);
        prop_assert!(demand.in_5_min.p90 <= most(arriving(0, 90)));
        prop_assert!(demand.in_15_min.p90 <= most(arriving(1, 90)));
        if runs.is_empty() {
            prop_assert_eq!(demand.in_5_min.p50, most(arriving(0, 50)));
            prop_assert_eq!(demand.in_15_min.p50, most(arriving(1, 50)));
        }
    }
}
