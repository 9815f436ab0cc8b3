//! The world of the model: programs that believe they are relays, each with an old view, and the database.
//! Retired programs continue and try everything. After every command the world is checked.

use super::super::share;
use super::super::{Instance, RelayId, Slot, Unit};
use super::database::{Database, View};
use crate::lease::Epoch;
use crate::process::ProcessState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// What happens. A number says which program, counted among all that run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Join(Option<Instance>),
    Leave(usize),
    /// It never does anything again.
    Crash(usize),
    Wait(Duration),
    /// One of them sleeps, while the others continue.
    Sleep(usize, Duration),
    Beat(usize),
    /// It finds those whose lease has passed, and then sees who there is.
    Look(usize),
    /// It acts on what it saw, however long ago.
    Act(usize),
    /// It reads events of its slots and hands them to the sink.
    Begin(usize),
    Acknowledge(usize),
}

/// A program that has joined.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) id: RelayId,
    /// What it believes to own.
    held: BTreeMap<Slot, Epoch>,
    acks: u64,
    saw: Option<View>,
    batch: Option<BTreeMap<Slot, Epoch>>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) database: Database,
    pub(super) programs: Vec<Program>,
    /// How many batches were settled, and how many were refused because of a lost lease.
    pub(super) settled: usize,
    pub(super) refused: usize,
    /// Of each slot, who was its owner in which epoch.
    owners: Vec<Vec<RelayId>>,
    lapsed: BTreeSet<RelayId>,
    /// The epoch of each slot after the last command.
    epochs: Vec<Epoch>,
}

impl World {
    pub(super) fn new(unit: Unit) -> Self {
        Self {
            database: Database::new(unit),
            programs: Vec::new(),
            settled: 0,
            refused: 0,
            owners: vec![Vec::new(); Slot::COUNT],
            lapsed: BTreeSet::new(),
            epochs: vec![Epoch::ZERO; Slot::COUNT],
        }
    }

    /// Does it and checks the world.
    pub(super) fn step(&mut self, command: Command) {
        match command {
            Command::Join(instance) => self.join(instance),
            Command::Leave(n) => self.leave(n),
            Command::Crash(n) => {
                if !self.programs.is_empty() {
                    self.programs.remove(n % self.programs.len());
                }
            }
            Command::Wait(time) => self.database.now = self.database.now.plus(time),
            Command::Sleep(n, time) => self.sleep(n, time),
            Command::Beat(n) => {
                if let Some(program) = pick(&mut self.programs, n) {
                    self.database.beat(program.id).ok();
                }
            }
            Command::Look(n) => {
                if let Some(program) = pick(&mut self.programs, n) {
                    self.database.retire();
                    program.saw = Some(self.database.look(program.id));
                }
            }
            Command::Act(n) => self.act(n),
            Command::Begin(n) => {
                if let Some(program) = pick(&mut self.programs, n) {
                    program.batch = Some(program.held.clone());
                }
            }
            Command::Acknowledge(n) => self.acknowledge(n),
        }
        self.check();
    }

    fn join(&mut self, instance: Option<Instance>) {
        if let Ok(id) = self.database.join(instance) {
            self.programs.push(Program { id, held: BTreeMap::new(), acks: 0, saw: None, batch: None });
        }
    }

    fn leave(&mut self, n: usize) {
        self.acknowledge(n);
        if !self.programs.is_empty() {
            let program = self.programs.remove(n % self.programs.len());
            self.database.leave(program.id);
        }
    }

    fn sleep(&mut self, n: usize, time: Duration) {
        let sleeping = pick(&mut self.programs, n).map(|program| program.id);
        for _ in 0..4 {
            for program in self.programs.iter().filter(|program| Some(program.id) != sleeping) {
                self.database.beat(program.id).ok();
            }
            self.database.now = self.database.now.plus(time / 4);
        }
    }

