//! A cursor: slots at the same position. A relay has one, and more while it catches up with slots that it has taken.

use super::{EventId, RelayId, Seq, Slot, Snapshot, Window};
use crate::lease::Epoch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cursor {
    pub window: Window,
    pub slots: BTreeMap<Slot, Seq>,
}

/// Where a slot's next owner continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resting {
    pub window: Window,
    pub seq: Seq,
}

/// Merges cursors at the same position; the one furthest back comes first.
pub fn merged(cursors: Vec<Cursor>) -> Vec<Cursor> {
    let mut together: Vec<Cursor> = Vec::with_capacity(cursors.len());
    for cursor in cursors {
        let is_same = |other: &&mut Cursor| {
            let (one, two) = (&cursor.window, &other.window);
            (&one.from, &one.to, one.last) == (&two.from, &two.to, two.last)
        };
        match together.iter_mut().find(is_same) {
            Some(other) => {
                other.window.high = other.window.high.max(cursor.window.high);
                other.slots.extend(cursor.slots);
            }
            None => together.push(cursor),
        }
    }
    together.retain(|cursor| !cursor.slots.is_empty());
    together.sort_by(|one, two| one.window.from.cmp(&two.window.from));
    together
}

pub fn with_taken(cursors: Vec<Cursor>, taken: impl IntoIterator<Item = (Slot, Resting)>) -> Vec<Cursor> {
    let new = taken.into_iter().map(|(slot, resting)| Cursor {
        window: resting.window,
        slots: BTreeMap::from([(slot, resting.seq)]),
    });
    merged(cursors.into_iter().chain(new).collect())
}

/// The cursors that stay, and where each released slot is left.
pub fn without(cursors: Vec<Cursor>, released: &[Slot]) -> (Vec<Cursor>, Vec<(Slot, Resting)>) {
    let mut left = Vec::new();
    let mut kept = Vec::with_capacity(cursors.len());
    for mut cursor in cursors {
        for slot in released {
            if let Some(seq) = cursor.slots.remove(slot) {
                left.push((*slot, Resting { window: cursor.window.clone(), seq }));
            }
        }
        kept.push(cursor);
    }
    (merged(kept), left)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advance<'a> {
    /// The slots that were read, including those without an event.
    pub slots: &'a BTreeSet<Slot>,
    pub window: &'a Window,
    pub counts: &'a BTreeMap<Slot, i64>,
}

/// Advances only the slots that were read: slots taken meanwhile stay where they are.
pub fn advanced(cursors: Vec<Cursor>, advance: &Advance<'_>) -> Vec<Cursor> {
    let mut all = Vec::with_capacity(cursors.len() + 1);
    let mut moved = BTreeMap::new();
    for mut cursor in cursors {
        cursor.slots.retain(|slot, seq| {
            if advance.slots.contains(slot) {
                let count = advance.counts.get(slot).copied().unwrap_or_default();
                moved.insert(*slot, Seq::new(seq.get().saturating_add(count)));
                return false;
            }
            true
        });
        all.push(cursor);
    }
    all.push(Cursor { window: advance.window.clone(), slots: moved });
    merged(all)
}

/// Up to where the hindmost cursor is read: to the next one, so that they continue together. None means up to now.
pub fn next_stop(cursors: &[Cursor]) -> Option<&Snapshot> {
    let (first, others) = cursors.split_first()?;
    others.iter().map(|other| &other.window.from).find(|snapshot| **snapshot > first.window.from)
}

/// The owner and position of a slot: by its relay's cursors, or where it was left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub slot: Slot,
    /// Counts its owners.
    pub epoch: Epoch,
    pub owner: Option<RelayId>,
    pub window: Window,
    pub seq: Seq,
}

impl Place {
    /// The position by the cursors of its owner. One that its owner has not read yet is where it was left.
    #[must_use]
    pub fn as_read(self, cursors: &[Cursor]) -> Self {
        let found = cursors.iter().find_map(|cursor| Some((cursor, *cursor.slots.get(&self.slot)?)));
        match found {
            Some((cursor, seq)) => Self { window: cursor.window.clone(), seq, ..self },
            None => self,
        }
    }

