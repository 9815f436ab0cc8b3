//! Releases: once, twice, too late, and of units that were never granted.

use super::*;
use crate::pool::state::State;

#[test]
fn what_was_never_there_is_no_error() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("other", 4);

    let answer = bench.release("batch");

    let level = Level { usage: 4, limit: 10, max_units: 10 };
    let nothing = Released { released: false, units: 0, cancelled_waiting: false, level };
    assert_eq!(answer, Answer::Released(nothing));
    assert_eq!(bench.last.records, BTreeMap::new());
}

#[test]
fn who_gives_back_in_the_queue_leaves_it() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("other", 10);
    bench.ask("batch", 4);

    let answer = bench.release("batch");

    let told = released(&answer);
    assert_eq!((told.released, told.units, told.cancelled_waiting), (false, 0, true));
    assert_eq!(bench.last.tickets[&pool("ADW")].values().next().unwrap().state, State::Cancelled);
    bench.release("other");
    assert_eq!(bench.usage("ADW"), 0, "nothing is given to who has left");
}

#[test]
fn the_second_time_changes_nothing() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("batch", 4);
    bench.ask("other", 4);

    let first = bench.release("batch");
    let second = bench.release("batch");

    assert_eq!((released(&first).released, released(&first).units), (true, 4));
    assert_eq!((released(&second).released, released(&second).units), (false, 0));
    assert_eq!(bench.usage("ADW"), 4);
}

#[test]
fn what_has_ended_is_in_the_log_and_no_longer_in_the_state() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("batch", 4);

    bench.release("batch");

    assert_eq!(bench.ledgers[&pool("ADW")].tickets().count(), 0);
    let kinds: Vec<&str> = bench.log[&pool("ADW")].iter().map(|record| record.event.kind()).collect();
    assert_eq!(kinds, ["enqueued", "granted", "claimed", "ended"]);
}

#[test]
fn a_run_gives_back_what_all_its_tasks_have() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    for (run, map_index) in [("r1", 0), ("r1", 1), ("r2", 0)] {
        let mut wish = bench.wish("batch", &[("ADW", 3)]);
        wish.holder = Holder::new("batch", run, "extract", map_index).unwrap();
        bench.acquire(wish);
    }

    let by = ReleaseBy::Run { dag_id: "batch".into(), run_id: "r1".into() };
    let answer = bench.give_back(by, None);

    assert_eq!(released(&answer).units, 6);
    assert_eq!(bench.usage("ADW"), 3);
}

#[test]
fn a_ghost_gives_nothing_back() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("batch", 4);
    let ticket = bench.ticket("ADW", "batch").unwrap().id;
    bench.ask("batch", 4);

    let by_ticket = bench.give_back(ReleaseBy::Ticket(ticket), Some(Epoch::new(1)));
    let by_holder = bench.give_back(ReleaseBy::Holder(run_of("batch")), Some(Epoch::new(1)));

    assert_eq!((by_ticket, by_holder), (Answer::Gone, Answer::Gone));
    assert_eq!(bench.usage("ADW"), 4);
    let answer = bench.give_back(ReleaseBy::Ticket(ticket), Some(Epoch::new(2)));
    assert_eq!(released(&answer).units, 4);
}

#[test]
fn a_ghost_of_an_earlier_lease_does_not_cancel_who_waits_now() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("batch", 10);
    bench.ask("batch", 10);
    bench.release("batch");
    bench.ask("other", 10);
    bench.ask("batch", 10);

    let answer = bench.give_back(ReleaseBy::Holder(run_of("batch")), Some(Epoch::new(2)));

    assert_eq!(answer, Answer::Gone);
    assert_eq!(bench.ticket("ADW", "batch").unwrap().state, State::Waiting);
}

#[test]
fn of_the_tasks_of_a_run_only_the_ghosts_keep_their_units() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    for map_index in [0, 1, 1] {
        let mut wish = bench.wish("batch", &[("ADW", 3)]);
        wish.holder = Holder::new("batch", "r1", "extract", map_index).unwrap();
        bench.acquire(wish);
    }

    let by = ReleaseBy::Run { dag_id: "batch".into(), run_id: "r1".into() };
    let answer = bench.give_back(by, Some(Epoch::new(1)));

    assert_eq!((released(&answer).units, bench.usage("ADW")), (3, 3));
}

#[test]
fn units_that_were_set_aside_can_be_given_back() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("first", 10);
    bench.ask("batch", 4);
    bench.release("first");

    let answer = bench.release("batch");

    assert_eq!((released(&answer).released, released(&answer).units), (true, 4));
    assert_eq!(bench.usage("ADW"), 0);
}

#[test]
fn who_gives_up_its_place_does_not_lose_units_that_it_has() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("batch", 4);

    let by = ReleaseBy::Holder(run_of("batch"));
    let release = Release { pool: pool("ADW"), by, epoch: None, end: End::GaveUp, call: None };
    let answer = bench.one(Command::Release(Box::new(release)));

    assert!(!released(&answer).released);
    assert_eq!(bench.usage("ADW"), 4);
}

#[test]
fn a_pool_that_there_is_not_takes_nothing_back() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let by = ReleaseBy::Holder(run_of("batch"));
    let end = End::Released { failed: false };

    let release = Release { pool: pool("HR"), by, epoch: None, end, call: None };
    let answer = bench.one(Command::Release(Box::new(release)));

    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
}

#[test]
fn what_comes_back_goes_to_the_first_of_the_queue_in_the_same_pass() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("first", 10);
    bench.ask("a", 6);
    bench.ask("b", 4);

    bench.release("first");

    assert_eq!((bench.has("a"), bench.has("b")), (Some(6), Some(4)));
}
