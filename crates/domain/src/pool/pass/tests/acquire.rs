//! New and repeated requests.

use super::*;
use crate::pool::{Policy, Reason, State, WeightModel};

#[test]
fn what_fits_starts_at_once() {
    let mut bench = Bench::of(&[("ADW", 1_000)]);
    bench.configure("ADW", |settings| settings.threshold_percent = 95);
    bench.ask("batch_000", 72);

    let answer = bench.ask("batch_001", 8);

    let Answer::Admitted { parts, is_duplicate: false } = &answer else { panic!("{answer:?}") };
    assert_eq!(parts[0].level, Level { usage: 80, limit: 950, max_units: 1_000 });
    assert_eq!(parts[0].level.available(), 870);
    assert_eq!((parts[0].ticket.state, parts[0].ticket.epoch), (State::Running, Epoch::new(1)));
}

#[test]
fn two_dags_whose_runs_have_the_same_id_both_count() {
    let mut bench = Bench::of(&[("ADW", 100)]);

    bench.ask("batch_001", 8);
    bench.ask("batch_002", 8);

    assert_eq!(bench.usage("ADW"), 16);
    assert_ne!(bench.ticket("ADW", "batch_001").unwrap().id, bench.ticket("ADW", "batch_002").unwrap().id);
}

#[test]
fn a_downgrade_ends_at_the_least_and_never_below_it() {
    let check = |room: u32, asked: u32, expected: Option<u32>| {
        let mut bench = Bench::of(&[("ADW", 100)]);
        bench.ask("others", 100 - room);

        bench.ask("batch", asked);

        assert_eq!(bench.has("batch"), expected, "{asked} into {room}");
        assert_eq!(bench.usage("ADW"), u64::from(100 - room + expected.unwrap_or(0)));
    };
    check(8, 16, Some(8));
    check(3, 16, Some(2));
    check(2, 3, Some(2));
    check(1, 32, None);
    check(1, 1, Some(1));
}

#[test]
fn what_is_not_said_is_the_pools_default_and_its_least() {
    let mut bench = Bench::of(&[("ADW", 100)]);
    bench.configure("ADW", |settings| (settings.default_units, settings.min_units) = (some(8), some(4)));
    bench.ask("others", 97);

    let mut wish = bench.wish("batch", &[("ADW", 0)]);
    wish.parts[0].least = Some(some(1));
    let answer = bench.acquire(wish);

    assert_eq!(waits(&answer).requested, 8);
    assert_eq!(bench.ticket("ADW", "batch").unwrap().least, some(4), "the pool's least is the least");
}

#[test]
fn a_newcomer_that_would_fit_does_not_overtake() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.configure("ADW", |settings| settings.policy = Policy::Fifo);
    bench.ask("first", 16);
    bench.ask("wide", 20);

    let answer = bench.ask("small", 2);

    assert_eq!(waits(&answer).position, 2);
    bench.release("first");
    assert_eq!((bench.has("wide"), bench.has("small")), (Some(20), None));
}

#[test]
fn asking_again_keeps_the_place_in_the_queue() {
    let mut bench = Bench::of(&[("ADW", 8)]);
    bench.ask("running", 8);
    let first = waits(&bench.ask("a", 8)).clone();
    bench.later(10);
    bench.ask("b", 8);
    bench.later(40);

    let again = waits(&bench.ask("a", 8)).clone();

    assert_eq!((again.position, &again.tickets), (1, &first.tickets));
    let ticket = bench.ticket("ADW", "a").unwrap();
    assert_eq!(ticket.enqueued_at.plus(Duration::from_secs(50)), bench.now);
    assert_eq!(ticket.ask_by, bench.now.plus(Pace::default().most), "and the promise is renewed");
}

#[test]
fn asking_again_for_what_is_running_returns_the_same_lease_with_the_next_epoch() {
    let mut bench = Bench::of(&[("ADW", 100)]);
    bench.ask("batch", 8);
    let before = bench.ticket("ADW", "batch").unwrap().clone();
    bench.later(60);

    let answer = bench.ask("batch", 8);

    let Answer::Admitted { parts, is_duplicate: true } = answer else { panic!("{answer:?}") };
    assert_eq!(parts[0].ticket, Ticket { epoch: before.epoch.next(), ..before });
    assert_eq!(bench.usage("ADW"), 8);
}

#[test]
fn asking_again_for_what_was_downgraded_changes_nothing() {
    let mut bench = Bench::of(&[("ADW", 24)]);
    bench.ask("others", 16);
    bench.ask("batch", 16);
    bench.release("others");

    let answer = bench.ask("batch", 16);

    assert_eq!(admitted(&answer), [8], "although 16 would fit by now");
    assert!(!bench.ticket("ADW", "batch").unwrap().is_queued());
}

