//! The database of the model: the tables of relays and slots, and what each statement does to them.
//! It alone decides; a program with a wrong belief changes nothing.

use super::super::{Instance, JoinRefusal, LiveRelay, RelayId, Slot, Unit, admit};
use crate::lease::Epoch;
use crate::process::{self, ProcessEvent, ProcessState};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use uuid::Uuid;

/// The lease of a relay.
pub(super) const LEASE: Duration = Duration::from_secs(5);

/// The row of a relay. Its life is that of a process.
#[derive(Clone, Debug)]
pub(super) struct RelayRow {
    pub(super) instance: Option<Instance>,
    joined_at: Timestamp,
    pub(super) life: ProcessState,
    acks: u64,
}

/// The row of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotRow {
    pub(super) epoch: Epoch,
    pub(super) owner: Option<RelayId>,
}

/// What a relay sees of the others at one instant.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) live: Vec<LiveRelay>,
    pub(super) mine: BTreeSet<Slot>,
    pub(super) free: BTreeSet<Slot>,
}

/// The relay no longer counts, so nothing was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) unit: Unit,
    pub(super) now: Timestamp,
    pub(super) relays: BTreeMap<RelayId, RelayRow>,
    slots: Vec<SlotRow>,
    /// How often a slot was given to a relay.
    pub(super) takes: usize,
}

impl Database {
    pub(super) fn new(unit: Unit) -> Self {
        let free = SlotRow { epoch: Epoch::ZERO, owner: None };
        Self {
            unit,
            now: Timestamp::EPOCH,
            relays: BTreeMap::new(),
            slots: vec![free; Slot::COUNT],
            takes: 0,
        }
    }

    fn transactional_id(&self) -> Option<String> {
        (self.unit == Unit::Group).then(|| "shop".to_owned())
    }

    pub(super) fn join(&mut self, instance: Option<Instance>) -> Result<RelayId, JoinRefusal> {
        admit(instance, self.transactional_id().as_deref(), &self.live())?;
        // Scattered, because nothing may depend on ids that sort by the time of joining.
        let number = u128::try_from(self.relays.len()).unwrap() + 1;
        let id =
            RelayId::new(Uuid::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)));
        let life = ProcessState::Live { until: self.now.plus(LEASE) };
        self.relays.insert(id, RelayRow { instance, joined_at: self.now, life, acks: 0 });
        Ok(id)
    }

    pub(super) fn live(&self) -> Vec<LiveRelay> {
        let mut counts: HashMap<RelayId, usize> = HashMap::new();
        for owner in self.slots.iter().filter_map(|row| row.owner) {
            *counts.entry(owner).or_default() += 1;
        }
        let live = self.relays.iter().filter(|(_, row)| row.life.is_live(self.now));
        live.map(|(id, row)| LiveRelay {
            id: *id,
            name: String::new(),
            host: String::new(),
            pid: 1,
            instance: row.instance,
            transactional_id: self.transactional_id(),
            joined_at: row.joined_at,
            slots: counts.get(id).copied().unwrap_or_default(),
        })
        .collect()
    }

    pub(super) fn is_live(&self, id: RelayId) -> bool {
        self.relays.get(&id).is_some_and(|row| row.life.is_live(self.now))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (Slot, SlotRow)> {
        Slot::all().zip(self.slots.iter().copied())
    }

    pub(super) fn owned(&self, id: RelayId) -> impl Iterator<Item = (Slot, Epoch)> {
        let owned = self.slots().filter(move |(_, row)| row.owner == Some(id));
        owned.map(|(slot, row)| (slot, row.epoch))
    }

    pub(super) fn look(&self, id: RelayId) -> View {
        let free = self.slots().filter(|(_, row)| row.owner.is_none());
        View {
            live: self.live(),
            mine: self.owned(id).map(|(slot, _)| slot).collect(),
            free: free.map(|(slot, _)| slot).collect(),
        }
    }

    /// Renews the lease; fenced like every write of a relay.
    pub(super) fn beat(&mut self, id: RelayId) -> Result<(), Refused> {
        let now = self.now;
        let row = self.relays.get_mut(&id).ok_or(Refused)?;
        row.life =
            process::next(row.life, ProcessEvent::Heartbeat { ttl: LEASE }, now).map_err(|_| Refused)?;
        Ok(())
    }

    /// Notes how far all slots of the relay were read, in its row and nowhere else. Slots are not looked at.
    pub(super) fn acknowledge(&mut self, id: RelayId, expected: u64) -> Result<u64, Refused> {
        if self.relays.get(&id).is_none_or(|row| row.acks != expected) {
            return Err(Refused);
        }
        self.beat(id)?;
        let row = self.relays.get_mut(&id).ok_or(Refused)?;
        row.acks += 1;
        Ok(row.acks)
    }

    /// Gives those of the slots that are free, under their locks, and only whole units.
    pub(super) fn take(&mut self, id: RelayId, wanted: &[Slot]) -> Result<Vec<(Slot, Epoch)>, Refused> {
        self.beat(id)?;
        let is_free = |slot: &&Slot| self.slots[usize::from(slot.get())].owner.is_none();
        let free: BTreeSet<Slot> = wanted.iter().filter(is_free).copied().collect();
        let mut given = Vec::new();
        for slot in self.unit.whole(&free) {
            let row = &mut self.slots[usize::from(slot.get())];
            *row = SlotRow { epoch: row.epoch.next(), owner: Some(id) };
            given.push((slot, row.epoch));
        }
        self.takes += given.len();
        Ok(given)
    }

    /// Sets free those of the slots that are the relay's.
    pub(super) fn release(&mut self, id: RelayId, slots: &[Slot]) -> Result<(), Refused> {
        self.beat(id)?;
        for slot in slots {
            let row = &mut self.slots[usize::from(slot.get())];
            row.owner = row.owner.filter(|owner| *owner != id);
        }
        Ok(())
    }

    /// Ends a relay in order.
    pub(super) fn leave(&mut self, id: RelayId) {
        self.end(id, ProcessEvent::Stop);
    }

    /// Ends all whose lease has passed.
    pub(super) fn retire(&mut self) {
        for id in self.relays.keys().copied().collect::<Vec<_>>() {
            self.end(id, ProcessEvent::Expire);
        }
    }

    fn end(&mut self, id: RelayId, event: ProcessEvent) {
        let now = self.now;
        let Some(row) = self.relays.get_mut(&id) else { return };
        let Ok(life) = process::next(row.life, event, now) else { return };
        row.life = life;
        for slot in self.slots.iter_mut().filter(|slot| slot.owner == Some(id)) {
            slot.owner = None;
        }
    }
}
