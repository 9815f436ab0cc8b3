//! One pass at a time. After every pass the log is audited as well.

mod acquire;
mod adaptive;
mod breaker;
mod give_back;
mod lapse;
mod limit;
mod more;
mod queue;
mod several;

use super::*;
use crate::lease::Epoch;
use crate::pool::command::{Acquire, Part, Release, ReleaseBy, Released, Waits};
use crate::pool::event::End;
use crate::pool::replay::tests::replay;
use crate::pool::tests::some;
use crate::pool::{Class, Holder, Policy, Settings};
use std::num::NonZeroU32;
use std::time::Duration;

fn pool(text: &str) -> PoolName {
    text.parse().unwrap()
}

fn run_of(dag: &str) -> Holder {
    Holder::run(dag, "scheduled__2026-11-15T00:05:00+00:00").unwrap()
}

/// Some pools and a clock, with short methods for commands.
struct Bench {
    ledgers: BTreeMap<PoolName, Ledger>,
    made: BTreeMap<PoolName, Settings>,
    log: BTreeMap<PoolName, Vec<Record>>,
    now: Timestamp,
    ids: u128,
    last: Outcome,
}

impl Bench {
    /// Pools with a limit of 100 % and a minimum of 2 that serve strictly in order.
    fn of(pools: &[(&str, u32)]) -> Self {
        Self::with(Policy::Halving, pools)
    }

    fn with(policy: Policy, pools: &[(&str, u32)]) -> Self {
        let made: BTreeMap<PoolName, Settings> = pools
            .iter()
            .map(|(name, units)| {
                (pool(name), Settings { policy, threshold_percent: 100, ..Settings::new(pool(name), *units) })
            })
            .collect();
        let ledgers =
            made.iter().map(|(name, settings)| (name.clone(), Ledger::new(settings.clone(), 0))).collect();
        let now = "2026-11-16T01:00:00Z".parse().unwrap();
        Self { ledgers, made, log: BTreeMap::new(), now, ids: 0, last: Outcome::default() }
    }

    /// One pass, after which the log must lead to the same state.
    fn run(&mut self, commands: &[Command]) -> Vec<Answer> {
        self.last = pass(&mut self.ledgers, self.now, Pace::default(), commands).unwrap();
        for (pool, records) in &self.last.records {
            self.log.entry(pool.clone()).or_default().extend(records.iter().cloned());
        }
        for (pool, ledger) in &self.ledgers {
            let records = self.log.get(pool).map_or(&[][..], Vec::as_slice);
            let audit = replay(&self.made[pool], records).unwrap();
            assert_eq!(audit.ledger, *ledger, "the log of {pool}");
            assert_eq!(audit.violations, [], "the log of {pool}");
            assert_eq!(audit.ledger.usage(), ledger.usage(), "the log of {pool}");
        }
        self.last.answers.clone()
    }

    fn one(&mut self, command: Command) -> Answer {
        self.run(&[command]).pop().unwrap()
    }

    fn later(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
    }

    fn look(&mut self, of: &str) {
        self.one(Command::Look { pool: pool(of) });
    }

    fn id(&mut self) -> TicketId {
        self.ids += 1;
        crate::pool::tests::id(self.ids)
    }

    /// The request of a DAG's run.
    fn wish(&mut self, dag: &str, parts: &[(&str, u32)]) -> Acquire {
        let request = self.id();
        let parts = parts
            .iter()
            .map(|(name, parallel)| Part {
                pool: pool(name),
                ticket: self.id(),
                parallel: NonZeroU32::new(*parallel),
                sessions: None,
                least: None,
            })
            .collect();
        Acquire { table: "SALES_ORDER".to_owned(), ..Acquire::new(request, run_of(dag), parts) }
    }

    fn acquire(&mut self, wish: Acquire) -> Answer {
        self.one(Command::Acquire(Box::new(wish)))
    }

    /// Asks for units of ADW.
    fn ask(&mut self, dag: &str, parallel: u32) -> Answer {
        let wish = self.wish(dag, &[("ADW", parallel)]);
        self.acquire(wish)
    }

    fn give_back(&mut self, by: ReleaseBy, epoch: Option<Epoch>) -> Answer {
        let end = End::Released { failed: false };
        self.one(Command::Release(Box::new(Release { pool: pool("ADW"), by, epoch, end, call: None })))
    }

    /// Releases what a DAG's run has of ADW.
    fn release(&mut self, dag: &str) -> Answer {
        self.give_back(ReleaseBy::Holder(run_of(dag)), None)
    }

    fn lapsed(&mut self, of: &str, dag: &str) -> Answer {
        let ticket = self.ticket(of, dag).unwrap().id;
        self.one(Command::Lapsed { pool: pool(of), ticket })
    }

    fn configure(&mut self, of: &str, change: impl FnOnce(&mut Settings)) -> Answer {
        let mut settings = Box::new(self.ledgers[&pool(of)].settings().clone());
        change(&mut settings);
        self.one(Command::Configure { settings, by: None })
    }

    fn ticket(&self, of: &str, dag: &str) -> Option<&Ticket> {
        self.ledgers[&pool(of)].of_holder(&run_of(dag))
    }

    /// What a DAG's run has of ADW; none in the queue or without a ticket.
    fn has(&self, dag: &str) -> Option<u32> {
        self.ticket("ADW", dag).and_then(|ticket| ticket.granted).map(NonZeroU32::get)
    }

    fn usage(&self, of: &str) -> u64 {
        self.ledgers[&pool(of)].usage()
    }
}

/// What was admitted, in each pool.
fn admitted(answer: &Answer) -> Vec<u32> {
    let Answer::Admitted { parts, .. } = answer else { panic!("not admitted: {answer:?}") };
    parts.iter().map(|part| part.ticket.granted.unwrap().get()).collect()
}

fn waits(answer: &Answer) -> &Waits {
    let Answer::Waits(waits) = answer else { panic!("does not wait: {answer:?}") };
    waits
}

fn released(answer: &Answer) -> &Released {
    let Answer::Released(released) = answer else { panic!("no release: {answer:?}") };
    released
}
