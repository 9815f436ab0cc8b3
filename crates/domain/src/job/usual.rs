//! Whether a run takes longer than the earlier runs of its job.

use std::time::Duration;

/// Fewer completed runs do not show what is usual.
pub const HISTORY_MIN: usize = 5;

/// A run that takes at most this much longer than usual is never too long, however short it usually is.
pub const EXCESS_MIN: Duration = Duration::from_secs(60);

/// How many times as long as usual a run has taken so far. Nine of ten earlier runs took at most the usual time. At
/// most 1 within [`EXCESS_MIN`]; none with fewer than [`HISTORY_MIN`] earlier runs.
///
/// ```
/// use std::time::Duration;
/// use tidemill_domain::job::usual::times_usual;
///
/// let minutes = |count: u64| Duration::from_secs(60 * count);
/// assert_eq!(times_usual(minutes(30), [8, 9, 9, 9, 10].map(minutes)), Some(3.0));
/// assert_eq!(times_usual(minutes(30), [8, 9].map(minutes)), None);
/// ```
pub fn times_usual(so_far: Duration, earlier: impl IntoIterator<Item = Duration>) -> Option<f64> {
    let mut earlier: Vec<Duration> = earlier.into_iter().collect();
    if earlier.len() < HISTORY_MIN {
        return None;
    }
    earlier.sort_unstable();
    let rank = (earlier.len() * 9).div_ceil(10);
    let usual = earlier.get(rank.saturating_sub(1)).copied()?.max(Duration::from_secs(1));
    let times = so_far.as_secs_f64() / usual.as_secs_f64();
    Some(if so_far > usual.saturating_add(EXCESS_MIN) { times } else { times.min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn lengths() -> impl Strategy<Value = Vec<Duration>> {
        vec((0..100_000_u64).prop_map(Duration::from_secs), 0..60)
    }

    proptest! {
        #[test]
        fn a_longer_run_is_never_closer_to_usual(
            earlier in lengths(), shorter in 0..1_000_000_u64, more in 0..1_000_000_u64,
        ) {
            let times = |seconds| times_usual(Duration::from_secs(seconds), earlier.iter().copied());

            prop_assert!(times(shorter) <= times(shorter + more));
            prop_assert_eq!(times(shorter).is_some(), earlier.len() >= HISTORY_MIN);
        }

        #[test]
        fn nine_of_ten_earlier_runs_were_not_too_long(earlier in lengths()) {
            let too_long = |length: &&Duration| {
                times_usual(**length, earlier.iter().copied()).is_some_and(|times| times > 1.0)
            };

            prop_assert!(earlier.iter().filter(too_long).count() * 10 <= earlier.len());
        }

        #[test]
        fn longer_earlier_runs_make_a_run_more_usual(
            earlier in lengths(), so_far in 0..1_000_000_u64, more in 0..100_000_u64,
        ) {
            let so_far = Duration::from_secs(so_far);
            let slower = earlier.iter().map(|length| *length + Duration::from_secs(more));

            prop_assert!(times_usual(so_far, slower) <= times_usual(so_far, earlier.iter().copied()));
        }
    }

    #[test]
    fn a_short_job_may_take_a_minute_more_and_nothing_overflows() {
        let quick = [Duration::ZERO; HISTORY_MIN];

        assert_eq!(times_usual(Duration::from_secs(61), quick), Some(1.0));
        assert_eq!(times_usual(Duration::from_secs(62), quick), Some(62.0));
        assert_eq!(times_usual(Duration::MAX, [Duration::MAX; HISTORY_MIN]), Some(1.0));
    }
}