    fn act(&mut self, n: usize) {
        let Some(program) = pick(&mut self.programs, n) else { return };
        let Some(View { live, mine, free }) = program.saw.take() else { return };
        let plan = share::plan(program.id, &live, &mine, &free);
        if !plan.release.is_empty() {
            // What is on its way is settled before its slot is let go.
            self.acknowledge(n);
        }
        let Some(program) = pick(&mut self.programs, n) else { return };
        if !plan.release.is_empty() && self.database.release(program.id, &plan.release).is_ok() {
            program.held.retain(|slot, _| !plan.release.contains(slot));
        }
        if !plan.take.is_empty() {
            program.held.extend(self.database.take(program.id, &plan.take).unwrap_or_default());
        }
    }

    /// What is settled was the program's own, in this epoch and at this moment.
    fn acknowledge(&mut self, n: usize) {
        let Some(program) = pick(&mut self.programs, n) else { return };
        let Some(batch) = program.batch.take() else { return };
        let Ok(acks) = self.database.acknowledge(program.id, program.acks) else {
            self.refused += 1;
            return;
        };
        self.settled += 1;
        program.acks = acks;
        let owned: BTreeMap<Slot, Epoch> = self.database.owned(program.id).collect();
        for (slot, epoch) in batch {
            assert_eq!(owned.get(&slot), Some(&epoch), "a ghost settled slot {slot}");
        }
    }

    fn check(&mut self) {
        self.check_epochs();
        self.check_relays();
    }

    /// Epochs never shrink, and each has a single owner, which has not ended.
    fn check_epochs(&mut self) {
        let known = self.owners.iter_mut().zip(&mut self.epochs);
        for ((slot, row), (owners, epoch)) in self.database.slots().zip(known) {
            assert!(*epoch <= row.epoch, "the epoch of slot {slot} shrank");
            *epoch = row.epoch;
            let Some(owner) = row.owner else { continue };
            let count = usize::try_from(row.epoch.get()).unwrap();
            if owners.len() + 1 == count {
                owners.push(owner);
            }
            assert_eq!(owners.len(), count, "an epoch of slot {slot} was left out");
            assert_eq!(owners.last(), Some(&owner), "slot {slot} has two owners in epoch {count}");
            let life = self.database.relays[&owner].life;
            assert!(matches!(life, ProcessState::Live { .. }), "slot {slot} is with somebody who has ended");
        }
    }

    /// A lapsed relay never counts again; live relays agree with each other, and know what they have.
    fn check_relays(&mut self) {
        let live = self.database.live();
        let is_back = live.iter().find(|relay| self.lapsed.contains(&relay.id));
        assert!(is_back.is_none(), "{is_back:?} came back");
        let gone = self.database.relays.keys().filter(|id| !self.database.is_live(**id));
        self.lapsed.extend(gone);

        let totals: BTreeSet<Option<u32>> =
            live.iter().map(|relay| relay.instance.map(|one| one.total())).collect();
        assert!(totals.len() <= 1, "relays live together that do not agree: {totals:?}");
        let ids: BTreeSet<u32> = live.iter().filter_map(|relay| relay.instance).map(|one| one.id()).collect();
        assert!(totals.iter().all(Option::is_none) || ids.len() == live.len(), "an id was given twice");

        let mut owned: HashMap<RelayId, Vec<(Slot, Epoch)>> = HashMap::new();
        for (slot, row) in self.database.slots() {
            row.owner.into_iter().for_each(|owner| owned.entry(owner).or_default().push((slot, row.epoch)));
        }
        for program in self.programs.iter().filter(|program| self.database.is_live(program.id)) {
            let held: Vec<(Slot, Epoch)> = program.held.iter().map(|(slot, epoch)| (*slot, *epoch)).collect();
            let owned = owned.remove(&program.id).unwrap_or_default();
            assert_eq!(owned, held, "{} is wrong about what it has", program.id);
            let instance = self.database.relays[&program.id].instance;
            let unit = self.database.unit;
            let is_foreign = |slot: &Slot| instance.is_some_and(|instance| !instance.has(*slot, unit));
            assert!(!program.held.keys().any(is_foreign), "{} has a slot of another share", program.id);
            let held = program.held.keys().copied().collect();
            assert_eq!(unit.whole(&held), held, "{} has a part of a unit", program.id);
        }
    }
}

fn pick(programs: &mut [Program], n: usize) -> Option<&mut Program> {
    let count = programs.len().max(1);
    programs.get_mut(n % count)
}
