//! One line of a report: a figure, and whether it is what is wanted.

use std::fmt;

/// A figure, and whether it is what is wanted. What was not measured is not.
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

/// Of an even number, the mean of the two in the middle: the higher one would flatter.
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
