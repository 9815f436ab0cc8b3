//! Relays come, go, crash, sleep and wake up in any order, each acting on what it saw some time ago, with the database
//! as the arbiter. Safety is checked after every command (`world.rs`): one owner per slot and epoch, epochs only grow,
//! no retired relay settles. Here: once no relay joins or ends, every slot has its owner within a lease and two turns,
//! shares are fair, and no slot moved needlessly.

mod database;
mod world;

use super::{Group, Instance, RelayId, Slot, Unit};
use database::LEASE;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use world::{Command, World};

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

/// Mostly without a fixed share; those with one sometimes agree and sometimes do not.
fn instance() -> impl Strategy<Value = Option<Instance>> {
    (0..4_u32, 4..7_u32, 0..8_u32).prop_map(|(id, total, kind)| match kind {
        0..5 => None,
        5..7 => Some(Instance::new(id, 4).unwrap()),
        _ => Some(Instance::new(id, total).unwrap()),
    })
}

fn unit() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Slot), Just(Unit::Group)]
}

/// Maps numbers instead of combining strategies, which is several times faster.
fn command() -> impl Strategy<Value = Command> {
    (0..40_u32, 0..100_usize, 1..2_000_u64, instance()).prop_map(|(kind, who, millis, instance)| match kind {
        0..6 => Command::Join(instance),
        6 => Command::Leave(who),
        7 => Command::Crash(who),
        8 => Command::Wait(Duration::from_millis(millis)),
        9 => Command::Sleep(who, Duration::from_millis(5 * millis)),
        10..16 => Command::Beat(who),
        _ => turn(kind, who),
    })
}

/// Actions of relays that neither join nor end.
fn turns() -> impl Strategy<Value = Vec<Command>> {
    prop::collection::vec((0..6_u32, 0..100_usize).prop_map(|(kind, who)| turn(kind, who)), 0..30)
}

