//! Requests for several pools: all or nothing.

use super::*;
use crate::pool::decide::OVERTAKES_MAX;
use crate::pool::settings::Pause;
use crate::pool::{Reason, State};

const BOTH: [(&str, u32); 2] = [("ADW", 4), ("ERP", 4)];

fn release_of(of: &str, dag: &str) -> Command {
    let (by, end) = (ReleaseBy::Holder(run_of(dag)), End::Released { failed: false });
    Command::Release(Box::new(Release { pool: pool(of), by, epoch: None, end, call: None }))
}

impl Bench {
    fn ask_all(&mut self, dag: &str, parts: &[(&str, u32)]) -> Answer {
        let wish = self.wish(dag, parts);
        self.acquire(wish)
    }

    /// Asks for all or nothing.
    pub(super) fn ask_whole(&mut self, dag: &str, parts: &[(&str, u32)]) -> Answer {
        let mut wish = self.wish(dag, parts);
        wish.parts.iter_mut().for_each(|part| part.least = part.parallel);
        self.acquire(wish)
    }

    /// A pass over one pool only.
    pub(super) fn narrow(&mut self, of: &str, command: Command) -> Answer {
        let name = pool(of);
        let mut ledgers = BTreeMap::from([(name.clone(), self.ledgers[&name].clone())]);
        self.last = pass(&mut ledgers, self.now, Pace::default(), &[command]).unwrap();
        self.log.entry(name.clone()).or_default().extend(self.last.records.remove(&name).unwrap_or_default());
        self.ledgers.append(&mut ledgers);
        self.last.answers.pop().unwrap()
    }

    pub(super) fn pause(&mut self, of: &str, is_paused: bool) {
        let pause = Pause { by: "ann".into(), reason: "patch".into(), at: self.now };
        self.configure(of, |settings| settings.paused = is_paused.then_some(pause));
    }

    fn release_in(&mut self, of: &str, dag: &str) -> Answer {
        self.one(release_of(of, dag))
    }

    fn states(&self, dag: &str) -> [Option<State>; 2] {
        ["ADW", "ERP"].map(|of| self.ticket(of, dag).map(|ticket| ticket.state))
    }
}

#[test]
fn all_start_together() {
    let mut bench = Bench::of(&[("ADW", 10), ("ERP", 10)]);

    let answer = bench.ask_all("batch", &[("ADW", 4), ("ERP", 8)]);

    assert_eq!(admitted(&answer), [4, 8]);
    assert_eq!((bench.usage("ADW"), bench.usage("ERP")), (4, 8));
}

#[test]
fn who_does_not_fit_in_one_gets_nothing_in_the_others() {
    let mut bench = Bench::of(&[("ADW", 10), ("ERP", 10)]);
    bench.ask_all("other", &[("ERP", 10)]);

    let answer = bench.ask_all("batch", &BOTH);

    let told = waits(&answer);
    assert_eq!((told.pool.as_str(), told.reason), ("ERP", Reason::PoolFull), "the one that keeps it waiting");
    assert_eq!(told.tickets.len(), 2);
    assert_eq!(bench.usage("ADW"), 0);
    let reasons = queue_positions(&bench.ledgers[&pool("ADW")], bench.now);
    assert_eq!(reasons[0].1, Reason::OtherPool);
}

#[test]
fn its_place_is_kept_in_all_of_them() {
    let mut bench = Bench::of(&[("ADW", 10), ("ERP", 10)]);
    bench.ask_all("other", &[("ERP", 10)]);
    bench.ask_all("batch", &BOTH);
    bench.later(1);

    assert_eq!(waits(&bench.ask("late", 4)).position, 2);

    bench.release_in("ERP", "other");
    assert_eq!(bench.states("batch"), [Some(State::Granted); 2]);
    assert_eq!(bench.has("late"), Some(4));
}

#[test]
fn requests_in_opposite_order_do_not_wait_for_each_other() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &BOTH);
    let forth = bench.wish("forth", &BOTH);
    let back = bench.wish("back", &[("ERP", 4), ("ADW", 4)]);
    bench.run(&[Command::Acquire(Box::new(forth)), Command::Acquire(Box::new(back))]);

    for of in ["ERP", "ADW"] {
        bench.release_in(of, "other");
    }

    assert_eq!(bench.states("forth"), [Some(State::Granted); 2]);
    for of in ["ADW", "ERP"] {
        bench.release_in(of, "forth");
    }
    assert_eq!(bench.states("back"), [Some(State::Granted); 2]);
}

#[test]
fn a_pass_over_too_few_pools_asks_for_a_wider_one() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &[("ADW", 4)]);
    bench.ask_all("batch", &BOTH);
    bench.narrow("ADW", release_of("ADW", "other"));

    assert_eq!(bench.usage("ADW"), 0, "it cannot know whether there is room in the other");
    assert_eq!(bench.last.wider, BTreeSet::from([pool("ADW"), pool("ERP")]));
    bench.look("ADW");
    assert_eq!(bench.states("batch"), [Some(State::Granted); 2]);
    assert_eq!(bench.last.wider, BTreeSet::new());
}

