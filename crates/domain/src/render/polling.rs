//! How often a worker polls for renders when no wake-up comes: three intervals. Polling is only the safety net. And how
//! often it polls a job at nexrender, which sends no wake-ups.

use crate::poll::PollResult;
use std::time::Duration;

/// After this many empty polls in a row the worker is idle.
const EMPTY_MAX: u32 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Polling {
    /// Right after a render.
    pub busy: Duration,
    /// `POLL_INTERVAL_DEFAULT`.
    pub default: Duration,
    /// `POLL_INTERVAL_IDLE`.
    pub idle: Duration,
}

impl Default for Polling {
    fn default() -> Self {
        Self { busy: Duration::from_secs(5), default: Duration::from_secs(10), idle: Duration::from_secs(30) }
    }
}

/// The first pauses between two polls of a job: a short film must not wait.
const JOB_PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The pause grows to this share of the time since the first poll.
const JOB_PAUSE_SHARE: u32 = 5;

/// The pause before the next poll of a job that has been polled for `age`: first a second, later at most `longest`.
pub fn job_pause(age: Duration, longest: Duration) -> Duration {
    (age / JOB_PAUSE_SHARE).max(JOB_PAUSE_FIRST).min(longest)
}

/// The longest pause between two tries to take a job out of nexrender.
const LEFTOVER_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// The pause before the next try to take a job out of nexrender, after the tries have failed for `age`.
pub fn leftover_pause(age: Duration, shortest: Duration) -> Duration {
    (age / JOB_PAUSE_SHARE).min(LEFTOVER_PAUSE_MAX).max(shortest)
}

/// The longest pause between two checks of the backends while one of them fails: renders wait for its return.
pub const CHECK_PAUSE_FAILED: Duration = Duration::from_secs(2);

/// Empty polls since the last render.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Empty(u32);

impl Polling {
    /// The sleep after a poll, and the new count.
    pub fn next(&self, empty: Empty, found: PollResult) -> (Duration, Empty) {
        let empty = match found {
            PollResult::Work => Empty(0),
            PollResult::Nothing => Empty(empty.0.saturating_add(1)),
        };
        let sleep = match empty.0 {
            // A short default also shortens the wait after work.
            0 => self.busy.min(self.default),
            1..EMPTY_MAX => self.default,
            _ => self.idle.max(self.default),
        };
        (sleep, empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_looks_in_vain_make_a_worker_idle_and_one_render_wakes_it() {
        let polling = Polling::default();
        let mut empty = Empty::default();
        let mut sleeps = Vec::new();
        for _ in 0..11 {
            let (sleep, counted) = polling.next(empty, PollResult::Nothing);
            sleeps.push(sleep.as_secs());
            empty = counted;
        }

        assert_eq!(sleeps, [10, 10, 10, 10, 10, 10, 10, 10, 10, 30, 30]);
        assert_eq!(polling.next(empty, PollResult::Work), (Duration::from_secs(5), Empty(0)));
    }

    proptest! {
        #[test]
        fn no_sleep_is_longer_than_the_longest_setting(
            default in 1..3_600_u64, idle in 1..3_600_u64, empty: u32, work: bool,
        ) {
            let polling = Polling {
                default: Duration::from_secs(default),
                idle: Duration::from_secs(idle),
                ..Polling::default()
            };
            let found = if work { PollResult::Work } else { PollResult::Nothing };
            let (sleep, _) = polling.next(Empty(empty), found);
            prop_assert!(sleep > Duration::ZERO && sleep <= polling.default.max(polling.idle));
        }
    }

    #[test]
    fn a_job_is_polled_each_second_first_and_every_five_seconds_later() {
        let longest = Duration::from_secs(5);
        let pauses = |ages: [u64; 5]| ages.map(|age| job_pause(Duration::from_secs(age), longest).as_secs());

        assert_eq!(pauses([0, 4, 10, 20, 3_600]), [1, 1, 2, 4, 5]);
        assert_eq!(job_pause(Duration::ZERO, Duration::from_millis(10)), Duration::from_millis(10));
    }

    #[test]
    fn a_job_that_cannot_be_taken_out_is_tried_less_and_less_often() {
        let pauses = |ages: [u64; 4]| {
            ages.map(|age| leftover_pause(Duration::from_secs(age), Duration::from_secs(5)).as_secs())
        };

        assert_eq!(pauses([0, 25, 600, 86_400]), [5, 5, 120, 300]);
        let long = Duration::from_secs(3_600);
        assert_eq!(leftover_pause(Duration::ZERO, long), long);
    }

    #[test]
    fn a_worker_that_had_a_render_looks_sooner() {
        use crate::poll::PollResult;
        use crate::render::polling::{Empty, Polling};
        use std::time::Duration;
        let (sleep, empty) = Polling::default().next(Empty::default(), PollResult::Work);
        assert_eq!(sleep, Duration::from_secs(5));
        assert_eq!(Polling::default().next(empty, PollResult::Nothing).0, Duration::from_secs(10));
    }
}
