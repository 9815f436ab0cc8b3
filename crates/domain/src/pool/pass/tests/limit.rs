//! Limits that move: cuts, windows, pauses.

use super::*;
use crate::pool::Policy;
use crate::pool::reason::Reason;
use crate::pool::settings::Capacity;
use crate::pool::settings::Pause;

fn pause(bench: &mut Bench) {
    let at = bench.now;
    bench.configure("ADW", |settings| {
        settings.paused = Some(Pause { by: "minsu".into(), reason: "patch day".into(), at });
    });
}

#[test]
fn the_limit_is_a_whole_number_rounded_down() {
    let mut bench = Bench::of(&[("ADW", 99)]);
    bench.configure("ADW", |settings| settings.threshold_percent = 95);

    assert_eq!(admitted(&bench.ask("batch", 94)), [94]);
    assert_eq!(waits(&bench.ask("other", 1)).level, Level { usage: 94, limit: 94, max_units: 99 });
}

#[test]
fn a_cut_kills_nobody_and_lets_nobody_start() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.ask("a", 8);
    bench.ask("b", 8);

    bench.configure("ADW", |settings| settings.max_units = 10);

    assert_eq!(bench.usage("ADW"), 16);
    let answer = bench.ask("c", 2);
    let told = waits(&answer);
    assert_eq!((told.level.over_by(), told.level.available()), (6, 0));
    assert_eq!(told.reason, Reason::CapacityShrunk);
    bench.release("a");
    assert_eq!((bench.has("c"), bench.usage("ADW")), (Some(2), 10), "as soon as there is room");
}

#[test]
fn a_raise_lets_those_start_who_wait() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("a", 10);
    bench.ask("b", 10);

    bench.configure("ADW", |settings| settings.max_units = 20);

    assert_eq!(bench.has("b"), Some(10));
}

#[test]
fn those_for_whom_the_pool_became_too_small_are_told_so() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.ask("a", 20);
    let mut wish = bench.wish("wide", &[("ADW", 16)]);
    wish.parts[0].least = Some(some(16));
    bench.acquire(wish.clone());
    bench.later(1);
    bench.ask("small", 4);

    bench.configure("ADW", |settings| settings.max_units = 10);

    assert_eq!(bench.ticket("ADW", "wide"), None);
    assert!(bench.last.ends.values().any(|end| *end == End::ExceedsPool));
    assert!(matches!(bench.acquire(wish), Answer::Refused { reason: Reason::ExceedsPool, .. }));
    bench.release("a");
    assert_eq!(bench.has("small"), Some(4));
}

#[test]
fn those_who_do_not_fit_under_another_policy_are_told_so() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.ask("a", 20);
    bench.ask("wide", 32);
    bench.later(1);
    bench.ask("small", 4);

    bench.configure("ADW", |settings| settings.policy = Policy::Fifo);
    bench.release("a");

    assert_eq!((bench.ticket("ADW", "wide"), bench.has("small")), (None, Some(4)));
}

#[test]
fn the_time_of_day_moves_the_limit() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.configure("ADW", |settings| {
        let window = "06:00-22:00".parse().unwrap();
        settings.capacity = vec![Capacity { window, max_units: 4 }];
    });
    bench.ask("a", 8);
    bench.now = "2026-11-16T06:00:00Z".parse().unwrap();

    let answer = bench.ask("b", 4);

    let told = waits(&answer);
    assert_eq!((told.reason, told.level.limit, told.level.over_by()), (Reason::OutsideWindow, 4, 4));
    bench.now = "2026-11-16T22:00:00Z".parse().unwrap();
    bench.look("ADW");
    assert_eq!(bench.has("b"), Some(2), "what is left of 10");
}

#[test]
fn who_is_too_wide_for_the_day_waits_for_the_night() {
    let mut bench = Bench::of(&[("ADW", 100)]);
    bench.configure("ADW", |settings| {
        let window = "00:00-22:00".parse().unwrap();
        settings.capacity = vec![Capacity { window, max_units: 0 }];
    });

    let answer = bench.ask("b", 50);

    let told = waits(&answer);
    assert_eq!((told.reason, told.estimate), (Reason::OutsideWindow, None));
    bench.now = "2026-11-16T22:00:00Z".parse().unwrap();
    bench.look("ADW");
    assert_eq!(bench.has("b"), Some(50));
}

#[test]
fn a_pause_lets_nobody_start_and_takes_nothing_away() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.ask("a", 4);

    pause(&mut bench);

    let answer = bench.ask("b", 4);
    assert_eq!((waits(&answer).reason, waits(&answer).estimate), (Reason::PoolPaused, None));
    assert_eq!(admitted(&bench.ask("a", 4)), [4], "what is there is there");
    assert_eq!(admitted(&bench.ask("a", 8)), [4], "and nobody gets more");
    bench.configure("ADW", |settings| settings.paused = None);
    assert_eq!((bench.has("b"), bench.has("a")), (Some(4), Some(8)));
}

#[test]
fn what_is_given_back_in_a_pause_comes_back() {
    let mut bench = Bench::of(&[("ADW", 4)]);
    bench.ask("a", 4);
    bench.ask("b", 4);
    pause(&mut bench);

    bench.release("a");

    assert_eq!((bench.usage("ADW"), bench.has("b")), (0, None));
}

#[test]
fn a_pool_that_there_is_not_cannot_be_set() {
    let mut bench = Bench::of(&[("ADW", 4)]);
    let settings = Box::new(Settings::new(pool("HR"), 10));

    let answer = bench.one(Command::Configure { settings, by: None });

    assert_eq!(answer, Answer::Refused { pool: pool("HR"), reason: Reason::UnknownPool });
}