#[test]
fn who_leaves_one_queue_leaves_all() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &BOTH);
    bench.ask_all("batch", &BOTH);
    let release = release_of("ADW", "batch");

    assert_eq!(bench.narrow("ADW", release.clone()), Answer::Wider(BTreeSet::from([pool("ERP")])));
    assert_eq!(bench.states("batch"), [Some(State::Waiting); 2]);

    assert!(released(&bench.one(release)).cancelled_waiting);
    assert_eq!(bench.states("batch"), [None, None]);
}

#[test]
fn who_stops_asking_leaves_all_queues() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &BOTH);
    bench.ask_all("batch", &BOTH);
    bench.later(900);

    bench.lapsed("ERP", "batch");

    assert_eq!(bench.states("batch"), [None, None]);
}

#[test]
fn what_runs_is_given_back_one_by_one() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("batch", &BOTH);
    bench.narrow("ADW", release_of("ADW", "batch"));

    assert_eq!(bench.states("batch"), [None, Some(State::Running)]);
}

#[test]
fn a_claim_of_what_is_partly_gone_claims_nothing() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &BOTH);
    bench.ask_all("batch", &BOTH);
    let parts = ["ADW", "ERP"].map(|of| (pool(of), bench.ticket(of, "batch").unwrap().id)).to_vec();
    for of in ["ADW", "ERP"] {
        bench.release_in(of, "other");
    }
    bench.release_in("ERP", "batch");

    let answer = bench.one(Command::Claim { parts });

    assert_eq!(answer, Answer::Gone);
    assert_eq!(bench.states("batch"), [Some(State::Granted), None]);
}

#[test]
fn units_that_are_not_claimed_in_one_pool_come_back_in_all() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.configure("ERP", |settings| settings.claim_for = Duration::from_secs(3_600));
    bench.ask_all("other", &BOTH);
    bench.ask_all("batch", &BOTH);
    for of in ["ADW", "ERP"] {
        bench.release_in(of, "other");
    }
    bench.later(420);
    let ticket = bench.ticket("ADW", "batch").unwrap().id;
    let lapsed = Command::Lapsed { pool: pool("ADW"), ticket };

    assert_eq!(bench.narrow("ADW", lapsed.clone()), Answer::Wider(BTreeSet::from([pool("ERP")])));
    assert_eq!(bench.one(lapsed), Answer::Done);

    assert_eq!(bench.states("batch"), [None, None], "who asks again stands in both queues");
}

#[test]
fn a_further_pool_does_not_take_away_what_is_there() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask("batch", 4);
    bench.ask_all("other", &[("ERP", 4)]);

    let answer = bench.ask_all("batch", &BOTH);

    assert_eq!(waits(&answer).pool, pool("ERP"));
    assert_eq!(bench.states("batch"), [Some(State::Running), Some(State::Waiting)]);
    bench.release_in("ERP", "other");
    assert_eq!(admitted(&bench.ask_all("batch", &BOTH)), [4, 4]);
}

#[test]
fn the_pool_that_became_too_small_is_named_even_if_another_comes_first() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &BOTH);
    let wish = bench.wish("batch", &BOTH);
    let mut settings = Box::new(bench.made[&pool("ERP")].clone());
    settings.max_units = 1;

    let answers = bench.run(&[Command::Acquire(Box::new(wish)), Command::Configure { settings, by: None }]);

    assert_eq!(answers[0], Answer::Refused { pool: pool("ERP"), reason: Reason::ExceedsPool });
}

#[test]
fn a_wider_pass_is_wide_enough() {
    let all = [("ADW", 4), ("ERP", 4), ("HR", 4)];
    let mut bench = Bench::of(&all);
    bench.ask_all("other", &all);
    bench.ask_all("batch", &all);
    let hr = bench.ledgers.remove(&pool("HR")).unwrap();

    let answer = bench.release_in("ADW", "batch");

    assert_eq!(answer, Answer::Wider(BTreeSet::from([pool("ERP"), pool("HR")])));
    bench.release_in("ADW", "other");
    assert_eq!(bench.last.wider, all.iter().map(|(name, _)| pool(name)).collect());
    bench.ledgers.insert(pool("HR"), hr);
    bench.look("HR");
    assert_eq!(bench.states("batch"), [Some(State::Waiting); 2], "ERP and HR are full");
}

#[test]
fn of_several_pools_the_one_is_named_that_takes_longest() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    for (of, took) in [("ADW", 400), ("ERP", 4_000)] {
        bench.ask_all("other", &[(of, 4)]);
        bench.later(took);
        bench.release_in(of, "other");
    }
    bench.ask_all("other", &BOTH);

    for dag in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let answer = bench.ask_all(dag, &BOTH);
        assert_eq!(waits(&answer).pool, pool("ERP"), "whatever seconds its tickets are told");
    }
}

