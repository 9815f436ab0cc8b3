//! Delay before the next attempt: exponential, capped, with random jitter from the caller.

use crate::newtype::check_all;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Backoff {
    base: Duration,
    factor: f64,
    cap: Duration,
    jitter: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadBackoff {
    #[error("the backoff factor must be a number from 1 to 100")]
    Factor,
    #[error("the backoff cap must not be below its base")]
    Cap,
    #[error("the backoff jitter must be a share from 0 to 1")]
    Jitter,
}

impl Backoff {
    /// A delay that doubles from `first` to `longest`, less up to a half at random.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        Self { base: first, factor: 2.0, cap: longest.max(first), jitter: 0.5 }
    }

    /// A delay that starts at `base`, grows by `factor` per attempt up to `cap`, less up to the share `jitter` at random, so
    /// that those who failed together do not retry together.
    pub fn new(base: Duration, factor: f64, cap: Duration, jitter: f64) -> Result<Self, BadBackoff> {
        check_all([
            ((1.0..=100.0).contains(&factor), BadBackoff::Factor),
            (cap >= base, BadBackoff::Cap),
            ((0.0..=1.0).contains(&jitter), BadBackoff::Jitter),
        ])?;
        Ok(Self { base, factor, cap, jitter })
    }

    /// The delay after `attempt` failures (from 1). `unit` is a random number; it is clamped to 0 to 1.
    pub fn delay(&self, attempt: u32, unit: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.base.as_secs_f64() * self.factor.powi(exponent);
        let capped = grown.min(self.cap.as_secs_f64());
        let unit = if unit.is_finite() { unit.clamp(0.0, 1.0) } else { 0.0 };
        Duration::try_from_secs_f64(capped * (1.0 - self.jitter * unit)).unwrap_or(self.cap).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn backoff() -> impl Strategy<Value = Backoff> {
        (0..10_000_u64, 1.0..100.0_f64, 0..1_000_000_u64, 0.0..=1.0_f64).prop_map(
            |(base, factor, more, jitter)| {
                let base = Duration::from_millis(base);
                Backoff::new(base, factor, base + Duration::from_millis(more), jitter).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn the_delay_stays_between_the_jittered_base_and_the_cap(b in backoff(), attempt: u32, unit: f64) {
            let delay = b.delay(attempt, unit);
            prop_assert!(delay <= b.cap);
            let least = b.base.mul_f64(1.0 - b.jitter).saturating_sub(Duration::from_nanos(1000));
            prop_assert!(delay >= least, "{delay:?} < {least:?}");
        }

        #[test]
        fn later_attempts_never_wait_less(b in backoff(), attempt in 0..1000_u32, unit in 0.0..=1.0_f64) {
            prop_assert!(b.delay(attempt, unit) <= b.delay(attempt + 1, unit));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let second = Duration::from_secs(1);

        assert_eq!(Backoff::new(second, 0.5, second, 0.0), Err(BadBackoff::Factor));
        assert_eq!(Backoff::new(second, f64::NAN, second, 0.0), Err(BadBackoff::Factor));
        assert_eq!(Backoff::new(second, 2.0, Duration::ZERO, 0.0), Err(BadBackoff::Cap));
        assert_eq!(Backoff::new(second, 2.0, second, 1.5), Err(BadBackoff::Jitter));
    }

    #[test]
    fn the_delay_doubles_up_to_the_cap() {
        use crate::backoff::Backoff;
        use std::time::Duration;
        let backoff = Backoff::new(Duration::from_secs(1), 2.0, Duration::from_secs(60), 0.0).unwrap();
        assert_eq!(backoff.delay(4, 0.5), Duration::from_secs(8));
        assert_eq!(backoff.delay(400, 0.5), Duration::from_secs(60));
    }
}
