//! A group: 16 adjacent slots with one owner, published in one transaction. Without transactions, slots are shared singly.

use super::event::Slot;
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group(u8);

impl Group {
    pub const COUNT: usize = 16;

    pub const SLOTS: usize = Slot::COUNT / Self::COUNT;

    pub const fn of(slot: Slot) -> Self {
        Self(slot.get() >> 4)
    }

    pub const fn get(self) -> u8 {
        self.0
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..16).map(Self)
    }

    pub fn slots(self) -> impl Iterator<Item = Slot> {
        (0..16).map(move |n| Slot::new(self.0 << 4 | n))
    }
}

crate::newtype::display!(Group, group => "g{:02}", group.0);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Unit {
    #[default]
    Slot,
    Group,
}

impl Unit {
    /// The slots whose whole unit is included.
    pub fn whole(self, slots: &BTreeSet<Slot>) -> BTreeSet<Slot> {
        match self {
            Self::Slot => slots.clone(),
            Self::Group => groups(slots).into_iter().flat_map(Group::slots).collect(),
        }
    }
}

/// The groups whose slots are all included.
pub fn groups(slots: &BTreeSet<Slot>) -> BTreeSet<Group> {
    Group::all().filter(|group| group.slots().all(|slot| slots.contains(&slot))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_in_one_group() {
        let all: Vec<Slot> = Group::all().flat_map(Group::slots).collect();

        assert_eq!(all, Slot::all().collect::<Vec<_>>());
        assert_eq!(Group::all().count(), Group::COUNT);
        assert_eq!(Group::SLOTS, 16);
    }

    #[test]
    fn a_group_has_the_slots_that_are_of_it() {
        use crate::outbox::{Group, Slot};
        let group = Group::of(Slot::new(0x6e));
        assert_eq!(group.to_string(), "g06");
        assert!(group.slots().all(|slot| Group::of(slot) == group));
    }

    #[test]
    fn only_whole_units_are_kept() {
        use crate::outbox::group::{Group, Unit};
        let mut slots: std::collections::BTreeSet<_> = Group::all().take(2).flat_map(Group::slots).collect();
        slots.pop_last();
        assert_eq!(Unit::Slot.whole(&slots).len(), 31);
        assert_eq!(Unit::Group.whole(&slots).len(), 16);
    }
}
