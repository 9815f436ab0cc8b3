//! How full a pool was: in steps of five minutes, and its daily peaks.

use crate::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

pub const STEP: Duration = Duration::from_secs(300);

/// A step is a peak when no step in this time before it was as full.
pub const PEAK_OF: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageStep {
    pub at: Timestamp,
    pub least: u64,
    pub most: u64,
    pub total: u64,
    pub samples: u64,
    pub most_waiting: u64,
}

pub fn step_of(at: Timestamp) -> Timestamp {
    let step = i64::try_from(STEP.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(at.as_micros().div_euclid(step).saturating_mul(step))
}

/// The completed steps with a higher usage than any step of the day before them. `steps` are in order.
pub fn peaks(steps: &[UsageStep], now: Timestamp) -> Vec<UsageStep> {
    // The steps of the day before that can still be the maximum, from the highest.
    let mut fullest: VecDeque<&UsageStep> = VecDeque::new();
    let mut peaks = Vec::new();
    for step in steps {
        while fullest.front().is_some_and(|first| first.at.plus(PEAK_OF) < step.at) {
            fullest.pop_front();
        }
        let is_new = fullest.front().is_none_or(|first| first.most < step.most);
        if is_new && step.most > 0 && step.at.plus(STEP) <= now {
            peaks.push(*step);
        }
        while fullest.back().is_some_and(|last| last.most <= step.most) {
            fullest.pop_back();
        }
        fullest.push_back(step);
    }
    peaks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(minutes * 60))
    }

    fn step(minutes: u64, most: u64) -> UsageStep {
        UsageStep { at: at(minutes), least: 0, most, total: most, samples: 1, most_waiting: 0 }
    }

    fn found(steps: &[UsageStep], now: u64) -> Vec<(Timestamp, u64)> {
        peaks(steps, at(now)).into_iter().map(|peak| (peak.at, peak.most)).collect()
    }

    #[test]
    fn only_what_is_over_and_fuller_than_the_day_before_is_a_peak() {
        let steps = [step(0, 0), step(5, 7), step(10, 7), step(15, 9), step(20, 8)];

        assert_eq!(found(&steps, 60), [(at(5), 7), (at(15), 9)]);
        assert_eq!(found(&steps, 19), [(at(5), 7)], "the step with 9 is not over");
        assert_eq!(found(&[step(0, 9), step(24 * 60, 8)], 3_000), [(at(0), 9)]);
        assert_eq!(found(&[step(0, 9), step(24 * 60 + 5, 8)], 3_000), [(at(0), 9), (at(24 * 60 + 5), 8)]);
    }

    proptest! {
        #[test]
        fn a_peak_is_what_the_definition_says(mosts in prop::collection::vec((1_u64..400, 0_u64..5), 0..60)) {
            let mut minutes = 0;
            let steps: Vec<UsageStep> = mosts
                .into_iter()
                .map(|(pause, most)| {
                    minutes += pause * 5;
                    step(minutes, most)
                })
                .collect();
            let is_peak = |step: &&UsageStep| {
                let before = |other: &&UsageStep| other.at < step.at && other.at.plus(PEAK_OF) >= step.at;
                step.most > 0 && steps.iter().filter(before).all(|other| other.most < step.most)
            };

            let expected: Vec<UsageStep> = steps.iter().filter(is_peak).copied().collect();
            prop_assert_eq!(peaks(&steps, at(minutes + 5)), expected);
        }

        #[test]
        fn an_instant_lies_in_its_step(micros in any::<i32>()) {
            let instant = Timestamp::from_micros(i64::from(micros) * 1_000_000);

            let step = step_of(instant);

            prop_assert!(step <= instant && instant < step.plus(STEP));
            prop_assert_eq!(step_of(step), step);
        }
    }

    #[test]
    fn an_instant_belongs_to_the_step_before_it() {
        use crate::pool::usage::step_of;
        let step = step_of("2026-11-15T02:13:59Z".parse().unwrap());
        assert_eq!(step, "2026-11-15T02:10:00Z".parse().unwrap());
    }
}
