//! The circuit breaker from the first refusal to the whole limit.

use super::*;
use crate::pool::BreakerChange;
use crate::pool::breaker::Phase;
use crate::pool::reason::Reason;
use crate::pool::replay::Fault;
use crate::pool::replay::tests::replay;

impl Bench {
    fn refuse(&mut self, dag: &str) {
        let (by, end) = (ReleaseBy::Holder(run_of(dag)), End::Refused { reason: "ORA-00018".to_owned() });
        let release = Release { pool: pool("ADW"), by, epoch: None, end, call: None };
        let answer = self.one(Command::Release(Box::new(release)));
        assert!(released(&answer).released);
    }

    fn change(&mut self, change: BreakerChange) {
        self.change_in("ADW", change);
    }

    fn change_in(&mut self, of: &str, change: BreakerChange) {
        assert_eq!(self.one(Command::Breaker { pool: pool(of), change }), Answer::Done);
    }

    fn phase(&self) -> Phase {
        self.ledgers[&pool("ADW")].breaker().phase
    }

    fn limit(&self) -> u64 {
        self.ledgers[&pool("ADW")].level_at(self.now).limit
    }
}

/// Holders `a` to `e` have 8 units of 40 each. `a` is refused, `f` to `h` wait.
fn refused() -> Bench {
    let mut bench = Bench::of(&[("ADW", 40)]);
    for dag in ["a", "b", "c", "d", "e"] {
        bench.ask(dag, 8);
    }
    bench.refuse("a");
    for dag in ["f", "g", "h"] {
        bench.ask(dag, 8);
        bench.later(1);
    }
    bench
}

#[test]
fn a_refusal_stops_the_queue_then_one_probes_and_the_limit_rises_slowly() {
    let mut bench = refused();
    assert_eq!((bench.has("f"), bench.usage("ADW"), bench.limit()), (None, 32, 20));
    let answer = bench.ask("f", 8);
    assert_eq!(waits(&answer).reason, Reason::BreakerOpen);
    assert_eq!(waits(&answer).estimate.unwrap().p50, Duration::from_secs(27), "the rest of the pause");

    bench.later(27);
    bench.look("ADW");
    assert_eq!((bench.has("f"), bench.has("g")), (Some(2), None), "the first, in its smallest size");
    bench.ask("f", 8);
    bench.later(59);
    bench.look("ADW");
    assert_eq!((bench.has("g"), bench.usage("ADW")), (None, 34), "nobody else until the probe has worked");
    assert_eq!(waits(&bench.ask("g", 8)).reason, Reason::BreakerOpen);

    bench.release("f");
    assert_eq!((bench.phase(), bench.limit()), (Phase::Ramping, 20));
    assert_eq!(waits(&bench.ask("g", 8)).reason, Reason::BreakerOpen, "32 of 20");
    bench.release("b");
    bench.release("c");
    assert_eq!((bench.has("g"), bench.has("h")), (Some(4), None), "in order, within the lowered limit");
    assert_eq!(waits(&bench.ask("h", 8)).reason, Reason::BreakerOpen, "20 of 20, and the pool has 40");
    bench.later(30);
    bench.look("ADW");
    assert_eq!((bench.limit(), bench.has("h")), (22, Some(2)));
    bench.later(600);
    bench.look("ADW");
    assert_eq!((bench.phase(), bench.limit()), (Phase::Closed, 40));
}

#[test]
fn a_refused_probe_goes_and_the_next_comes_after_a_longer_pause() {
    let mut bench = refused();
    bench.later(30);
    bench.ask("f", 8);
    assert_eq!(bench.has("f"), Some(2));

    bench.refuse("f");

    assert_eq!(bench.phase(), Phase::Open { until: Some(bench.now.plus(Duration::from_secs(60))) });
    bench.later(59);
    bench.look("ADW");
    assert_eq!(bench.has("g"), None);
    bench.later(1);
    bench.look("ADW");
    assert_eq!((bench.has("g"), bench.has("h")), (Some(2), None));
}

