//! The pools, the clock, and what a store would keep.

use super::seats::Seats;
use super::{Random, record};
use crate::pool::estimate::Pace;
use crate::pool::pass::{Outcome, expires_at, pass};
use crate::pool::replay::tests::replay;
use crate::pool::settings::Capacity;
use crate::pool::{
    Answer, Command, Holder, Ledger, Policy, PoolName, Record, Settings, TicketId, WeightModel,
};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;
use uuid::Uuid;

/// Events, ends and answers that must have happened.
const EVERYTHING: &str = "configured, breaker, enqueued, asked, granted, estimated, claimed, unclaimed, reacquired, \
    resized, wanted, doubted, confirmed, ended, released, released_failed, released_refused, by_operator, by_probe, \
    held_too_long, stopped_asking, gave_up, exceeds_pool, admitted, waits, refused, answered released, alive, gone, \
    done, wider for a command, wider for a turn";

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Timestamp,
    pub(super) ledgers: BTreeMap<PoolName, Ledger>,
    pub(super) seats: BTreeMap<PoolName, Seats>,
    pub(super) names: Vec<PoolName>,
    pub(super) holders: Vec<Holder>,
    /// When the time of each live ticket is over, as it is stored.
    pub(super) expires: BTreeMap<TicketId, Timestamp>,
    /// Commands to be repeated.
    pub(super) kept: Vec<Command>,
    pub(super) commands: u64,
    ids: u128,
    logs: BTreeMap<PoolName, Vec<Record>>,
    seen: BTreeMap<&'static str, u64>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let now = "2026-11-15T00:00:00Z".parse().unwrap();
        let made = settings();
        let holders = (0..60)
            .map(|index| {
                let (dag, run) = (format!("batch_{}", index % 12), format!("run_{}", index / 24));
                Holder::new(&dag, &run, "extract", index / 12).unwrap()
            })
            .collect();
        let ledger = |settings: &Settings| (settings.name.clone(), Ledger::new(settings.clone(), 0));
        let seats = |settings: &Settings| (settings.name.clone(), Seats::new(settings.clone()));
        let mut world = Self {
            random: Random::new(seed),
            now,
            ledgers: made.iter().map(ledger).collect(),
            seats: made.iter().map(seats).collect(),
            names: made.iter().map(|settings| settings.name.clone()).collect(),
            holders,
            expires: BTreeMap::new(),
            kept: Vec::new(),
            commands: 0,
            ids: 0,
            logs: BTreeMap::new(),
            seen: BTreeMap::new(),
        };
        world.snapshot();
        world
    }

    pub(super) fn id(&mut self) -> TicketId {
        self.ids += 1;
        // Ids of one instant sort in any order.
        let mixed = u128::from(Random::new(u64::try_from(self.ids).unwrap()).next());
        TicketId::new(Uuid::from_u128((mixed << 64) | self.ids))
    }

    /// Time passes, commands are decided, and everything is checked.
    pub(super) fn step(&mut self) {
        let moves_on = if self.random.percent(2) { 900 } else { 12 };
        let micros = self.random.below(moves_on * 1_000_000);
        self.now = self.now.plus(Duration::from_micros(micros.into()));
        let count = 1 + self.random.below(8).max(self.random.below(8)).max(self.random.below(8));
        let focus = self.random.pick(&self.names).clone();
        let commands: Vec<Command> = (0..count).map(|_| self.command(&focus)).collect();
        let mut pools: BTreeSet<PoolName> = commands.iter().flat_map(Command::pools).collect();
        if self.random.percent(20) {
            pools.extend(self.names.iter().cloned());
        }
        let mut outcome = self.run(&pools, &commands);
        for (command, answer) in commands.iter().zip(&outcome.answers) {
            if let Answer::Wider(more) = answer {
                *self.seen.entry("wider for a command").or_default() += 1;
                // A later command of its pass may have made it need more pools; their number is limited.
                let mut all: BTreeSet<PoolName> = command.pools().union(more).cloned().collect();
                let mut again = self.run(&all, std::slice::from_ref(command));
                while let Answer::Wider(more) = &again.answers[0] {
                    assert!(!more.is_subset(&all), "{command:?}");
                    all.extend(more.iter().cloned());
                    again = self.run(&all, std::slice::from_ref(command));
                }
                self.turn_widely(again.wider);
            }
        }
        self.turn_widely(std::mem::take(&mut outcome.wider));
        // Another command in between may have ended it.
        let is_quiet = self.random.percent(20)
            && !outcome.answers.iter().any(|answer| matches!(answer, Answer::Wider(_)));
        if let (Some(command @ Command::Acquire(_)), Some(answer), true) =
            (commands.last(), outcome.answers.last(), is_quiet)
        {
            self.repeat(command, answer);
        }
    }

    /// One pass over some pools; the others are not there.
    fn run(&mut self, pools: &BTreeSet<PoolName>, commands: &[Command]) -> Outcome {
        self.commands += u64::try_from(commands.len()).unwrap();
        let (inside, outside): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.ledgers).into_iter().partition(|(pool, _)| pools.contains(pool));
        self.ledgers = inside;
        let mut outcome = pass(&mut self.ledgers, self.now, Pace::default(), commands).unwrap();
        self.ledgers.extend(outside);
        for (pool, records) in &outcome.records {
            for record in records {
                self.seats.get_mut(pool).unwrap().follow(record);
                *self.seen.entry(record.event.kind()).or_default() += 1;
            }
        }
        for (pool, records) in std::mem::take(&mut outcome.records) {
            self.logs.get_mut(&pool).unwrap().extend(records);
        }
        for end in outcome.ends.values() {
            *self.seen.entry(end.as_str()).or_default() += 1;
        }
        for answer in &outcome.answers {
            *self.seen.entry(word(answer)).or_default() += 1;
        }
        for (pool, tickets) in &outcome.tickets {
            for ticket in tickets.values().filter(|ticket| !outcome.unheard.contains(&ticket.id)) {
                match expires_at(ticket, self.ledgers[pool].settings(), self.now) {
                    Some(at) => self.expires.insert(ticket.id, at),
                    None => self.expires.remove(&ticket.id),
                };
            }
        }
        assert_eq!(outcome.answers.len(), commands.len());
        self.check(pools, &outcome);
        outcome
    }

    fn turn_widely(&mut self, mut wider: BTreeSet<PoolName>) {
        let mut pools = BTreeSet::new();
        while !wider.is_subset(&pools) {
            *self.seen.entry("wider for a turn").or_default() += 1;
            pools.append(&mut wider);
            wider = self.run(&pools, &[]).wider;
        }
        assert_eq!(wider, BTreeSet::new(), "it has all of these pools");
    }

    /// Asking once more changes nothing.
    fn repeat(&mut self, command: &Command, first: &Answer) {
        let again = self.asked_again(command);
        let mut outcome = self.run(&again.pools(), &[again]);
        match (first, outcome.answers.pop().unwrap()) {
            (Answer::Admitted { parts: before, .. }, Answer::Admitted { parts: after, is_duplicate }) => {
                assert!(is_duplicate);
                for (before, after) in before.iter().zip(&after) {
                    let (before, after) = (&before.ticket, &after.ticket);
                    assert_eq!(before.id, after.id);
                    // A wider turn in between may have granted its larger request.
                    let more = before.upgrade.map(|upgrade| upgrade.parallel);
                    assert!(
                        after.granted == before.granted || after.granted == more,
                        "{before:?}, {after:?}"
                    );
                    assert!(before.epoch < after.epoch);
                }
            }
            (Answer::Waits(before), Answer::Waits(after)) => {
                assert_eq!(before.tickets, after.tickets);
                let is_same_pool = before.pool == after.pool;
                assert!(!is_same_pool || after.position <= before.position, "{before:?}, then {after:?}");
                assert!((30..=300).contains(&after.wait_seconds));
                assert!(after.estimate.is_none_or(|estimate| estimate.p50 <= estimate.p90));
            }
            // A wider turn in between may have let it start.
            (Answer::Waits(_), Answer::Admitted { .. }) => {}
            (Answer::Refused { .. }, after) => assert_eq!(*first, after),
            // Another part of its request ended in the same pass, so it has to start again.
            (Answer::Gone, _) => {}
            (before, after) => panic!("first {before:?}, then {after:?}"),
        }
        self.turn_widely(outcome.wider);
    }

    /// Replays the logs, which must end in the current state, and begins new ones.
    pub(super) fn audit(&mut self) {
        self.check_all();
        for (pool, log) in &self.logs {
            let ledger = &self.ledgers[pool];
            let audit = replay(ledger.settings(), log).unwrap();
            assert_eq!(audit.ledger, *ledger);
            assert_eq!(audit.violations, [], "{pool}");
            assert_eq!((audit.ledger.usage(), audit.ledger.version()), (ledger.usage(), ledger.version()));
        }
        self.snapshot();
    }

    fn snapshot(&mut self) {
        for (pool, ledger) in &self.ledgers {
            let first = Record { version: ledger.version(), ..record(self.now, ledger.snapshot()) };
            self.logs.insert(pool.clone(), vec![first]);
        }
    }

    /// Whether every kind of event happened often enough.
    pub(super) fn saw_everything(&self) {
        for word in EVERYTHING.split(", ") {
            let seen = self.seen.get(word).copied().unwrap_or_default();
            assert!(seen > 20, "{word}: {seen} of {:?}", self.seen);
        }
    }
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Admitted { .. } => "admitted",
        Answer::Waits(_) => "waits",
        Answer::Refused { .. } => "refused",
        Answer::Released(_) => "answered released",
        Answer::Alive => "alive",
        Answer::Gone => "gone",
        Answer::KeyReused => "key reused",
        Answer::Done => "done",
        Answer::Wider(_) => "wider",
    }
}

/// An adaptive pool, one of all or nothing, one that counts servers and halves, and one that is larger at night.
fn settings() -> [Settings; 4] {
    let new = |name: &str, max_units| Settings::new(name.parse().unwrap(), max_units);
    let some = |number| NonZeroU32::new(number).unwrap();
    let mut night = new("NIGHT", 40);
    night.capacity = vec![Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 120 }];
    night.max_hold = Duration::from_secs(1_800);
    night.claim_for = Duration::from_secs(30);
    night.min_units = some(1);
    [
        new("ADW", 200),
        Settings { policy: Policy::Fifo, threshold_percent: 100, ..new("ERP", 100) },
        Settings {
            policy: Policy::Halving,
            weight: WeightModel::Px,
            default_units: some(4),
            ..new("PX", 400)
        },
        night,
    ]
}
