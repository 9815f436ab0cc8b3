//! Retries of a notice: until it arrives, is refused for good, or has failed too often.

use crate::backoff::{Backoff, BadBackoff};
use crate::time::Timestamp;
use std::time::Duration;

pub const ATTEMPTS_MAX: u32 = 10;

/// The delivery of a notice to one channel. `attempt` counts failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    Waiting { attempt: u32, run_after: Timestamp },
    Delivered { at: Timestamp },
    Failed { at: Timestamp },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    Arrived,
    FailedForNow,
    FailedForGood,
}

pub fn backoff() -> Result<Backoff, BadBackoff> {
    Backoff::new(Duration::from_secs(1), 3.0, Duration::from_secs(600), 0.2)
}

/// The state after an attempt that ended at `now`; `delay` is the backoff. Final states stay as they are. Total.
pub fn next(
    state: DeliveryState,
    attempt: Attempt,
    delay: impl FnOnce(u32) -> Duration,
    now: Timestamp,
) -> DeliveryState {
    match (state, attempt) {
        (DeliveryState::Delivered { .. } | DeliveryState::Failed { .. }, _) => state,
        (DeliveryState::Waiting { .. }, Attempt::Arrived) => DeliveryState::Delivered { at: now },
        (DeliveryState::Waiting { .. }, Attempt::FailedForGood) => DeliveryState::Failed { at: now },
        (DeliveryState::Waiting { attempt, .. }, Attempt::FailedForNow) => {
            let attempt = attempt.saturating_add(1);
            if attempt >= ATTEMPTS_MAX {
                DeliveryState::Failed { at: now }
            } else {
                DeliveryState::Waiting { attempt, run_after: now.plus(delay(attempt)) }
            }
        }
    }
}
