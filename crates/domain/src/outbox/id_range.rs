//! Stretches: the page of a large window is looked for in a range of ids that is likely to hold it, and in the next one as
//! long as it is not full. A server that knows nothing yet of its table may sort all that it is asked for before it answers
//! with a page of it; so it is never asked for all.

use super::event::{EventId, Slot};

/// Asks for a little more than a page should need: an equal share of slots does not have an equal share of events.
const SPARE: i64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdRange {
    pub after: EventId,
    /// Up to this one; the last stretch has no end.
    pub upto: Option<EventId>,
    width: i64,
}

impl IdRange {
    /// The first one of a page of `limit` events of so many slots, behind `after`, in a window whose events lie between
    /// `lowest` and `highest`, but for some late ones that may lie anywhere.
    pub fn first(after: EventId, (lowest, highest): (EventId, EventId), limit: u32, slots: usize) -> Self {
        let page = (limit as usize * Slot::COUNT).div_ceil(slots.clamp(1, Slot::COUNT)).max(1);
        let page = i64::try_from(page).unwrap_or(i64::MAX / 2);
        let width = page + page / SPARE;
        let begin = after.get().max(lowest.get().saturating_sub(1));
        Self { after, upto: end(begin, width, highest), width }
    }

    /// The one behind it, twice as wide: where events are rare, or most are of others, it must not take many.
    pub fn next(self, highest: EventId) -> Option<Self> {
        let after = self.upto?;
        let width = self.width.saturating_mul(2);
        Some(Self { after, upto: end(after.get(), width, highest), width })
    }
}

fn end(begin: i64, width: i64, highest: EventId) -> Option<EventId> {
    begin.checked_add(width).map(EventId::new).filter(|end| *end < highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids() -> impl Strategy<Value = i64> {
        prop_oneof![Just(0), Just(i64::MAX), 0..2_000_000_i64, 0..i64::MAX]
    }

    proptest! {
        #[test]
        fn stretches_cover_all_ids_behind_the_first_without_a_gap_and_come_to_an_end(
            after in ids(), lowest in ids(), highest in ids(), limit: u32, slots in 0..300_usize,
        ) {
            let highest = EventId::new(highest);
            let lowest = EventId::new(lowest);
            let mut stretch = IdRange::first(EventId::new(after), (lowest, highest), limit, slots);
            prop_assert_eq!(stretch.after, EventId::new(after));
            let mut steps = 0;
            while let Some(next) = stretch.next(highest) {
                prop_assert!(stretch.upto > Some(stretch.after));
                prop_assert_eq!(Some(next.after), stretch.upto);
                stretch = next;
                steps += 1;
                prop_assert!(steps <= 64, "{:?}", stretch);
            }
            prop_assert_eq!(stretch.upto, None);
        }

        #[test]
        fn the_first_one_holds_a_page_where_events_are_dense_and_evenly_spread(
            after in 0..1_000_000_i64, limit in 1..10_000_u32, slots in 1..=256_usize,
        ) {
            let far = EventId::new(i64::MAX);
            let stretch = IdRange::first(EventId::new(after), (EventId::ZERO, far), limit, slots);
            let ids = stretch.upto.unwrap().get() - after;
            prop_assert!(ids * slots as i64 / 256 >= i64::from(limit));
            prop_assert!(ids * slots as i64 / 256 <= 2 * i64::from(limit) + 1);
        }
    }

    #[test]
    fn what_lies_below_the_window_does_not_make_it_wider() {
        let first = IdRange::first(EventId::ZERO, (EventId::new(5_001), EventId::new(90_000)), 100, 256);
        assert_eq!((first.after, first.upto), (EventId::ZERO, Some(EventId::new(5_125))));
        let behind =
            IdRange::first(EventId::new(100_000), (EventId::new(5_001), EventId::new(90_000)), 100, 256);
        assert_eq!(behind.upto, None);
    }

    #[test]
    fn the_first_range_is_a_little_more_than_a_page() {
        use crate::outbox::{EventId, id_range::IdRange};
        let id = EventId::new;
        let first = IdRange::first(id(0), (id(1), id(1_000_000)), 1_000, 128);
        assert_eq!((first.after, first.upto), (id(0), Some(id(2_500))));
    }
}
