//! Requests for several pools: all or nothing.

use super::*;
use crate::pool::{Reason, State};

const BOTH: [(&str, u32); 2] = [("ADW", 4), ("ERP", 4)];

impl Bench {
    fn ask_all(&mut self, dag: &str, parts: &[(&str, u32)]) -> Answer {
        let wish = self.wish(dag, parts);
        self.acquire(wish)
    }

    /// A pass over one pool only.
    fn narrow(&mut self, of: &str, command: Command) -> Answer {
        let name = pool(of);
        let mut ledgers = BTreeMap::from([(name.clone(), self.ledgers[&name].clone())]);
        self.last = pass(&mut ledgers, self.now, Pace::default(), &[command]).unwrap();
        self.log.entry(name.clone()).or_default().extend(self.last.records.remove(&name).unwrap_or_default());
        self.ledgers.append(&mut ledgers);
        self.last.answers.pop().unwrap()
    }

    fn release_of(&mut self, of: &str, dag: &str) -> Command {
        let (by, end) = (ReleaseBy::Holder(run_of(dag)), End::Released { failed: false });
        Command::Release(Box::new(Release { pool: pool(of), by, epoch: None, end, call: None }))
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

    let release = bench.release_of("ERP", "other");
    bench.one(release);
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
        let release = bench.release_of(of, "other");
        bench.one(release);
    }

    assert_eq!(bench.states("forth"), [Some(State::Granted); 2]);
    for of in ["ADW", "ERP"] {
        let release = bench.release_of(of, "forth");
        bench.one(release);
    }
    assert_eq!(bench.states("back"), [Some(State::Granted); 2]);
}

#[test]
fn a_pass_over_too_few_pools_asks_for_a_wider_one() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &[("ADW", 4)]);
    bench.ask_all("batch", &BOTH);
    let release = bench.release_of("ADW", "other");

    bench.narrow("ADW", release);

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
    let release = bench.release_of("ADW", "batch");

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
    let release = bench.release_of("ADW", "batch");

    bench.narrow("ADW", release);

    assert_eq!(bench.states("batch"), [None, Some(State::Running)]);
}

#[test]
fn a_claim_of_what_is_partly_gone_claims_nothing() {
    let mut bench = Bench::of(&[("ADW", 4), ("ERP", 4)]);
    bench.ask_all("other", &BOTH);
    bench.ask_all("batch", &BOTH);
    let parts = ["ADW", "ERP"].map(|of| (pool(of), bench.ticket(of, "batch").unwrap().id)).to_vec();
    for of in ["ADW", "ERP"] {
        let release = bench.release_of(of, "other");
        bench.one(release);
    }
    let release = bench.release_of("ERP", "batch");
    bench.one(release);

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
        let release = bench.release_of(of, "other");
        bench.one(release);
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
    let release = bench.release_of("ERP", "other");
    bench.one(release);
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

    let release = bench.release_of("ADW", "batch");
    let answer = bench.one(release);

    assert_eq!(answer, Answer::Wider(BTreeSet::from([pool("ERP"), pool("HR")])));
    let release = bench.release_of("ADW", "other");
    bench.one(release);
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
        let release = bench.release_of(of, "other");
        bench.one(release);
    }
    bench.ask_all("other", &BOTH);

    for dag in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let answer = bench.ask_all(dag, &BOTH);
        assert_eq!(waits(&answer).pool, pool("ERP"), "whatever seconds its tickets are told");
    }
}
