//! The partitions of the outbox: ranges of ids, created ahead of time and dropped when they are no longer needed.

use super::event::EventId;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Range {
    pub from: i64,
    /// Exclusive.
    pub to: i64,
}

impl Range {
    /// Whether all its ids were given out, so that only late transactions still write to it.
    pub fn is_behind(self, last: EventId) -> bool {
        self.to <= last.get()
    }
}

/// Which ranges to create, so that `ahead` of them lie after the last id. Ids in the default partition cannot get a range
/// any more; then the next range begins at some distance after them, because transactions meanwhile write to the default
/// partition too.
pub fn missing(
    existing: &[Range],
    last: EventId,
    highest_in_default: Option<EventId>,
    rows: i64,
    ahead: usize,
) -> Vec<Range> {
    let rows = rows.max(1);
    let top = existing.iter().map(|range| range.to).max().unwrap_or(1);
    let stray = highest_in_default.unwrap_or_default().get();
    let is_late = top <= last.get() || top <= stray;
    let mut from = match is_late {
        false => top,
        true => {
            let beyond = last.get().max(stray).max(top - 1).saturating_add(rows / 10);
            (beyond / rows).saturating_add(1).saturating_mul(rows).saturating_add(1)
        }
    };
    let there = existing.iter().filter(|range| range.from > last.get()).count();
    let mut ranges = Vec::new();
    for _ in there..ahead {
        let Some(to) = from.checked_add(rows) else { break };
        ranges.push(Range { from, to });
        from = to;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(from: i64, to: i64) -> Range {
        Range { from, to }
    }

    proptest! {
        #[test]
        fn enough_lie_ahead_and_none_overlap(
            count in 0..4_i64,
            rows in 1..50_i64,
            new_rows in 1..50_i64,
            last in 0..200_i64,
            stray in prop::option::of(1..200_i64),
            ahead in 0..4_usize,
        ) {
            let existing: Vec<Range> = (0..count).map(|n| range(n * rows + 1, (n + 1) * rows + 1)).collect();
            let stray = stray.map(EventId::new);

            let new = missing(&existing, EventId::new(last), stray, new_rows, ahead);

            let all: Vec<Range> = existing.iter().chain(&new).copied().collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].to <= pair[1].from));
            prop_assert!(all.iter().filter(|range| range.from > last).count() >= ahead);
            for range in new {
                prop_assert!(range.from > last || existing.is_empty() || !range.is_behind(EventId::new(last)));
                prop_assert!(stray.is_none_or(|stray| stray.get() < range.from));
                prop_assert_eq!(range.to - range.from, new_rows);
            }
        }
    }

    #[test]
    fn ranges_follow_each_other() {
        let made = [range(1, 1_000_001), range(1_000_001, 2_000_001)];

        assert_eq!(missing(&made, EventId::ZERO, None, 1_000_000, 2), []);
        assert_eq!(missing(&made, EventId::new(5), None, 1_000_000, 2), [range(2_000_001, 3_000_001)]);
        assert_eq!(missing(&made, EventId::new(2_000_000), None, 1_000_000, 2).len(), 2);
    }

    #[test]
    fn who_is_late_leaves_to_the_default_partition_what_it_has() {
        let made = [range(1, 101), range(101, 201)];

        let new = missing(&made, EventId::new(250), Some(EventId::new(250)), 100, 2);

        assert_eq!(new, [range(301, 401), range(401, 501)]);
        assert_eq!(missing(&made, EventId::new(295), Some(EventId::new(290)), 100, 1), [range(401, 501)]);
    }
}
