//! The hint of a statement, as far as a request for units is concerned: how parallel it makes the statement, and its
//! text with no more than was granted.

use std::num::NonZeroU32;
use tidemill_domain::hint::{Degree, Hint, rewrite};
use tidemill_domain::pool::Settings;
use tidemill_domain::pool::weight::{Lever, lever};

/// A hint that came with a request, read for its pool.
#[derive(Debug)]
pub(super) struct AskedHint {
    text: String,
    hint: Option<Hint>,
    /// What the statement asks for at most; none if the hint does not say.
    pub(super) degree: Option<NonZeroU32>,
    is_lowered: bool,
}

impl AskedHint {
    /// Reads a hint. What cannot be read counts for the most that it could mean.
    pub(super) fn read(text: &str, settings: &Settings) -> Self {
        let hint = Hint::parse(text).ok();
        let degree = match hint.as_ref().map(Hint::degree) {
            Some(Degree::None) => None,
            Some(degree) => Some(degree.upper_bound(settings.default_degree, settings.default_units)),
            None => Some(settings.default_degree),
        };
        // Where sessions are given out, the degree of each stays as it is.
        let is_lowered = lever(settings.weight, settings.hint_effective) == Lever::Parallel;
        Self { text: text.to_owned(), hint, degree, is_lowered }
    }

    /// Whether a grant of less than was asked for could be followed: otherwise it must not be made.
    pub(super) fn can_be_lowered(&self) -> bool {
        !self.is_lowered || self.with(NonZeroU32::MIN).is_some()
    }

    /// The text to run with, of somebody who was granted so much; none if it cannot be lowered to that.
    pub(super) fn with(&self, granted: NonZeroU32) -> Option<String> {
        if !self.is_lowered {
            return Some(self.text.clone());
        }
        rewrite(self.hint.as_ref()?, granted).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::pool::WeightModel;

    fn settings() -> Settings {
        Settings::new("ADW".parse().unwrap(), 1_000)
    }

    fn number(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    #[test]
    fn a_hint_says_how_parallel_and_is_lowered_to_what_was_granted() {
        let hint = AskedHint::read("/*+ PARALLEL(16) FULL(A) */", &settings());

        assert_eq!(hint.degree, Some(number(16)));
        assert_eq!(hint.with(number(8)).as_deref(), Some("/*+ PARALLEL(8) FULL(A) */"));
        assert_eq!(hint.with(number(16)).as_deref(), Some("/*+ PARALLEL(16) FULL(A) */"));
    }

    #[test]
    fn what_the_database_would_choose_counts_for_the_most() {
        assert_eq!(AskedHint::read("/*+ PARALLEL */", &settings()).degree, Some(number(16)));
        assert_eq!(AskedHint::read("/*+ FULL(A) */", &settings()).degree, None);
        assert_eq!(AskedHint::read("/*+ NO_PARALLEL */", &settings()).degree, Some(number(1)));
    }

    #[test]
    fn who_cannot_be_lowered_is_not_downgraded() {
        let unreadable = AskedHint::read("/*+ PARALLEL(8 */", &settings());
        assert!(!unreadable.can_be_lowered() && unreadable.degree.is_some(), "{unreadable:?}");
        assert!(AskedHint::read("/*+ PARALLEL(8) */", &settings()).can_be_lowered());
    }

    #[test]
    fn where_sessions_are_given_out_the_hint_stays() {
        let mut settings = settings();
        settings.weight = WeightModel::Sessions;
        let hint = AskedHint::read("/*+ PARALLEL(16) */", &settings);

        assert_eq!(hint.with(number(2)).as_deref(), Some("/*+ PARALLEL(16) */"));
    }
}