#[test]
fn units_that_nobody_heard_of_are_there_for_who_asks_again() {
    let mut bench = Bench::of(&[("ADW", 8)]);
    bench.ask("first", 8);
    bench.ask("batch", 8);
    bench.release("first");
    assert_eq!(bench.ticket("ADW", "batch").unwrap().state, State::Granted);

    let answer = bench.ask("batch", 8);

    assert!(matches!(answer, Answer::Admitted { is_duplicate: false, .. }), "{answer:?}");
    assert_eq!(bench.ticket("ADW", "batch").unwrap().state, State::Running);
}

#[test]
fn units_that_were_set_aside_are_fitted_to_what_is_asked_for_now() {
    for (asked, expected) in [(4, 4), (8, 8), (12, 12)] {
        let mut bench = Bench::of(&[("ADW", 12)]);
        bench.ask("first", 12);
        bench.ask("batch", 8);
        bench.configure("ADW", |settings| settings.min_units = some(8));
        bench.release("first");

        bench.ask("batch", asked);

        assert_eq!(bench.has("batch"), Some(expected));
        assert_eq!(bench.usage("ADW"), u64::from(expected));
    }
}

#[test]
fn what_the_pool_never_has_is_refused_at_once() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.configure("ADW", |settings| settings.min_units = some(24));

    let refusal = Answer::Refused { pool: pool("ADW"), reason: Reason::ExceedsPool };
    assert_eq!(bench.ask("batch", 32), refusal);
    assert_eq!(bench.ticket("ADW", "batch"), None);
    assert_eq!(bench.last.records, BTreeMap::new());
}

#[test]
fn what_the_pool_never_has_is_cut_down_to_what_it_has_when_less_would_do() {
    let mut bench = Bench::of(&[("ADW", 20)]);

    assert_eq!(admitted(&bench.ask("batch", 32)), [16]);
}

#[test]
fn all_or_nothing_refuses_whoever_asks_for_more_than_all() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.configure("ADW", |settings| settings.policy = Policy::Fifo);

    let answer = bench.ask("batch", 32);

    assert_eq!(answer, Answer::Refused { pool: pool("ADW"), reason: Reason::ExceedsPool });
    assert_eq!(admitted(&bench.ask("other", 20)), [20], "nobody stands before it");
}

#[test]
fn a_pool_that_there_is_not_is_named() {
    let mut bench = Bench::of(&[("ADW", 20)]);

    let wish = bench.wish("batch", &[("ADW", 4), ("HR", 4)]);
    let answer = bench.acquire(wish);

    assert_eq!(answer, Answer::Refused { pool: pool("HR"), reason: Reason::UnknownPool });
    assert_eq!(bench.ticket("ADW", "batch"), None, "and nothing is asked of the others");
}

#[test]
fn who_has_units_is_told_so_even_where_the_pool_became_too_small_for_it() {
    let mut bench = Bench::of(&[("ADW", 100)]);
    bench.ask("batch", 8);
    bench.configure("ADW", |settings| settings.max_units = 1);

    let answer = bench.ask("batch", 8);

    assert_eq!(admitted(&answer), [8]);
}

#[test]
fn who_waits_and_asks_for_more_sessions_weighs_more() {
    let mut bench = Bench::of(&[("ADW", 100)]);
    bench.configure("ADW", |settings| {
        (settings.weight, settings.server_sets) = (WeightModel::Px, 1);
        settings.min_units = some(8);
    });
    let ask = |bench: &mut Bench, dag: &str, sessions| {
        let mut wish = bench.wish(dag, &[("ADW", 8)]);
        wish.parts[0].sessions = Some(some(sessions));
        bench.acquire(wish)
    };
    ask(&mut bench, "first", 12);
    ask(&mut bench, "batch", 3);

    let answer = ask(&mut bench, "batch", 6);

    assert_eq!(waits(&answer).requested, 48);
    bench.release("first");
    assert_eq!(bench.usage("ADW"), 48, "8 servers for each of 6 sessions");
}

#[test]
fn who_runs_and_asks_with_other_sessions_keeps_what_it_has() {
    let mut bench = Bench::of(&[("ADW", 100)]);
    bench.configure("ADW", |settings| (settings.weight, settings.server_sets) = (WeightModel::Px, 1));
    let mut wish = bench.wish("batch", &[("ADW", 8)]);
    wish.parts[0].sessions = Some(some(3));
    bench.acquire(wish.clone());

    wish.parts[0].sessions = Some(some(6));
    wish.parts[0].parallel = Some(some(4));
    let answer = bench.acquire(wish);

    assert_eq!(admitted(&answer), [8], "4 at 6 sessions is not 4 at 3 sessions");
    assert_eq!(bench.usage("ADW"), 24);
}
