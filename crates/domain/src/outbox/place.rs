//! Where a slot stands: who has it, and how far it was read. Owned slots stand where their relay says, free ones where
//! they were left.

use super::{Cursor, EventId, RelayId, Seq, Slot, Window};
use crate::lease::Epoch;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub slot: Slot,
    /// How many owners it has had.
    pub epoch: Epoch,
    pub owner: Option<RelayId>,
    pub window: Window,
    pub seq: Seq,
}

impl Place {
    /// Where the slot stands by the word of its owner. One that its owner has not begun to read is still where it was
    /// left.
    #[must_use]
    pub fn as_read(self, cursors: &[Cursor]) -> Self {
        let found = cursors.iter().find_map(|cursor| Some((cursor, *cursor.slots.get(&self.slot)?)));
        match found {
            Some((cursor, seq)) => Self { window: cursor.window.clone(), seq, ..self },
            None => self,
        }
    }

    /// With one writer at a time ids are in the order of commits: everything up to this id was read, and nothing after
    /// it.
    pub fn read_up_to(&self) -> EventId {
        let below = |xmax: u64| i64::try_from(xmax.saturating_sub(1)).unwrap_or(i64::MAX);
        let window = &self.window;
        let paged = window.to.as_ref().map_or(0, |to| window.last.get().min(below(to.xmax())));
        EventId::new(paged.max(below(window.from.xmax())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::Snapshot;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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
