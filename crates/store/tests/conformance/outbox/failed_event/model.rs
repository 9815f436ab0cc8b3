//! Random orders and attempts, on the database and by the rules alone: both have to agree after every one.

use super::operate::{edit, operate};
use super::{all, new, refused, waiting, write};
use crate::Bench;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tidemill_domain::outbox::failed_event::{
    self, Attempt, Attempted, FailedEvent, FailedEventFacts, FailedEventState, Original, Place, Settlement,
    Verb,
};
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::failed_event::{Selection, Settled, SettledAs};

crate::on_both![the_database_follows_the_rules];

const STEPS: usize = 150;
const AGGREGATES: [&str; 3] = ["a", "b", "c"];

/// The failed events by event, as the rules say; the aggregate of an event follows from its number.
#[derive(Default)]
struct Model {
    rows: BTreeMap<i64, FailedEvent>,
}

fn aggregate(id: i64) -> &'static str {
    AGGREGATES[usize::try_from(id).unwrap() % AGGREGATES.len()]
}

impl Model {
    fn first_open(&self, of: &str) -> Option<i64> {
        let mut open = self.rows.iter().filter(|(id, row)| aggregate(**id) == of && row.state.is_open());
        open.next().map(|(id, _)| *id)
    }

    fn promote(&mut self, of: &str, now: Timestamp) {
        if let Some(row) = self.first_open(of).and_then(|id| self.rows.get_mut(&id)) {
            row.state = failed_event::first(row.state, now);
        }
    }

    fn except(&mut self, id: i64, asked: FailedEventState, attempts: u32, now: Timestamp) {
        let place = if self.first_open(aggregate(id)).is_some() { Place::Behind } else { Place::First };
        let state = failed_event::admitted(asked, place, now);
        self.rows.entry(id).or_insert(FailedEvent { state, attempts, revision: 0 });
    }

    fn operate(&mut self, id: i64, verb: &Verb, now: Timestamp) -> bool {
        let Some(failed_event) = self.rows.get(&id).copied() else { return false };
        let held = failed_event.state == FailedEventState::Held;
        let behind = self.first_open(aggregate(id)).filter(|_| held).map(EventId::new);
        let order = failed_event::operate(
            FailedEventFacts { failed_event, behind, original: Original::Kept },
            verb,
            now,
        );
        if let Ok(after) = order {
            self.rows.insert(id, after);
        }
        self.promote(aggregate(id), now);
        order.is_ok()
    }

    fn settle(&mut self, settled: &[Settled], now: Timestamp) {
        for of in AGGREGATES {
            let here = settled.iter().filter(|one| aggregate(one.event_id.get()) == of);
            let (mut ids, mut attempts) = (Vec::new(), Vec::new());
            for one in here {
                let attempt = match &one.what {
                    SettledAs::Delivered => Attempt::Delivered,
                    SettledAs::Refused { state, .. } => Attempt::Refused(*state),
                };
                ids.push(one.event_id.get());
                let failed_event = self.rows.get(&one.event_id.get()).copied();
                attempts.push(Attempted { failed_event, seen: one.revision, attempt });
            }
            for (id, settlement) in ids.iter().zip(failed_event::settle(&attempts, now)) {
                match settlement {
                    Settlement::Left => {}
                    Settlement::Gone => drop(self.rows.remove(id)),
                    Settlement::Now(after) => drop(self.rows.insert(*id, after)),
                }
            }
            self.promote(of, now);
        }
    }
}

/// Numbers that look random and follow from the seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most.max(1)
    }

    fn verb(&mut self) -> Verb {
        match self.below(3) {
            0 => Verb::Skip,
            1 => Verb::Replay,
            _ => edit("{}"),
        }
    }
}

async fn the_database_follows_the_rules(bench: Bench) {
    let seed = RandomState::new().hash_one(0);
    let mut dice = Dice(seed);
    let mut model = Model::default();
    let mut next = 0;
    write(&bench, &["a"; STEPS]).await;
    for step in 0..STEPS {
        let now = bench.now();
        match dice.below(6) {
            0..=2 => {
                next += 1;
                let asked = match dice.below(3) {
                    0 => waiting(now),
                    1 => FailedEventState::Parked,
                    _ => FailedEventState::Held,
                };
                let row = new(next, aggregate(next), asked);
                model.except(next, asked, row.attempts, now);
                super::except(&bench, &[row]).await;
            }
            3 => {
                let (id, verb) =
                    (i64::try_from(dice.below(next.unsigned_abs() + 1)).unwrap() + 1, dice.verb());
                let operated = operate(&bench, &Selection::One(EventId::new(id)), &verb, 1).await;
                assert_eq!(
                    model.operate(id, &verb, now),
                    operated.changed.len() == 1,
                    "seed {seed}, step {step}"
                );
            }
            _ => attempt(&bench, &mut model, &mut dice).await,
        }
        let stored = all(&bench).await;
        let stored: BTreeMap<i64, FailedEvent> =
            stored.into_iter().map(|one| (one.id.get(), one.failed_event)).collect();
        assert_eq!(stored, model.rows, "seed {seed}, step {step}");
        bench.advance(Duration::from_millis(300));
    }
}

/// Tries what is due, while an operator may come in between.
async fn attempt(bench: &Bench, model: &mut Model, dice: &mut Dice) {
    let sent = super::due(bench, 2, 6).await;
    let now = bench.now();
    if let Some(event) = sent.events.first()
        && dice.below(2) == 0
    {
        let (id, verb) = (event.id, dice.verb());
        let operated = operate(bench, &Selection::One(id), &verb, 1).await;
        assert_eq!(model.operate(id.get(), &verb, now), operated.changed.len() == 1);
    }
    let mut settled: Vec<Settled> = Vec::new();
    let mut refused_of: Vec<Slot> = Vec::new();
    for event in &sent.events {
        if refused_of.contains(&event.slot) {
            continue;
        }
        if dice.below(3) == 0 {
            refused_of.push(event.slot);
            let again = waiting(now.plus(Duration::from_secs(1)));
            settled.push(refused(event, if dice.below(3) == 0 { FailedEventState::Parked } else { again }));
        } else {
            settled.push(super::delivered(event));
        }
    }
    model.settle(&settled, now);
    super::settle(bench, &settled).await;
}