#[test]
fn many_refusals_of_one_moment_count_once_and_only_of_those_that_had_units() {
    let mut bench = refused();
    let open = bench.ledgers[&pool("ADW")].breaker().clone();
    for dag in ["b", "c", "d"] {
        bench.refuse(dag);
    }
    assert_eq!(*bench.ledgers[&pool("ADW")].breaker(), open);

    let mut bench = Bench::of(&[("ADW", 8)]);
    bench.ask("a", 8);
    bench.ask("b", 8);
    let (by, end) = (ReleaseBy::Holder(run_of("b")), End::Refused { reason: "x".to_owned() });
    bench.one(Command::Release(Box::new(Release { pool: pool("ADW"), by, epoch: None, end, call: None })));
    assert_eq!(bench.phase(), Phase::Closed, "it was only waiting");
}

#[test]
fn a_probe_that_holds_its_units_for_a_minute_has_worked() {
    let mut bench = refused();
    bench.later(30);
    bench.ask("f", 8);
    bench.later(59);
    bench.look("ADW");
    assert!(matches!(bench.phase(), Phase::Probing { ticket: Some(_) }));
    bench.later(1);
    bench.look("ADW");
    assert_eq!(bench.phase(), Phase::Ramping);
}

#[test]
fn a_probe_that_nobody_claims_makes_room_for_the_next() {
    let mut bench = refused();
    bench.later(30);
    bench.look("ADW");
    let probe = bench.ticket("ADW", "f").unwrap().clone();
    bench.now = probe.ask_by;
    bench.ask("g", 8);

    bench.one(Command::Lapsed { pool: pool("ADW"), ticket: probe.id });

    assert_eq!((bench.ticket("ADW", "f"), bench.has("g")), (None, Some(2)));
    let id = bench.ticket("ADW", "g").unwrap().id;
    assert_eq!(bench.phase(), Phase::Probing { ticket: Some(id) });
}

#[test]
fn a_silent_probe_makes_room_for_the_next_and_keeps_its_units() {
    let mut bench = refused();
    bench.later(30);
    let wish = bench.wish("f", &[("ADW", 8)]);
    let wish = Acquire { lease_for: Some(Duration::from_secs(5)), ..wish };
    bench.release("f");
    bench.release("g");
    bench.release("h");
    bench.acquire(wish);
    bench.ask("g", 8);
    let probe = bench.ticket("ADW", "f").unwrap().id;
    bench.later(6);

    bench.one(Command::Lapsed { pool: pool("ADW"), ticket: probe });

    assert_eq!((bench.has("f"), bench.has("g")), (Some(2), Some(2)));
    let next = bench.ticket("ADW", "g").unwrap().id;
    assert_eq!(bench.phase(), Phase::Probing { ticket: Some(next) });
}

#[test]
fn a_holder_that_waits_for_more_can_be_the_probe() {
    let mut bench = Bench::of(&[("ADW", 40)]);
    bench.ask("a", 8);
    bench.ask("b", 8);
    bench.refuse("a");
    bench.later(3_600);
    // The pause is over, so its larger request is the probe at once.
    bench.ask("b", 12);

    assert_eq!(bench.has("b"), Some(12));
    assert!(matches!(bench.phase(), Phase::Probing { ticket: Some(_) }), "its first units prove nothing");
    bench.later(60);
    bench.look("ADW");
    assert_eq!(bench.phase(), Phase::Ramping);
}

#[test]
fn an_operator_opens_and_closes_it() {
    let (by, reason) = ("ann".to_owned(), "the database restarts".to_owned());
    let mut bench = Bench::of(&[("ADW", 40)]);
    bench.change(BreakerChange::Open { by: by.clone(), reason: reason.clone() });

    let answer = bench.ask("a", 8);
    assert_eq!((waits(&answer).reason, waits(&answer).estimate), (Reason::BreakerOpen, None));
    bench.later(86_400);
    bench.look("ADW");
    assert_eq!(bench.has("a"), None);

    bench.change(BreakerChange::Close { by, reason });
    assert_eq!(bench.has("a"), Some(8));
}

