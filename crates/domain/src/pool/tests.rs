//! A million random commands on a few pools, in passes of one to eight, some of them twice and out of order. After every
//! pass the state is checked with independent code; from time to time the log is
//! replayed and must end in the same state.

mod check;
mod command;
mod seats;
mod world;

use super::{Holder, Record, Ticket, TicketId};
use crate::time::Timestamp;
use std::num::NonZeroU32;
use std::time::Duration;
use uuid::Uuid;
use world::World;

pub(super) fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

pub(super) fn id(number: u128) -> TicketId {
    TicketId::new(Uuid::from_u128(number))
}

/// Seconds after 1970.
pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Duration::from_secs(seconds))
}

/// Of a run of the same number.
pub(super) fn ticket(number: u128, asked: u32, enqueued_at: Timestamp) -> Ticket {
    let holder = Holder::run("dag", &number.to_string()).unwrap();
    Ticket::new(id(number), holder, some(asked), enqueued_at)
}

pub(super) fn record(at: Timestamp, event: super::Event) -> Record {
    Record { version: 1, seq: 0, at, holder: None, event, summary: None }
}

/// Commands in all worlds together.
const COMMANDS: u64 = 1_000_000;

/// Each has its own random numbers; they run in parallel.
const SEEDS: [u64; 4] = [20_261_115, 2, 3, 4];

/// Passes after which the log is replayed, and a new one begins with a snapshot.
const PASSES_PER_LOG: u64 = 1_000;

#[test]
fn a_million_commands_leave_nothing_to_complain_about() {
    let commands_each = COMMANDS / 4;
    std::thread::scope(|scope| {
        for seed in SEEDS {
            scope.spawn(move || live(seed, commands_each));
        }
    });
}

fn live(seed: u64, commands: u64) {
    let mut world = World::new(seed);
    while world.commands < commands {
        for _ in 0..PASSES_PER_LOG {
            world.step();
        }
        world.audit();
    }
    world.saw_everything();
}

struct Random(super::simulate::random::Random);

impl Random {
    const fn new(seed: u64) -> Self {
        Self(super::simulate::random::Random::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// From 0 to `bound` - 1.
    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound.max(1))).unwrap()
    }

    /// True in `percent` of all cases.
    fn percent(&mut self, chance: u32) -> bool {
        self.below(100) < chance
    }

    fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        let index = self.below(u32::try_from(among.len()).unwrap());
        &among[usize::try_from(index).unwrap()]
    }
}
