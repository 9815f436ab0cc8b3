//! Larger and smaller requests of a holder.

use super::*;
use crate::pool::Policy;

#[test]
fn asking_for_less_gives_the_rest_back() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    bench.ask("batch", 16);
    bench.ask("waiting", 8);

    let answer = bench.ask("batch", 4);

    assert_eq!(admitted(&answer), [4]);
    assert_eq!(bench.has("waiting"), Some(8), "who waits gets it in the same pass");
}

#[test]
fn who_wants_less_than_the_least_gets_what_it_wants() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    let mut wish = bench.wish("batch", &[("ADW", 16)]);
    wish.parts[0].least = Some(some(8));
    bench.acquire(wish);

    bench.ask("batch", 1);

    let ticket = bench.ticket("ADW", "batch").unwrap();
    assert_eq!((ticket.granted, ticket.asked, ticket.least), (Some(some(1)), some(1), some(1)));
}

#[test]
fn asking_for_more_keeps_the_lease_and_queues_for_the_difference() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.ask("batch", 8);
    bench.ask("other", 8);

    let answer = bench.ask("batch", 16);

    assert_eq!(admitted(&answer), [8], "it goes on with what it has");
    let ticket = bench.ticket("ADW", "batch").unwrap();
    assert_eq!((ticket.wanted(), ticket.is_queued()), (8, true));
    bench.release("other");
    assert_eq!((bench.has("batch"), bench.usage("ADW")), (Some(16), 16));
    assert!(!bench.ticket("ADW", "batch").unwrap().is_queued());
}

#[test]
fn more_that_fits_comes_at_once_and_never_in_part() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    bench.ask("batch", 8);

    assert_eq!(admitted(&bench.ask("batch", 12)), [12]);
    assert_eq!(admitted(&bench.ask("batch", 16)), [16]);
    bench.ask("batch", 8);
    bench.ask("other", 4);
    assert_eq!(admitted(&bench.ask("batch", 16)), [8], "12 would fit, but 16 was asked for");
}

#[test]
fn who_wants_more_stands_behind_those_who_came_before() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    bench.configure("ADW", |settings| settings.policy = Policy::Fifo);
    bench.ask("batch", 8);
    bench.ask("other", 4);
    bench.later(1);
    bench.ask("waiting", 8);
    bench.later(1);
    bench.ask("batch", 12);

    bench.release("other");

    assert_eq!((bench.has("waiting"), bench.has("batch")), (Some(8), Some(8)));
}

#[test]
fn who_no_longer_wants_more_leaves_the_queue_and_keeps_its_units() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    bench.ask("batch", 8);
    bench.ask("other", 8);
    bench.ask("batch", 16);

    bench.ask("batch", 8);

    assert!(!bench.ticket("ADW", "batch").unwrap().is_queued());
    bench.release("other");
    assert_eq!(bench.has("batch"), Some(8));
}

#[test]
fn wanting_the_same_more_again_keeps_the_place() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    bench.ask("batch", 8);
    bench.ask("other", 8);
    bench.ask("batch", 16);
    let since = bench.ticket("ADW", "batch").unwrap().queued_since();
    bench.later(60);

    bench.ask("batch", 16);

    assert_eq!(bench.ticket("ADW", "batch").unwrap().queued_since(), since);
}

#[test]
fn more_than_the_pool_ever_has_is_not_waited_for() {
    let mut bench = Bench::of(&[("ADW", 16)]);
    bench.ask("batch", 8);

    assert_eq!(admitted(&bench.ask("batch", 17)), [8]);
    assert!(!bench.ticket("ADW", "batch").unwrap().is_queued());
}

#[test]
fn who_wants_more_than_a_smaller_pool_has_does_not_block_it() {
    let mut bench = Bench::of(&[("ADW", 32)]);
    bench.ask("batch", 8);
    bench.ask("other", 24);
    bench.ask("batch", 24);
    bench.later(1);
    bench.ask("waiting", 4);

    bench.configure("ADW", |settings| settings.max_units = 16);
    bench.release("other");

    assert_eq!((bench.has("batch"), bench.has("waiting")), (Some(8), Some(4)));
    assert!(!bench.ticket("ADW", "batch").unwrap().is_queued());
}

#[test]
fn who_leaves_before_it_hears_of_its_grant_still_waits_for_all_that_it_wants() {
    let mut bench = Bench::of(&[("ADW", 24)]);
    bench.ask("other", 16);
    assert_eq!(admitted(&bench.ask("batch", 16)), [8]);
    bench.ask("batch", 24);
    let (ticket, epoch) = bench.ticket("ADW", "batch").map(|ticket| (ticket.id, ticket.epoch)).unwrap();
    bench.one(Command::Unclaim { pool: pool("ADW"), ticket, epoch });

    bench.ask("other", 4);

    let ticket = bench.ticket("ADW", "batch").unwrap();
    assert_eq!((bench.has("batch"), ticket.wanted()), (Some(8), 16), "16 would fit, but 24 is wanted");
}
