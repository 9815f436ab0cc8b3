//! Statistics of a job's recent runs.

use super::step::OFFSET_KEY;
use super::{BatchStatus, ExecutionContext};
use crate::pool::run_times::quantile;
use std::time::Duration;

/// Stopped runs are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    pub completed: u64,
    pub unsuccessful: u64,
}

impl Outcomes {
    pub fn add(&mut self, status: BatchStatus, runs: u64) {
        match status {
            BatchStatus::Completed => self.completed += runs,
            status if status.is_unsuccessful() => self.unsuccessful += runs,
            _ => {}
        }
    }

    pub const fn total(self) -> u64 {
        self.completed + self.unsuccessful
    }

    /// The share that completed in percent, rounded down so that only all are 100; none without runs.
    pub const fn percent(self) -> Option<u64> {
        (self.completed * 100).checked_div(self.total())
    }
}

/// Of two in the middle, the shorter.
pub fn median(lengths: impl IntoIterator<Item = Duration>) -> Option<Duration> {
    let mut lengths: Vec<Duration> = lengths.into_iter().collect();
    lengths.sort_unstable();
    quantile(&lengths, 50)
}

/// Suffix of a reader's item count in the step's context.
const READ_COUNT: &str = ".read.count";

/// How many items a step has read in all its runs, from its context. None unless exactly one reader counts them.
pub fn items_behind(context: &ExecutionContext) -> Option<u64> {
    let mut counts =
        context.iter().filter(|(key, _)| key.ends_with(READ_COUNT)).filter_map(|(_, value)| value.as_u64());
    let (count, None) = (counts.next()?, counts.next()) else { return None };
    let settled = context.get(OFFSET_KEY).map_or(Some(0), serde_json::Value::as_u64)?;
    count.checked_add(settled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn what_was_stopped_or_still_runs_counts_neither_way() {
        let mut outcomes = Outcomes::default();
        for status in BatchStatus::ALL {
            outcomes.add(status, 1);
        }

        assert_eq!(outcomes, Outcomes { completed: 1, unsuccessful: 3 });
        assert_eq!(outcomes.percent(), Some(25));
    }

    #[test]
    fn items_behind_are_those_that_one_reader_has_counted_and_those_settled_after() {
        let mut context = ExecutionContext::new();
        assert_eq!(items_behind(&context), None);
        context.put("orders.read.count", 20);
        context.put(OFFSET_KEY, 3);
        assert_eq!(items_behind(&context), Some(23));
        context.put("other.read.count", 1);
        assert_eq!(items_behind(&context), None);
        context.remove("other.read.count");
        context.put("orders.read.count", "many");
        assert_eq!(items_behind(&context), None);
    }

    #[test]
    fn there_is_no_median_of_nothing() {
        assert_eq!(median([]), None);
    }

    proptest! {
        #[test]
        fn the_median_is_one_of_them_and_in_their_middle(lengths in vec(0..100_u64, 1..40)) {
            let lengths: Vec<Duration> = lengths.into_iter().map(Duration::from_secs).collect();
            let found = median(lengths.iter().copied()).unwrap();

            prop_assert!(lengths.contains(&found));
            prop_assert!(lengths.iter().filter(|length| **length < found).count() * 2 <= lengths.len());
            prop_assert!(lengths.iter().filter(|length| **length > found).count() * 2 <= lengths.len());
        }

        #[test]
        fn only_when_all_completed_it_is_a_hundred(completed in 0..10_000_u64, unsuccessful in 0..10_000_u64) {
            let outcomes = Outcomes { completed, unsuccessful };

            prop_assert_eq!(outcomes.percent() == Some(100), completed > 0 && unsuccessful == 0);
            prop_assert!(outcomes.percent().unwrap_or(0) <= 100);
        }
    }

    #[test]
    fn only_all_are_a_hundred_percent() {
        use crate::job::track::Outcomes;
        assert_eq!(Outcomes { completed: 199, unsuccessful: 1 }.percent(), Some(99));
        assert_eq!(Outcomes::default().percent(), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        use crate::job::track::median;
        use std::time::Duration;
        let seconds = [9, 1, 4].map(Duration::from_secs);
        assert_eq!(median(seconds), Some(Duration::from_secs(4)));
    }

    #[test]
    fn items_are_those_that_the_reader_counts() {
        use crate::job::{ExecutionContext, track::items_behind};
        let mut context = ExecutionContext::new();
        context.put("orders.read.count", 60_500);
        assert_eq!(items_behind(&context), Some(60_500));
    }
}
