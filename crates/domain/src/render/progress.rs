//! How far a render is, in percent. nexrender skips values, repeats them and rarely reaches 100; people see a number
//! that only grows, and 100 only when the file is published.

/// Percent, from 0 to 100. Only [`Progress::DONE`] is 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Progress(u8);

impl Progress {
    pub const NONE: Self = Self(0);
    pub const DONE: Self = Self(100);

    /// The most that a render has which is not published.
    const MOST: u8 = 99;

    /// Wraps a stored number; whatever is more than 100 is 100, and less than 0 is 0.
    pub const fn stored(percent: i64) -> Self {
        match percent {
            ..=0 => Self::NONE,
            // From 1 to 99, so nothing is cut off.
            1..=99 => Self(percent as u8),
            _ => Self::DONE,
        }
    }

    pub const fn get(self) -> u8 {
        self.0
    }

    /// After nexrender said so much: never less than before, and not yet done. What is no number says nothing.
    #[must_use]
    pub fn raised(self, percent: f64) -> Self {
        if percent.is_nan() {
            return self;
        }
        self.max(Self(percent.clamp(0.0, f64::from(Self::MOST)) as u8))
    }
}

crate::newtype::display!(Progress, progress => "{}%", progress.0);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_number_says_nothing() {
        let half = Progress::NONE.raised(50.0);

        assert_eq!(half.raised(f64::NAN), half);
        assert_eq!(half.raised(f64::NEG_INFINITY), half);
        assert_eq!(half.raised(f64::INFINITY).get(), 99);
        assert_eq!(half.raised(-1.0), half);
    }

    proptest! {
        #[test]
        fn it_never_falls_and_nobody_is_done_by_a_report(reports: Vec<f64>) {
            let mut progress = Progress::NONE;
            for report in reports {
                let next = progress.raised(report);
                prop_assert!(next >= progress && next < Progress::DONE);
                progress = next;
            }
        }

        #[test]
        fn what_is_stored_reads_back(percent: i64) {
            let progress = Progress::stored(percent);
            prop_assert_eq!(Progress::stored(i64::from(progress.get())), progress);
            prop_assert_eq!(i64::from(progress.get()), percent.clamp(0, 100));
        }
    }

    #[test]
    fn progress_is_whole_and_below_a_hundred_until_it_is_done() {
        use crate::render::Progress;
        let half = Progress::NONE.raised(50.9);
        assert_eq!(half.get(), 50);
        assert_eq!(half.raised(20.0), half);
        assert_eq!(half.raised(1e9).get(), 99);
    }
}