    /// With one writer at a time ids are in the order of commits: exactly the events up to this id were read.
    pub fn read_up_to(&self) -> EventId {
        let below = |xmax: u64| i64::try_from(xmax.saturating_sub(1)).unwrap_or(i64::MAX);
        let window = &self.window;
        let paged = window.to.as_ref().map_or(0, |to| window.last.get().min(below(to.xmax())));
        EventId::new(paged.max(below(window.from.xmax())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn cursor(up_to: i64, slots: &[u8]) -> Cursor {
        let slots = slots.iter().map(|slot| (Slot::new(*slot), Seq::new(1))).collect();
        Cursor { window: Window::at(Snapshot::up_to(up_to)), slots }
    }

    #[test]
    fn who_is_behind_catches_up_and_goes_on_together() {
        let cursors = merged(vec![cursor(9, &[1, 2]), cursor(5, &[3])]);

        let stop = next_stop(&cursors).unwrap().clone();
        let [mut behind, other]: [Cursor; 2] = cursors.try_into().unwrap();
        behind.window = behind.window.opened(stop).after(EventId::new(7)).closed();
        let together = merged(vec![behind, other]);

        assert_eq!(together.len(), 1);
        assert_eq!(together[0].slots.len(), 3);
        assert_eq!(together[0].window.high, EventId::new(7));
        assert_eq!(next_stop(&together), None);
    }

    #[test]
    fn what_is_let_go_keeps_its_place() {
        let mut one = cursor(9, &[1, 2]);
        one.window = one.window.opened(Snapshot::up_to(20)).after(EventId::new(12));

        let (kept, left) = without(vec![one.clone()], &[Slot::new(2), Slot::new(7)]);
        let again = with_taken(kept.clone(), left.clone());

        assert_eq!(kept[0].slots.len(), 1);
        assert_eq!(left.len(), 1);
        assert_eq!(again, vec![one]);
    }

    #[test]
    fn who_was_taken_while_others_were_read_stays_where_it_is() {
        let before = cursor(9, &[1, 2]);
        let read_for = BTreeSet::from([Slot::new(1), Slot::new(2)]);
        let window = before.window.clone().opened(Snapshot::up_to(20)).after(EventId::new(15)).closed();
        // At the same position as the others, so it is merged with them.
        let all = merged(vec![before, cursor(9, &[7])]);

        let after = advanced(
            all,
            &Advance { slots: &read_for, window: &window, counts: &BTreeMap::from([(Slot::new(1), 4)]) },
        );

        assert_eq!(after.len(), 2);
        assert_eq!(after[0], cursor(9, &[7]));
        assert_eq!(
            after[1].slots,
            BTreeMap::from([(Slot::new(1), Seq::new(5)), (Slot::new(2), Seq::new(1))])
        );
        assert_eq!(after[1].window.from, Snapshot::up_to(20));
    }

    #[test]
    fn a_cursor_without_slots_is_none() {
        let (kept, left) = without(vec![cursor(9, &[1])], &[Slot::new(1)]);

        assert!(kept.is_empty());
        assert_eq!(left.len(), 1);
    }

    fn place(window: Window) -> Place {
        let (slot, epoch, seq) = (Slot::new(7), Epoch::ZERO, Seq::ZERO);
        Place { slot, epoch, owner: None, window, seq }
    }

    proptest! {
        #[test]
        fn with_one_writer_an_id_says_it_all(from in 0..20_i64, to in prop::option::of(0..20_i64), last in 0..20_i64) {
            let mut window = Window::at(Snapshot::up_to(from));
            if let Some(to) = to {
                window = window.opened(Snapshot::up_to(to)).after(EventId::new(last));
            }
            let place = place(window);

            for id in 1..25_i64 {
                let is_read = place.window.covers(EventId::new(id), u64::try_from(id).unwrap());
                prop_assert_eq!(is_read, EventId::new(id) <= place.read_up_to(), "{}", id);
            }
        }
    }

    #[test]
    fn an_owned_slot_stands_where_its_relay_says() {
        let left = place(Window::at(Snapshot::up_to(3)));
        let read = Window::at(Snapshot::up_to(9));
        let of =
            |slot| Cursor { window: read.clone(), slots: BTreeMap::from([(Slot::new(slot), Seq::new(5))]) };

        assert_eq!(
            left.clone().as_read(&[of(6), of(7)]),
            Place { window: read.clone(), seq: Seq::new(5), ..left.clone() }
        );
        assert_eq!(left.clone().as_read(&[of(6)]), left);
    }
}
