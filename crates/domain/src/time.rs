//! Instants and clocks. Only `engine::clock` reads the real clock; [`FakeClock`] is for tests.

use crate::duration::span;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An instant in UTC with microsecond precision, as both databases store it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const EPOCH: Self = Self(0);
    pub const MAX: Self = Self(i64::MAX);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// Saturates.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// Zero when `earlier` is later, because clocks may jump back.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.unsigned_abs())
    }

    /// Such as `3 min ago` or `in 2 h`.
    pub fn relative_to(self, now: Self) -> String {
        match self > now {
            true => format!("in {}", span(self.since(now))),
            false => format!("{} ago", span(now.since(self))),
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// RFC 3339 in UTC with six decimals, so that texts sort like instants.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

crate::newtype::serde_as_text!(Timestamp);

crate::newtype::parsed!(
    Timestamp, |text| text.parse::<jiff::Timestamp>().ok().map(|instant| Self(instant.as_microsecond())),
    NotAnInstant(text): "{0:?} is not an RFC 3339 instant such as 2026-11-15T12:00:00Z"
);

/// A reading of a monotonic clock. Comparable only within one process; never stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Monotonic(Duration);

impl Monotonic {
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

pub trait Clock: fmt::Debug + Send + Sync {
    /// The host's wall clock, which may jump. Leases follow the database's clock instead.
    fn now(&self) -> Timestamp;

    /// The host's monotonic clock, which never goes back.
    fn monotonic(&self) -> Monotonic;
}

/// A clock that moves only by [`advance`](Self::advance) and [`jump_to`](Self::jump_to).
#[derive(Debug)]
pub struct FakeClock {
    reading: Mutex<(Timestamp, Duration)>,
}

impl FakeClock {
    pub fn at(instant: Timestamp) -> Self {
        Self { reading: Mutex::new((instant, Duration::ZERO)) }
    }

    pub fn advance(&self, duration: Duration) {
        let mut reading = self.reading();
        reading.0 = reading.0.plus(duration);
        reading.1 = reading.1.saturating_add(duration);
    }

    /// Sets the wall clock only.
    pub fn jump_to(&self, instant: Timestamp) {
        self.reading().0 = instant;
    }

    fn reading(&self) -> MutexGuard<'_, (Timestamp, Duration)> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.reading().0
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.reading().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_jump_of_the_wall_clock_leaves_the_monotonic_clock_alone() {
        let clock = FakeClock::at(Timestamp::EPOCH.plus(Duration::from_secs(7200)));
        let before = clock.monotonic();

        clock.jump_to(Timestamp::EPOCH);

        assert_eq!(clock.monotonic(), before);
        assert_eq!(clock.now(), Timestamp::EPOCH);
    }

    proptest! {
        #[test]
        fn text_round_trips(micros in -62_135_596_800_000_000_i64..253_402_207_200_000_000) {
            let instant = Timestamp::from_micros(micros);
            prop_assert_eq!(instant.to_string().parse::<Timestamp>().unwrap(), instant);
        }

        #[test]
        fn arithmetic_never_wraps_and_durations_are_never_negative(a: i64, b: i64, seconds: u64) {
            let (a, b) = (Timestamp::from_micros(a), Timestamp::from_micros(b));
            let step = Duration::from_secs(seconds);
            prop_assert!(a.plus(step) >= a);
            prop_assert!(a.minus(step) <= a);
            prop_assert!(a.since(b) == Duration::ZERO || b.since(a) == Duration::ZERO);
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_a_panic(text in ".{0,80}") {
            let _answer = text.parse::<Timestamp>();
        }
    }

    #[test]
    fn an_instant_is_written_with_six_decimals() {
        use crate::time::Timestamp;
        let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        assert_eq!(noon.to_string(), "2026-11-15T12:00:00.000000Z");
    }

    #[test]
    fn a_fake_clock_moves_only_when_advanced() {
        use crate::time::{Clock, FakeClock, Timestamp};
        use std::time::Duration;
        let clock = FakeClock::at(Timestamp::EPOCH);
        clock.advance(Duration::from_secs(31));
        assert_eq!(clock.now(), Timestamp::from_micros(31_000_000));
    }
}
