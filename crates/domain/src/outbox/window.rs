//! A window: what committed between two snapshots, read in the order of ids, page by page.
//!
//! A reader that only remembers the last id loses what commits late with a lower one; a reader that sorts by
//! transaction turns the events of an aggregate around whose writer had written elsewhere before. Between two snapshots
//! nothing is missing, and under the lock of an aggregate ids are in causal order: so each window is frozen by its
//! second snapshot before its first page is read, and sorted by id.

use super::{EventId, Snapshot};
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
    /// The end of the window that is being read; none between windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Snapshot>,
    /// Of the window, all up to this id was read.
    #[serde(default)]
    pub last: EventId,
    /// The highest id that was ever read; for when snapshots have lost their meaning because the database was restored
    /// into another server.
    #[serde(default)]
    pub high: EventId,
}

impl Window {
    /// At rest at this snapshot.
    pub fn at(snapshot: Snapshot) -> Self {
        Self { from: snapshot, to: None, last: EventId::ZERO, high: EventId::ZERO }
    }

    /// Whether this event of this transaction was read.
    pub fn covers(&self, id: EventId, xid: u64) -> bool {
        self.from.sees(xid) || (id <= self.last && self.to.as_ref().is_some_and(|to| to.sees(xid)))
    }

    /// Freezes the next window, up to this snapshot. One that is being read stays as it is, and a snapshot that lies before
    /// the first one counts as the first one.
    #[must_use]
    pub fn opened(self, to: Snapshot) -> Self {
        let to = if self.from <= to { to } else { self.from.clone() };
        Self { to: Some(self.to.unwrap_or(to)), ..self }
    }

    /// After a page that ends with this id.
    #[must_use]
    pub fn after(self, last: EventId) -> Self {
        let last = self.last.max(last);
        Self { last, high: self.high.max(last), ..self }
    }

    /// After the last page: at rest at the second snapshot.
    #[must_use]
    pub fn closed(self) -> Self {
        let from = self.to.unwrap_or(self.from);
        Self { from, to: None, last: EventId::ZERO, high: self.high }
    }
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
}
