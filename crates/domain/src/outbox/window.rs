//! A window: what committed between two snapshots, read in the order of ids, page by page.
//!
//! A reader that only remembers the last id loses late commits with lower ids; a reader that sorts by transaction can
//! reverse the events of an aggregate. Between two snapshots nothing is missing, and under the lock of an aggregate ids
//! are in causal order. So the second snapshot freezes each window before its first page is read, and ids sort it.

use super::{EventId, Slot, Snapshot};
use serde::{Deserialize, Serialize};

/// How far was read.
///
/// ```text
///   at rest (to: none) ──open──► pages after `last` ──…──► done ──► at rest at the second snapshot
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Window {
    /// All that this snapshot sees was read.
    pub from: Snapshot,
    /// The end of the current window; none between windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Snapshot>,
    /// The current window was read up to this id.
    #[serde(default)]
    pub last: EventId,
    /// The highest id that was ever read. Used when a restored database makes snapshots meaningless.
    #[serde(default)]
    pub high: EventId,
}

impl Window {
    pub fn at(snapshot: Snapshot) -> Self {
        Self { from: snapshot, to: None, last: EventId::ZERO, high: EventId::ZERO }
    }

    pub fn covers(&self, id: EventId, xid: u64) -> bool {
        self.from.sees(xid) || (id <= self.last && self.to.as_ref().is_some_and(|to| to.sees(xid)))
    }

    /// Freezes the next window up to this snapshot. An open one stays; a snapshot before `from` counts as `from`.
    #[must_use]
    pub fn opened(self, to: Snapshot) -> Self {
        let to = if self.from <= to { to } else { self.from.clone() };
        Self { to: Some(self.to.unwrap_or(to)), ..self }
    }

    #[must_use]
    pub fn after(self, last: EventId) -> Self {
        let last = self.last.max(last);
        Self { last, high: self.high.max(last), ..self }
    }

    #[must_use]
    pub fn closed(self) -> Self {
        let from = self.to.unwrap_or(self.from);
        Self { from, to: None, last: EventId::ZERO, high: self.high }
    }
}

/// A fourth more than a page should need: slots do not have equal shares of events.
const SPARE: i64 = 4;

/// A page of a large window is read from a range of ids that is likely to fill it, then from the next range. A server
/// without statistics of the table may sort all rows of a query before it returns a page, so a query never asks for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdRange {
    pub after: EventId,
    pub upto: Option<EventId>,
    width: i64,
}

impl IdRange {
    /// The first range of a page. The window's events are between `lowest` and `highest`, except for late ones.
    pub fn first(after: EventId, (lowest, highest): (EventId, EventId), limit: u32, slots: usize) -> Self {
        let page = (limit as usize * Slot::COUNT).div_ceil(slots.clamp(1, Slot::COUNT)).max(1);
        let page = i64::try_from(page).unwrap_or(i64::MAX / 2);
        let width = page + page / SPARE;
        let begin = after.get().max(lowest.get().saturating_sub(1));
        Self { after, upto: end(begin, width, highest), width }
    }

    /// The following range, twice as wide, so that few queries are needed where events are rare.
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
    use super::super::snapshot::tests::{history, steps};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Reads all windows of a history, page by page: whatever committed by the last snapshot was read exactly once.
        #[test]
        fn whatever_committed_is_read_exactly_once(
            steps in steps(),
            // The transaction of each event; its id is its place in this list.
            events in prop::collection::vec(10..40_u64, 0..60),
            page in 1..5_usize,
            skipped in 1..4_usize,
        ) {
            let snapshots = history(&steps);
            let mut window = Window::at(Snapshot::up_to(9));
            let mut read = Vec::new();
            for snapshot in snapshots.iter().step_by(skipped) {
                window = window.opened(snapshot.clone());
                loop {
                    let fresh: Vec<(EventId, u64)> = events
                        .iter()
                        .enumerate()
                        .map(|(n, xid)| (EventId::new(i64::try_from(n).unwrap() + 1), *xid))
                        .filter(|(id, xid)| snapshot.sees(*xid) && !window.covers(*id, *xid))
                        .take(page)
                        .collect();
                    let Some((last, _)) = fresh.last() else { break };
                    window = window.after(*last);
                    read.extend(fresh);
                }
                window = window.closed();
            }

            let last = snapshots.iter().step_by(skipped).next_back().unwrap();
            let mut expected: Vec<u64> = events.into_iter().filter(|xid| last.sees(*xid)).collect();
            let mut found: Vec<u64> = read.iter().map(|(_, xid)| *xid).collect();
            let ids: std::collections::BTreeSet<EventId> = read.iter().map(|(id, _)| *id).collect();
            prop_assert_eq!(ids.len(), read.len());
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(window.high, ids.last().copied().unwrap_or_default());
        }
    }

    #[test]
    fn a_window_that_is_being_read_is_not_moved() {
        let window = Window::at(Snapshot::up_to(1)).opened(Snapshot::up_to(5)).after(EventId::new(3));

        let again = window.clone().opened(Snapshot::up_to(9));

        assert_eq!(again, window);
        assert_eq!(again.closed().from, Snapshot::up_to(5));
    }

    #[test]
    fn a_snapshot_from_before_does_not_lead_back() {
        let window = Window::at(Snapshot::up_to(5)).opened(Snapshot::up_to(2));

        assert_eq!(window.closed().from, Snapshot::up_to(5));
    }

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
        use crate::outbox::{EventId, IdRange};
        let id = EventId::new;
        let first = IdRange::first(id(0), (id(1), id(1_000_000)), 1_000, 128);
        assert_eq!((first.after, first.upto), (id(0), Some(id(2_500))));
    }
}
