//! An instant by which something must have happened. The only reader of the clock in this crate.

use std::time::{Duration, Instant};

/// The end of a wait for the world outside, which no fake clock can move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The instant that lies `wait` from now.
    pub(crate) fn after(wait: Duration) -> Self {
        Self(now() + wait)
    }

    /// What is left of the wait; none when it is over.
    pub(crate) fn remaining(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(now());
        (!left.is_zero()).then_some(left)
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for real processes, which do not follow a fake clock")]
fn now() -> Instant {
    Instant::now()
}
