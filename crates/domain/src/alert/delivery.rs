//! How often a notice is tried: until it arrives, is refused for good, or has failed too often.

use crate::backoff::{Backoff, BadBackoff};
use crate::time::Timestamp;
use std::time::Duration;

/// Most attempts for one notice on one channel.
pub const ATTEMPTS_MAX: u32 = 10;

/// Where a notice on its way to one channel stands. `attempt` counts those that have failed.
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

/// The state after an attempt that ended at `now`; `delay` is the backoff after one more failure. What has ended
/// stays as it is. Total.
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