/// `wide` is the first in the queue of ADW and does not fit; `both` is behind it.
fn behind_a_wide_request() -> Bench {
    let mut bench = Bench::with(Policy::Adaptive, &[("ADW", 20), ("ERP", 4)]);
    for (dag, parallel) in [("long", 14), ("other", 6), ("wide", 18)] {
        let mut wish = bench.wish(dag, &[("ADW", parallel)]);
        wish.parts[0].least = NonZeroU32::new(parallel);
        bench.acquire(wish);
    }
    bench.ask_all("both", &[("ADW", 2), ("ERP", 4)]);
    bench
}

#[test]
fn a_pass_over_one_pool_asks_for_the_others_if_a_request_might_start_early() {
    let mut bench = behind_a_wide_request();
    bench.narrow("ADW", release_of("ADW", "other"));

    assert_eq!(bench.last.wider, BTreeSet::from([pool("ADW"), pool("ERP")]));
    bench.look("ADW");
    assert_eq!(bench.states("both"), [Some(State::Granted); 2]);
    assert_eq!(bench.states("wide"), [Some(State::Waiting), None]);
}

fn pass_over(ledgers: &mut BTreeMap<PoolName, Ledger>, now: Timestamp) -> Pass<'_> {
    Pass {
        ledgers,
        now,
        pace: Pace::default(),
        present: BTreeMap::new(),
        levels: BTreeMap::new(),
        queues: BTreeMap::new(),
        outcome: Outcome::default(),
    }
}

#[test]
fn who_has_no_room_in_another_pool_is_held_before_the_policies_decide() {
    let mut bench = Bench::with(Policy::Adaptive, &[("ADW", 100), ("ERP", 4)]);
    bench.ask_all("other", &[("ERP", 4)]);
    for number in 0..40 {
        bench.ask_all(&format!("both-{number}"), &[("ADW", 2), ("ERP", 2)]);
    }
    let mut ledgers = bench.ledgers.clone();
    let pass = pass_over(&mut ledgers, bench.now);

    let holds = pass.holds();

    assert_eq!(holds.held.len(), 40, "in ADW; in ERP nothing is offered");
    let offers = pass.offers(&pass.claimants(), &holds);
    assert_eq!(pass.partly_offered(&offers), BTreeSet::new(), "one round is enough");
}

#[test]
fn requests_that_another_pool_keeps_back_take_few_rounds() {
    let mut bench = Bench::with(Policy::Adaptive, &[("ADW", 20), ("ERP", 4)]);
    bench.ask("long", 10);
    bench.ask_whole("wide", &[("ADW", 18)]);
    bench.later(24 * 3_600);
    for number in 0..40 {
        bench.ask_all(&format!("both-{number}"), &[("ADW", 2), ("ERP", 2)]);
    }
    let mut ledgers = bench.ledgers.clone();
    let pass = pass_over(&mut ledgers, bench.now);
    let mut holds = pass.holds();
    assert!(holds.held.is_empty(), "there is room in both: only the order of ADW keeps them back");

    let (offers, rounds) = pass.agreed_offers(&pass.claimants(), &mut holds);

    assert!(offers.values().all(Vec::is_empty), "ADW drains for `wide`: {offers:?}");
    assert!(rounds <= 10, "{rounds}");
    assert_eq!(admitted(&bench.ask_all("other", &[("ERP", 2)])), [2], "nobody else waits for them");
}

#[test]
fn a_pass_over_one_pool_asks_whether_another_stops_the_request_that_others_wait_for() {
    let mut bench = Bench::with(Policy::Adaptive, &[("ADW", 20), ("ERP", 20)]);
    bench.ask("long", 10);
    bench.pause("ERP", true);
    bench.ask_whole("both", &[("ADW", 16), ("ERP", 16)]);
    // It would end after `long`, so it would delay `both`.
    bench.later(60);
    let mut wish = bench.wish("small", &[("ADW", 8)]);
    wish.parts[0].least = wish.parts[0].parallel;

    waits(&bench.narrow("ADW", Command::Acquire(Box::new(wish))));

    assert_eq!(bench.last.wider, BTreeSet::from([pool("ADW"), pool("ERP")]));
    bench.look("ADW");
    assert_eq!(bench.has("small"), Some(8));
    assert_eq!(bench.states("both"), [Some(State::Waiting); 2]);
}

#[test]
fn nothing_is_kept_free_for_a_request_that_a_paused_pool_stops() {
    let mut bench = Bench::with(Policy::Adaptive, &[("ADW", 20), ("ERP", 20)]);
    bench.pause("ERP", true);
    bench.ask_all("both", &[("ADW", 16), ("ERP", 16)]);
    for number in 0..=OVERTAKES_MAX {
        let dag = format!("small-{number}");
        assert_eq!(admitted(&bench.ask(&dag, 16)), [16], "{dag}");
        bench.release(&dag);
    }
    assert_eq!(waits(&bench.ask_all("both", &[("ADW", 16), ("ERP", 16)])).position, 1, "it keeps its place");
    // A holder behind it gets more, too.
    bench.ask("holder", 4);
    assert_eq!(admitted(&bench.ask("holder", 8)), [8]);
    bench.release("holder");

    bench.pause("ERP", false);

    assert_eq!(bench.states("both"), [Some(State::Granted); 2]);
}
