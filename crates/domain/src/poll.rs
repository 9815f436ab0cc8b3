//! How long a loop sleeps when no wake-up comes: short while there is work, longer when idle. Polling is the safety net
//! under notifications: it may be slow, but never stops.

use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Sleep right after work was found.
    pub min: Duration,
    pub max: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollResult {
    Work,
    Nothing,
}

impl Pace {
    /// The sleep after a turn with the result `found`; `last` is the sleep before. `unit` (a random number from 0 to 1) takes
    /// away up to a tenth, so that many loops do not poll at the same instant.
    pub fn next(&self, last: Duration, found: PollResult, unit: f64) -> Duration {
        let full = match found {
            PollResult::Work => self.min,
            PollResult::Nothing => last.saturating_mul(2).clamp(self.min, self.max.max(self.min)),
        };
        let unit = if unit.is_finite() { unit.clamp(0.0, 1.0) } else { 0.0 };
        full.mul_f64(1.0 - 0.1 * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_sleep_is_bounded_and_never_zero_for_a_sane_pace(
            min in 1..10_000_u64, more in 0..100_000_u64, last in 0..1_000_000_u64, unit: f64, work: bool,
        ) {
            let pace = Pace { min: Duration::from_millis(min), max: Duration::from_millis(min + more) };
            let found = if work { PollResult::Work } else { PollResult::Nothing };
            let sleep = pace.next(Duration::from_millis(last), found, unit);
            prop_assert!(sleep >= pace.min.mul_f64(0.89) && sleep <= pace.max);
        }
    }

    #[test]
    fn sleeps_double_while_idle_and_start_over_with_work() {
        use crate::poll::{Pace, PollResult};
        use std::time::Duration;
        let pace = Pace { min: Duration::from_millis(100), max: Duration::from_secs(5) };
        let calm = pace.next(Duration::from_millis(400), PollResult::Nothing, 0.0);
        assert_eq!(calm, Duration::from_millis(800));
        assert_eq!(pace.next(calm, PollResult::Work, 0.0), Duration::from_millis(100));
    }
}
