//! One line of a report: a figure, and whether it meets its target.

use std::fmt;

/// A figure, and whether it meets its target. A figure that was not measured does not.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) found: f64,
    pub(super) wanted: String,
    pub(super) holds: bool,
}

impl Line {
    pub(super) fn least(name: &'static str, found: f64, least: f64) -> Self {
        Self { name, found, wanted: format!(">= {least}"), holds: found >= least }
    }

    pub(super) fn most(name: &'static str, found: f64, most: f64) -> Self {
        Self { name, found, wanted: format!("<= {most}"), holds: found <= most }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "PASS" } else { "FAIL" };
        write!(f, "{:<38} {:>10.2} {:>10} {verdict}", self.name, self.found, self.wanted)
    }
}

/// The median. For an even number of values, it is the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!(median(vec![3.0, 1.0]), 2.0);
        assert_eq!(median(vec![3.0, 1.0, 1.5]), 1.5);
        assert!(median(Vec::new()).is_nan());
    }
}
