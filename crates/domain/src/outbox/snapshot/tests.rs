//! Histories of snapshots for tests, and what holds for each snapshot.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A history of transactions that begin in order and end in any: the snapshots of its instants, oldest first.
pub(crate) fn history(steps: &[(bool, usize)]) -> Vec<Snapshot> {
    let (mut next, mut running) = (10_u64, BTreeSet::new());
    let mut snapshots = Vec::new();
    for (begins, which) in steps {
        if *begins || running.is_empty() {
            running.insert(next);
            next += 1;
        } else if let Some(ending) = running.iter().nth(which % running.len()).copied() {
            running.remove(&ending);
        }
        snapshots.push(Snapshot {
            xmin: running.first().copied().unwrap_or(next),
            xmax: next,
            running: running.iter().copied().collect(),
        });
    }
    snapshots
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<(bool, usize)>> {
    prop::collection::vec((any::<bool>(), 0..8_usize), 1..60)
}

proptest! {
    #[test]
    fn snapshots_grow_with_time(steps in steps()) {
        let snapshots = history(&steps);
        for pair in snapshots.windows(2) {
            prop_assert!(pair[0].is_within(&pair[1]));
            prop_assert!(pair[0] <= pair[1]);
            for xid in 0..100 {
                prop_assert!(!pair[0].sees(xid) || pair[1].sees(xid));
            }
        }
    }

    #[test]
    fn the_text_comes_back(steps in steps()) {
        for snapshot in history(&steps) {
            prop_assert_eq!(snapshot.to_string().parse::<Snapshot>(), Ok(snapshot));
        }
    }

    #[test]
    fn any_text_is_a_snapshot_or_an_error(text in ".{0,40}") {
        if let Ok(snapshot) = text.parse::<Snapshot>() {
            prop_assert_eq!(snapshot.to_string().parse::<Snapshot>(), Ok(snapshot));
        }
    }
}

#[test]
fn with_one_writer_all_up_to_an_id_is_seen() {
    let snapshot = Snapshot::up_to(7);

    assert!(snapshot.sees(7) && !snapshot.sees(8));
    assert_eq!(snapshot.to_string(), "8:8:");
}

#[test]
fn nonsense_is_refused() {
    for text in ["", "1", "1:2", "2:1:", "1:5:4,3", "1:5:5", "3:5:2", "a:b:", "1:2::"] {
        assert!(text.parse::<Snapshot>().is_err(), "{text}");
    }
}

#[test]
fn a_snapshot_sees_what_had_committed() {
    use crate::outbox::Snapshot;
    let snapshot: Snapshot = "10:14:10,12".parse().unwrap();
    assert!(snapshot.sees(11) && snapshot.sees(13));
    assert!(!snapshot.sees(12) && !snapshot.sees(14));
    assert_eq!(snapshot.to_string(), "10:14:10,12");
}
