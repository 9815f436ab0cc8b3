//! The order of the queue, and the answers to waiting requests.

use super::*;
use crate::pool::Policy;
use crate::pool::reason::Reason;

impl Bench {
    fn ask_as(&mut self, class: Class, dag: &str, parallel: u32) -> Answer {
        let mut wish = self.wish(dag, &[("ADW", parallel)]);
        wish.class = class;
        self.acquire(wish)
    }

    /// The DAGs in the queue of ADW, in its order.
    fn queue(&self) -> Vec<&str> {
        let queue = self.ledgers[&pool("ADW")].queue(self.now);
        queue.into_iter().map(|ticket| ticket.holder.dag_id()).collect()
    }
}

fn full(units: u32) -> Bench {
    let mut bench = Bench::of(&[("ADW", units)]);
    bench.ask("running", units);
    bench
}

#[test]
fn the_urgent_go_first_and_equals_in_the_order_in_which_they_came() {
    let mut bench = full(10);
    for (class, dag) in [
        (Class::Bulk, "bulk"),
        (Class::Normal, "first"),
        (Class::Normal, "second"),
        (Class::Critical, "urgent"),
    ] {
        bench.later(1);
        bench.ask_as(class, dag, 8);
    }

    assert_eq!(bench.queue(), ["urgent", "first", "second", "bulk"]);
}

#[test]
fn who_waits_long_is_promoted() {
    let mut bench = full(10);
    bench.ask_as(Class::Bulk, "bulk", 8);
    bench.later(15 * 60);
    bench.ask_as(Class::Normal, "normal", 8);
    assert_eq!(bench.queue(), ["bulk", "normal"]);

    bench.ask_as(Class::Critical, "urgent", 8);
    assert_eq!(bench.queue(), ["urgent", "bulk", "normal"]);

    bench.later(15 * 60);
    bench.ask_as(Class::Critical, "late", 8);
    assert_eq!(bench.queue()[0], "bulk", "it came before all of them");
}

#[test]
fn a_place_within_a_class_only_gets_better() {
    let mut bench = full(12);
    for dag in ["a", "b", "c", "d"] {
        bench.later(1);
        bench.ask(dag, 12);
    }
    let mut places = vec![waits(&bench.ask("d", 12)).position];

    for left in ["b", "a"] {
        bench.later(30);
        bench.release(left);
        bench.later(60);
        bench.ask("late", 12);
        places.push(waits(&bench.ask("d", 12)).position);
    }

    assert_eq!(places, [4, 3, 2]);
}

#[test]
fn each_is_told_why_it_waits() {
    let mut bench = Bench::of(&[("ADW", 20)]);
    bench.configure("ADW", |settings| settings.policy = Policy::Fifo);
    bench.ask("running", 16);

    let reason = |bench: &mut Bench, dag, parallel| {
        bench.later(1);
        waits(&bench.ask(dag, parallel)).reason
    };

    assert_eq!(reason(&mut bench, "wide", 16), Reason::PoolFull);
    assert_eq!(reason(&mut bench, "wide too", 8), Reason::BehindInQueue);
    assert_eq!(reason(&mut bench, "small", 4), Reason::LargerRequestReserved);
}

#[test]
fn all_or_nothing_is_not_said_to_wait_for_another_pool_when_only_a_part_would_fit() {
    let mut bench = Bench::of(&[("ADW", 20), ("ERP", 20)]);
    bench.configure("ADW", |settings| settings.policy = Policy::Fifo);
    bench.ask("running", 10);

    let wish = bench.wish("batch", &[("ADW", 16), ("ERP", 4)]);
    let answer = bench.acquire(wish);

    assert_eq!((waits(&answer).pool.as_str(), waits(&answer).reason), ("ADW", Reason::PoolFull));
}

#[test]
fn the_wait_is_estimated_from_the_past_of_the_same_work() {
    let mut bench = Bench::of(&[("ADW", 8)]);
    for took in [100, 120, 140] {
        bench.ask("nightly", 8);
        bench.later(took);
        bench.release("nightly");
    }
    bench.ask("nightly", 8);
    bench.later(20);

    let answer = bench.ask("batch", 8);

    let told = waits(&answer);
    let estimate = told.estimate.unwrap();
    assert_eq!((estimate.p50.as_secs(), estimate.p90.as_secs()), (100, 120));
    assert!((100..=110).contains(&told.wait_seconds), "{}", told.wait_seconds);
}

#[test]
fn those_further_back_wait_longer_and_all_within_the_pace() {
    let mut bench = full(8);
    let mut last = Duration::ZERO;
    for index in 0..20 {
        bench.later(1);
        let answer = bench.ask(&format!("batch_{index}"), 8);
        let estimate = waits(&answer).estimate.unwrap();

        assert!(estimate.p50 > last && estimate.p50 <= estimate.p90, "{estimate:?}");
        assert!((30..=300).contains(&waits(&answer).wait_seconds));
        last = estimate.p50;
    }
}

#[test]
fn who_would_do_with_less_waits_less() {
    let p50 = |policy, asked| {
        let mut bench = Bench::of(&[("ADW", 16)]);
        bench.configure("ADW", |settings| settings.policy = policy);
        bench.ask("a", 8);
        bench.later(60);
        bench.ask("b", 8);
        waits(&bench.ask("batch", asked)).estimate.unwrap().p50.as_secs()
    };

    assert_eq!(p50(Policy::Halving, 16), 540, "it starts with 8 when the first of them has gone");
    assert_eq!(p50(Policy::Fifo, 8), 540);
    assert_eq!(p50(Policy::Fifo, 16), 600, "it needs the room of both");
}