fn turn(kind: u32, who: usize) -> Command {
    match kind % 6 {
        0 | 1 => Command::Look(who),
        2 | 3 => Command::Act(who),
        4 => Command::Begin(who),
        _ => Command::Acknowledge(who),
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn whatever_happens_all_slots_have_one_owner_soon_after(
        commands in prop::collection::vec(command(), 10..150),
        meanwhile in turns(),
        afterwards in turns(),
        first in 0..100_usize,
        unit in unit(),
    ) {
        let mut world = World::new(unit);
        for command in commands {
            world.step(command);
        }

        // No relay joins or ends from here on. One lease later silent relays have lapsed, and all that was begun
        // before that is done.
        survive_a_lease(&mut world, &meanwhile);
        for n in 0..world.programs.len() {
            world.step(Command::Act(n));
        }
        let before = owners(&world);
        let taken_before = world.database.takes;
        for turn in afterwards {
            world.step(turn);
        }
        take_turns(&mut world, first);
        take_turns(&mut world, first / 2);

        let moved = world.database.takes - taken_before;
        assert_eq!(moved, expected_moves(&world, &before), "more slots moved than had to");
        check_shares(&world);
    }

}

proptest! {
    #![proptest_config(cases(64))]

    /// From fair shares to fair shares: only slots of relays that end, or that a new one needs, move; none moves
    /// between two relays that stay.
    #[test]
    fn a_change_of_relays_moves_as_little_as_possible(
        count in 1..12_usize,
        joining in 0..6_usize,
        leaving in prop::collection::vec(0..100_usize, 0..4),
        crashing in prop::collection::vec(0..100_usize, 0..4),
        turns in turns(),
        first in 0..100_usize,
        unit in unit(),
    ) {
        let mut world = fair_world_of(count, unit);
        let before = owners(&world);
        let taken_before = world.database.takes;

        leaving.into_iter().for_each(|n| world.step(Command::Leave(n)));
        crashing.into_iter().for_each(|n| world.step(Command::Crash(n)));
        (0..joining).for_each(|_| world.step(Command::Join(None)));
        survive_a_lease(&mut world, &[]);
        for turn in turns {
            world.step(turn);
        }
        take_turns(&mut world, first);
        take_turns(&mut world, first);

        let staying: BTreeSet<RelayId> = world.programs.iter().map(|program| program.id).collect();
        let old: BTreeSet<RelayId> = before.values().copied().collect();
        for (slot, owner) in owners(&world) {
            let was = before[&slot];
            let is_pointless = was != owner && staying.contains(&was) && old.contains(&owner);
            prop_assert!(!is_pointless, "slot {} moved between two who stayed", slot);
        }
        prop_assert_eq!(world.database.takes - taken_before, expected_moves(&world, &before));
        check_shares(&world);
    }
}

#[test]
fn a_ghost_settles_nothing() {
    let mut world = fair_world(1);
    world.step(Command::Begin(0));
    world.step(Command::Wait(LEASE));
    world.step(Command::Join(None));
    world.step(Command::Look(1));
    world.step(Command::Act(1));

    world.step(Command::Acknowledge(0));
    world.step(Command::Begin(1));
    world.step(Command::Acknowledge(1));

    assert_eq!((world.settled, world.refused), (1, 1));
    assert!(
        world
            .database
            .slots()
            .all(|(_, row)| row.owner == Some(world.programs[1].id) && row.epoch.get() == 2)
    );
}

#[test]
fn a_ghost_lets_go_nothing_of_its_successor() {
    let mut world = fair_world(1);
    world.step(Command::Join(None));
    world.step(Command::Look(0));
    world.step(Command::Sleep(0, 2 * LEASE));
    world.step(Command::Look(1));
    world.step(Command::Act(1));

    world.step(Command::Act(0));

    let successor = world.programs[1].id;
    assert!(world.database.slots().all(|(_, row)| row.owner == Some(successor)));
}

#[test]
fn a_ghost_takes_nothing() {
    let mut world = World::new(Unit::Slot);
    world.step(Command::Join(None));
    world.step(Command::Join(None));
    world.step(Command::Look(0));
    world.step(Command::Sleep(0, 2 * LEASE));
    world.step(Command::Look(1));

    world.step(Command::Act(0));

    assert!(world.database.slots().all(|(_, row)| row.owner.is_none()));
}

#[test]
fn who_lapsed_is_a_ghost_before_anybody_noticed() {
    let mut world = fair_world(2);
    world.step(Command::Look(0));
    world.step(Command::Begin(0));
    world.step(Command::Wait(LEASE));

    world.step(Command::Beat(0));
    world.step(Command::Acknowledge(0));

    assert_eq!((world.settled, world.refused), (0, 1));
    assert!(world.database.live().is_empty());
}

#[test]
fn the_number_of_moves_is_known() {
    fn check(count: usize, joining: usize, leaving: usize, moves: usize) {
        let mut world = fair_world(count);
        let taken_before = world.database.takes;

        (0..joining).for_each(|_| world.step(Command::Join(None)));
        (0..leaving).for_each(|_| world.step(Command::Leave(0)));
        take_turns(&mut world, 0);
        take_turns(&mut world, 0);

        assert_eq!(world.database.takes - taken_before, moves, "{count} + {joining} - {leaving}");
        check_shares(&world);
    }

    check(3, 1, 0, 64);
    check(3, 2, 0, 102);
    check(4, 0, 1, 64);
    check(1, 1, 0, 128);
    check(5, 0, 0, 0);
}

#[test]
fn more_relays_than_slots_wait_for_their_turn() {
    let mut world = fair_world(260);
    let waiting = |world: &World| world.database.live().iter().filter(|relay| relay.slots == 0).count();

    let waited = waiting(&world);
    (0..5).for_each(|_| world.step(Command::Leave(0)));
    take_turns(&mut world, 0);

    assert_eq!((waited, waiting(&world)), (4, 0));
    check_shares(&world);
}

/// A world in which so many relays share fairly.
fn fair_world(count: usize) -> World {
    fair_world_of(count, Unit::Slot)
}

fn fair_world_of(count: usize, unit: Unit) -> World {
    let mut world = World::new(unit);
    for _ in 0..count {
        world.step(Command::Join(None));
    }
    take_turns(&mut world, 0);
    check_shares(&world);
    world
}

/// Live relays continue for one lease, and others are removed.
fn survive_a_lease(world: &mut World, meanwhile: &[Command]) {
    let database = world.database.clone();
    world.programs.retain(|program| database.is_live(program.id));
    let mut turns = meanwhile.chunks(meanwhile.len() / 4 + 1);
    for _ in 0..4 {
        (0..world.programs.len()).for_each(|n| world.step(Command::Beat(n)));
        turns.next().unwrap_or_default().iter().for_each(|turn| world.step(*turn));
        world.step(Command::Wait(LEASE / 4));
    }
}

/// Each looks and acts once, beginning with the first.
fn take_turns(world: &mut World, first: usize) {
    for n in first..first + world.programs.len() {
        world.step(Command::Look(n));
        world.step(Command::Act(n));
    }
}

fn owners(world: &World) -> BTreeMap<Slot, RelayId> {
    world.database.slots().filter_map(|(slot, row)| row.owner.map(|owner| (slot, owner))).collect()
}

/// How many slots must change their owner, computed independently: a slot stays with an owner that stays, as far as its
/// share allows; larger shares go to relays with the most slots.
fn expected_moves(world: &World, before: &BTreeMap<Slot, RelayId>) -> usize {
    let live = world.database.live();
    if let Some(total) = live.iter().find_map(|relay| relay.instance).map(|one| one.total()) {
        let wanted = Slot::all().filter_map(|slot| {
            let owner = live.iter().find(|relay| relay.instance.unwrap().has(slot, world.database.unit))?;
            Some((slot, owner.id))
        });
        assert!(live.iter().all(|relay| relay.instance.unwrap().total() == total));
        return wanted.filter(|(slot, owner)| before.get(slot) != Some(owner)).count();
    }
    if live.is_empty() {
        return 0;
    }
    let mut had: Vec<usize> =
        live.iter().map(|relay| before.values().filter(|owner| **owner == relay.id).count()).collect();
    had.sort_unstable_by(|one, two| two.cmp(one));
    // 256 slots or 16 groups dealt out one by one: the first in the row get one more.
    let mut sizes = vec![0_usize; had.len()];
    let step = step(world);
    (0..Slot::COUNT / step).for_each(|n| sizes[n % had.len()] += step);
    let kept: usize = had.into_iter().zip(sizes).map(|(had, size)| had.min(size)).sum();
    Slot::COUNT - kept
}

/// Every slot belongs to a live relay, fairly or by its fixed share.
fn check_shares(world: &World) {
    let live = world.database.live();
    let owners = owners(world);
    if live.iter().any(|relay| relay.instance.is_some()) {
        for slot in Slot::all() {
            let unit = world.database.unit;
            let rightful = live.iter().find(|relay| relay.instance.is_some_and(|one| one.has(slot, unit)));
            assert_eq!(owners.get(&slot), rightful.map(|relay| &relay.id), "slot {slot}");
        }
        return;
    }
    let sizes: Vec<usize> = live.iter().map(|relay| relay.slots).collect();
    let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) else { return };
    assert_eq!(sizes.iter().sum::<usize>(), Slot::COUNT, "not every slot has an owner who counts");
    assert!(most - least <= step(world), "unfair: {sizes:?}");
}

/// How many slots go together.
fn step(world: &World) -> usize {
    match world.database.unit {
        Unit::Slot => 1,
        Unit::Group => Group::SLOTS,
    }
}
