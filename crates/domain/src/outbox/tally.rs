//! What relays have published, and at what cost: polls and statements. Unknown numbers are none, never 0.

use crate::newtype::approximate;
use std::time::Duration;

/// Since the relay joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effort {
    pub polls: u64,
    pub empty_polls: u64,
    pub queries: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub published: u64,
    pub effort: Effort,
}

impl Tally {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The difference to an earlier tally of the same relay.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, both: fn(u64, u64) -> u64) -> Self {
        Self {
            published: both(self.published, other.published),
            effort: Effort {
                polls: both(self.effort.polls, other.effort.polls),
                empty_polls: both(self.effort.empty_polls, other.effort.empty_polls),
                queries: both(self.effort.queries, other.effort.queries),
            },
        }
    }

    /// None when no time has passed.
    pub fn published_per_second(self, spent: Duration) -> Option<f64> {
        (!spent.is_zero()).then(|| approximate(self.published) / spent.as_secs_f64())
    }

    /// None without polls.
    pub fn empty_poll_ratio(self) -> Option<f64> {
        let Effort { polls, empty_polls, .. } = self.effort;
        (polls > 0).then(|| approximate(empty_polls) / approximate(polls))
    }

    pub fn queries_per_10000_events(self) -> Option<f64> {
        (self.published > 0)
            .then(|| approximate(self.effort.queries) * 10_000.0 / approximate(self.published))
    }
}

/// A number that was counted up to a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    Exactly(u64),
    /// This many or more; 0 means unknown.
    AtLeast(u64),
}

impl Count {
    /// A count that was stopped after `most`.
    pub fn up_to(most: u64, counted: u64) -> Self {
        if counted > most { Self::AtLeast(most) } else { Self::Exactly(counted) }
    }

    pub const fn least(self) -> u64 {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }

    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exactly(_))
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let sum = self.least().saturating_add(other.least());
        if self.is_exact() && other.is_exact() { Self::Exactly(sum) } else { Self::AtLeast(sum) }
    }
}

crate::newtype::display!(Count {
    Self::Exactly(count) => "{count}";
    Self::AtLeast(0) => "unknown";
    Self::AtLeast(count) => "at least {count}";
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tallies() -> impl Strategy<Value = Tally> {
        (0..1_000_000_u64, 0..1_000_000_u64, 0..1_000_000_u64, 0..1_000_000_u64).prop_map(
            |(published, found, empty_polls, queries)| Tally {
                published,
                effort: Effort { polls: found + empty_polls, empty_polls, queries },
            },
        )
    }

    #[test]
    fn what_nobody_can_know_is_none() {
        let nothing = Tally::default();

        assert_eq!(nothing.published_per_second(Duration::ZERO), None);
        assert_eq!(nothing.published_per_second(Duration::from_secs(1)), Some(0.0));
        assert_eq!((nothing.empty_poll_ratio(), nothing.queries_per_10000_events()), (None, None));
    }

    #[test]
    fn a_batch_of_500_by_two_statements_is_40_for_10000() {
        let effort = Effort { polls: 4, empty_polls: 1, queries: 2 };
        let tally = Tally { published: 500, effort };

        assert_eq!(tally.queries_per_10000_events(), Some(40.0));
        assert_eq!(tally.empty_poll_ratio(), Some(0.25));
        assert_eq!(tally.published_per_second(Duration::from_secs(2)), Some(250.0));
    }

    proptest! {
        #[test]
        fn what_came_since_is_what_was_added(before in tallies(), added in tallies()) {
            prop_assert_eq!(before.plus(added).since(before), added);
            prop_assert_eq!(before.plus(added), added.plus(before));
        }

        #[test]
        fn a_ratio_is_a_part_of_the_whole(tally in tallies()) {
            let ratio = tally.empty_poll_ratio();

            prop_assert_eq!(ratio.is_some(), tally.effort.polls > 0);
            prop_assert!(ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)));
        }

        #[test]
        fn together_two_relays_are_between_the_better_and_the_worse(one in tallies(), other in tallies()) {
            let rates = [one, other].map(Tally::queries_per_10000_events);
            if let [Some(one_rate), Some(other_rate)] = rates {
                let together = one.plus(other).queries_per_10000_events().unwrap();
                prop_assert!(together >= one_rate.min(other_rate) - 1e-6);
                prop_assert!(together <= one_rate.max(other_rate) + 1e-6);
            }
        }
    }

    #[test]
    fn what_was_not_counted_is_not_claimed() {
        assert_eq!(Count::up_to(10, 10), Count::Exactly(10));
        assert_eq!(Count::up_to(10, 11).to_string(), "at least 10");
        assert_eq!(Count::AtLeast(0).to_string(), "unknown");
        assert_eq!(Count::Exactly(1).plus(Count::AtLeast(2)), Count::AtLeast(3));
        assert_eq!(Count::Exactly(1).plus(Count::Exactly(2)).to_string(), "3");
    }
}
