//! What is counted for passes of the domain.

use super::*;
use std::num::NonZeroU32;
use tidemill_domain::pool::command::{Acquire, Part, Release, ReleaseBy};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::pass::{STOPPED_ASKING, pass};
use tidemill_domain::pool::{Holder, Ledger, Settings};
use tidemill_domain::time::Timestamp;
use uuid::Uuid;

/// A pool of ten units, and the domain that decides about it.
struct Night {
    ledgers: BTreeMap<PoolName, Ledger>,
    now: Timestamp,
    next: u128,
}

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

impl Night {
    fn new() -> Self {
        let mut settings = Settings::new(adw(), 10);
        settings.threshold_percent = 100;
        let ledgers = BTreeMap::from([(adw(), Ledger::new(settings, 0))]);
        Self { ledgers, now: Timestamp::EPOCH, next: 0 }
    }

    fn acquire(&mut self, pool: &str, run: &str, asked: u32, least: u32) -> Command {
        self.next += 1;
        let id = TicketId::new(Uuid::from_u128(self.next));
        let part = Part {
            pool: pool.parse().unwrap(),
            ticket: id,
            parallel: NonZeroU32::new(asked),
            sessions: None,
            least: NonZeroU32::new(least),
        };
        Command::Acquire(Box::new(Acquire::new(id, Holder::run("dag", run).unwrap(), vec![part])))
    }

    fn pass(&mut self, commands: &[Command]) -> BTreeMap<PoolName, Sums> {
        let outcome = pass(&mut self.ledgers, self.now, Pace::default(), commands).unwrap();
        let sums = |(pool, (sums, waits)): (PoolName, Tally)| {
            assert_eq!((waits.len() as u64, waits.iter().sum::<Duration>()), (sums.waited, sums.wait));
            (pool, sums)
        };
        happened(commands, &outcome).into_iter().map(sums).collect()
    }

    fn of_adw(&mut self, commands: &[Command]) -> Sums {
        self.pass(commands).remove(&adw()).unwrap_or_default()
    }

    fn ask(&mut self, run: &str, asked: u32, least: u32) -> Sums {
        let command = self.acquire("ADW", run, asked, least);
        self.of_adw(&[command])
    }

    fn give_back(&mut self, run: &str, end: End) -> Sums {
        let by = ReleaseBy::Run { dag_id: "dag".into(), run_id: run.into() };
        let release = Release { pool: adw(), by, epoch: None, end, call: None };
        self.of_adw(&[Command::Release(Box::new(release))])
    }

    fn ticket(&self, run: &str) -> TicketId {
        self.ledgers[&adw()].of_holder(&Holder::run("dag", run).unwrap()).unwrap().id
    }
}

const RELEASED: End = End::Released { failed: false };

#[test]
fn who_gets_all_at_once_is_allowed_and_who_gets_less_is_downgraded() {
    let mut night = Night::new();

    assert_eq!(night.ask("a", 6, 6), Sums { requests: 1, allowed: 1, ..Sums::default() });
    assert_eq!(night.ask("b", 8, 2), Sums { requests: 1, downgraded: 1, ..Sums::default() });
}

#[test]
fn who_asks_again_is_no_new_request() {
    let mut night = Night::new();
    night.ask("a", 6, 6);
    night.ask("waits", 6, 6);

    assert_eq!(night.ask("a", 6, 6), Sums::default());
    assert_eq!(night.ask("waits", 6, 6), Sums::default());
}

#[test]
fn who_waited_is_counted_with_its_wait_also_when_it_got_less() {
    let mut night = Night::new();
    night.ask("a", 6, 6);
    assert_eq!(night.ask("b", 16, 8), Sums { requests: 1, ..Sums::default() });
    night.now = night.now.plus(Duration::from_secs(45));

    let sums = night.give_back("a", RELEASED);

    let wait = Duration::from_secs(45);
    assert_eq!(sums, Sums { waited: 1, downgraded: 1, wait, ..Sums::default() });
}

#[test]
fn who_leaves_the_queue_by_itself_has_timed_out_and_nobody_else() {
    let mut night = Night::new();
    for run in ["holds", "gives up", "taken out", "silent"] {
        night.ask(run, 10, 10);
    }
    let one = Sums { timeouts: 1, ..Sums::default() };

    let by_operator = End::ByOperator { by: "ann".into(), reason: "not tonight".into() };
    assert_eq!(night.give_back("taken out", by_operator), Sums::default());
    assert_eq!(night.give_back("gives up", RELEASED), one);
    let silent = night.ticket("silent");
    night.now = night.now.plus(STOPPED_ASKING).plus(Duration::from_secs(1_000));
    assert_eq!(night.of_adw(&[Command::Lapsed { pool: adw(), ticket: silent }]), one);
    assert_eq!(night.give_back("holds", RELEASED), Sums::default());
}

#[test]
fn a_refusal_is_a_request_but_a_name_that_somebody_made_up_is_nothing() {
    let mut night = Night::new();
    let commands = [night.acquire("ADW", "a", 99, 99), night.acquire("made-up", "b", 1, 1)];

    let happened = night.pass(&commands);

    let refused = Sums { requests: 1, ..Sums::default() };
    assert_eq!(happened, BTreeMap::from([(adw(), refused)]));
}

#[test]
fn one_pass_over_many_counts_each() {
    let mut night = Night::new();
    let commands =
        [night.acquire("ADW", "a", 99, 99), night.acquire("ADW", "b", 6, 6), night.acquire("ADW", "c", 6, 6)];

    assert_eq!(night.of_adw(&commands), Sums { requests: 3, allowed: 1, ..Sums::default() });
}

#[test]
fn sums_are_fetched_once_and_know_the_average() {
    let mut sums = Sums::default();
    assert_eq!(sums.average_wait(), None);
    let wait = Duration::from_secs(30);
    sums.add(&Sums { requests: 2, waited: 2, wait, ..Sums::default() });
    sums.add(&Sums { requests: 1, timeouts: 1, ..Sums::default() });

    assert_eq!((sums.requests, sums.waited, sums.timeouts), (3, 2, 1));
    assert_eq!(sums.average_wait(), Some(Duration::from_secs(15)));
}