#[test]
fn a_request_for_several_pools_waits_for_the_probe_of_one_and_keeps_its_place() {
    let mut bench = Bench::of(&[("ADW", 40), ("ERP", 40)]);
    bench.ask("a", 8);
    bench.refuse("a");
    let both = bench.wish("both", &[("ADW", 8), ("ERP", 8)]);
    bench.acquire(both);
    bench.later(1);
    bench.ask("late", 8);
    assert_eq!((bench.usage("ERP"), bench.has("both")), (0, None), "all or nothing");

    bench.later(30);
    bench.run(&[Command::Look { pool: pool("ADW") }, Command::Look { pool: pool("ERP") }]);

    let in_erp = bench.ticket("ERP", "both").unwrap().granted.map(NonZeroU32::get);
    assert_eq!((bench.has("both"), in_erp, bench.has("late")), (Some(2), Some(8), None));
}

#[test]
fn the_first_that_no_other_pool_stops_is_the_probe() {
    let mut bench = Bench::of(&[("ADW", 40), ("ERP", 40)]);
    bench.ask("a", 8);
    bench.refuse("a");
    bench.change_in("ERP", BreakerChange::Open { by: "ann".to_owned(), reason: "patch".to_owned() });
    let both = bench.wish("both", &[("ADW", 8), ("ERP", 8)]);
    bench.acquire(both);
    bench.later(1);
    bench.ask("late", 8);

    bench.later(30);
    bench.look("ADW");

    assert_eq!((bench.has("both"), bench.has("late")), (None, Some(2)));
}

#[test]
fn a_pass_over_one_pool_asks_whether_another_stops_the_probe() {
    let mut bench = Bench::of(&[("ADW", 20), ("ERP", 20)]);
    bench.ask("long", 10);
    bench.ask("a", 2);
    bench.refuse("a");
    bench.pause("ERP", true);
    bench.ask_whole("both", &[("ADW", 16), ("ERP", 16)]);
    bench.later(1);
    bench.ask("late", 8);

    bench.later(30);
    bench.narrow("ADW", Command::Look { pool: pool("ADW") });

    assert_eq!(bench.phase(), Phase::Probing { ticket: None });
    assert_eq!(bench.last.wider, BTreeSet::from([pool("ADW"), pool("ERP")]));
    bench.look("ADW");
    assert_eq!((bench.has("both"), bench.has("late")), (None, Some(2)));
}

#[test]
fn a_refusal_is_judged_by_the_phase_of_its_instant() {
    let mut bench = refused();
    bench.later(27);
    bench.ask("f", 8);
    bench.later(60);
    // The probe has worked by now, though no pass has said so.
    bench.refuse("b");

    let breaker = bench.ledgers[&pool("ADW")].breaker();
    assert_eq!(
        (breaker.pause, breaker.units),
        (Duration::from_secs(30), 10),
        "half of the limit, not a refused probe"
    );
}

#[test]
fn the_auditor_finds_a_grant_while_the_breaker_is_open() {
    let mut bench = refused();
    bench.later(30);
    bench.look("ADW");
    let honest = bench.log[&pool("ADW")].clone();
    let is_probe = |record: &Record| {
        matches!(&record.event, Event::Breaker { breaker }
            if matches!(breaker.phase, Phase::Probing { ticket: Some(_) }))
    };
    let place = honest.iter().position(is_probe).unwrap();
    for phase in [Phase::Open { until: None }, Phase::Probing { ticket: None }] {
        let mut log = honest.clone();
        let Event::Breaker { breaker } = &mut log[place].event else { panic!() };
        breaker.phase = phase;
        let found = &replay(&bench.made[&pool("ADW")], &log).unwrap().violations[0].fault;
        assert!(matches!(found, Fault::BreakerOpen { .. }), "{found}");
    }
    let mut log = honest;
    let Event::Granted { parallel, .. } = &mut log[place + 1].event else { panic!() };
    *parallel = some(8);
    let found = &replay(&bench.made[&pool("ADW")], &log).unwrap().violations[0].fault;
    assert!(matches!(found, Fault::AgainstPolicy { .. }), "the smallest size: {found}");
}
