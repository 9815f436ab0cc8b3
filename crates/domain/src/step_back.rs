//! Corrects stored ends after the database's clock went back. Otherwise a dead holder would keep its lease for that time.

use crate::time::Timestamp;
use std::time::Duration;

/// The longest lease of a process, a relay or a render that can be configured. Rows without a start count as this long.
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);

/// A lease, or the wait before the next attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it was granted or last renewed, by the database's clock.
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Span {
    /// A span of at most `most` whose start may be unknown.
    pub fn of(since: Option<Timestamp>, until: Timestamp, most: Duration) -> Self {
        Self { since: since.unwrap_or(until.minus(most)), until }
    }
}

/// The span as it counts at `now`. A span that begins in the future means that the clock has gone back: then it begins
/// now with the same length, and never ends later than before.
///
/// A living holder loses nothing: it renews within the length, by its own monotonic clock from before `since`.
#[must_use]
pub fn shortened(span: Span, now: Timestamp) -> Span {
    if span.since <= now {
        return span;
    }
    Span { since: now, until: now.plus(span.until.since(span.since)).min(span.until) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: std::ops::Range<i64> = 0..1_000_000;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn span() -> impl Strategy<Value = Span> {
        (AT, 0..100_000_u64).prop_map(|(since, length)| Span {
            since: at(since),
            until: at(since).plus(Duration::from_micros(length)),
        })
    }

    proptest! {
        #[test]
        fn a_clock_that_has_not_gone_back_changes_nothing(span in span(), later in 0..1_000_000_u64) {
            let now = span.since.plus(Duration::from_micros(later));
            prop_assert_eq!(shortened(span, now), span);
        }

        #[test]
        fn a_span_never_ends_later_than_before(since: i64, until: i64, now: i64) {
            let span = Span { since: at(since), until: at(until) };
            prop_assert!(shortened(span, at(now)).until <= span.until);
        }

        #[test]
        fn a_span_ends_within_its_length_from_now(span in span(), now in AT) {
            let length = span.until.since(span.since);
            let after = shortened(span, at(now));
            prop_assert!(after.since <= at(now));
            prop_assert!(after.until <= at(now).plus(length));
        }

        /// A living holder renews within the length, measured from before the span began.
        #[test]
        fn a_span_whose_clock_went_back_lasts_for_its_whole_length_from_now(span in span(), now in AT) {
            prop_assume!(at(now) < span.since);
            prop_assert_eq!(shortened(span, at(now)).until.since(at(now)), span.until.since(span.since));
        }

        #[test]
        fn looking_again_and_again_does_not_postpone_the_end(
            span in span(), now in AT, waits in prop::collection::vec(0..10_000_u64, 1..20),
        ) {
            let first = shortened(span, at(now));
            let (mut after, mut now) = (first, at(now));
            for wait in waits {
                now = now.plus(Duration::from_micros(wait));
                after = shortened(after, now);
            }
            prop_assert_eq!(after, first);
        }

        /// However often the clock goes back, the span ends within one length of the last step.
        #[test]
        fn several_steps_back_do_not_lengthen(span in span(), readings in prop::collection::vec(AT, 1..20)) {
            let length = span.until.since(span.since);
            let after = readings.iter().fold(span, |span, now| shortened(span, at(*now)));
            let lowest = readings.iter().copied().fold(span.since.as_micros(), i64::min);
            prop_assert!(after.until <= at(lowest).plus(length));
        }

        #[test]
        fn a_span_of_unknown_beginning_is_as_long_as_it_may_be(until in AT, most in 0..1_000_000_u64, now in AT) {
            let most = Duration::from_micros(most);
            let after = shortened(Span::of(None, at(until), most), at(now)).until;
            prop_assert_eq!(after, at(until).min(at(now).plus(most)));
        }
    }

    #[test]
    fn a_span_from_the_future_begins_now() {
        use crate::step_back::{Span, shortened};
        use crate::time::Timestamp;
        use std::time::Duration;
        let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let (ttl, hour) = (Duration::from_secs(15), Duration::from_secs(3_600));
        let lease = Span { since: noon, until: noon.plus(ttl) };

        let eleven = noon.minus(hour);
        assert_eq!(shortened(lease, eleven), Span { since: eleven, until: eleven.plus(ttl) });
    }
}
