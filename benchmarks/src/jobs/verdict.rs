//! The targets, and whether the figures meet them. A figure that could not be measured misses its target.

use std::fmt;

/// The maximum resident memory of a job, in MB.
pub(super) const RESIDENT_MB_MAX: f64 = 45.0;

/// The maximum ratio between the memory of a run over ten times the rows and that of a normal run.
pub(super) const GROWTH_MAX: f64 = 1.25;

/// The maximum share of the CPU time of the server that the same job of Spring Batch takes.
pub(super) const SERVER_SHARE_MAX: f64 = 1.0 / 3.0;

/// The target for statements on the job tables per chunk.
pub(super) const STATEMENTS: f64 = 1.0;

/// The tolerance: an execution has a few statements that belong to no chunk.
const STATEMENTS_OFF: f64 = 0.01;

/// Whether a figure meets its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Ok,
    Missed,
}

impl Verdict {
    fn when(holds: bool) -> Self {
        if holds { Self::Ok } else { Self::Missed }
    }

    /// Judges a share of the baseline, which must be at least `least`.
    pub(super) fn of_ratio(ratio: f64, least: f64) -> Self {
        Self::when(ratio >= least)
    }

    /// Judges a share of the CPU time of the server.
    pub(super) fn of_server_share(share: f64) -> Self {
        Self::when(share <= SERVER_SHARE_MAX)
    }

    /// In a line of its own.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Ok => "holds",
            Self::Missed => "does not hold",
        }
    }

    /// Judges the memory of a job.
    pub(super) fn of_memory(resident_mb: Option<f64>) -> Self {
        Self::when(resident_mb.is_some_and(|mb| mb <= RESIDENT_MB_MAX))
    }

    /// Judges the statements per chunk.
    pub(super) fn of_statements(per_chunk: f64) -> Self {
        Self::when((per_chunk - STATEMENTS).abs() <= STATEMENTS_OFF)
    }

    /// Compares the memory of a run with that of a run over ten times the rows.
    pub(super) fn of_growth(short_mb: Option<f64>, long_mb: Option<f64>) -> Self {
        let is_flat = short_mb.zip(long_mb).is_some_and(|(short, long)| long <= short * GROWTH_MAX);
        Self::when(is_flat && Self::of_memory(long_mb) == Self::Ok)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Missed => "MISSED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Missed, Ok};
    use super::*;

    #[test]
    fn a_share_below_the_wanted_one_is_missed() {
        assert_eq!(Verdict::of_ratio(0.5, 0.5), Ok);
        assert_eq!(Verdict::of_ratio(0.499, 0.5), Missed);
        assert_eq!(Verdict::of_ratio(f64::NAN, 0.5), Missed);
    }

    #[test]
    fn a_larger_share_of_the_server_or_an_unknown_one_is_missed() {
        assert_eq!(Verdict::of_server_share(0.333), Ok);
        assert_eq!(Verdict::of_server_share(0.334), Missed);
        assert_eq!(Verdict::of_server_share(f64::NAN), Missed);
    }

    #[test]
    fn memory_beyond_the_limit_or_untold_is_missed() {
        assert_eq!(Verdict::of_memory(Some(45.0)), Ok);
        assert_eq!(Verdict::of_memory(Some(45.1)), Missed);
        assert_eq!(Verdict::of_memory(None), Missed);
    }

    #[test]
    fn one_statement_per_chunk_is_wanted_neither_more_nor_fewer() {
        assert_eq!(Verdict::of_statements(1.005), Ok);
        assert_eq!(Verdict::of_statements(1.02), Missed);
        assert_eq!(Verdict::of_statements(0.98), Missed);
        assert_eq!(Verdict::of_statements(f64::NAN), Missed);
    }

    #[test]
    fn memory_that_grows_with_the_rows_is_missed_even_below_the_limit() {
        assert_eq!(Verdict::of_growth(Some(20.0), Some(25.0)), Ok);
        assert_eq!(Verdict::of_growth(Some(20.0), Some(25.1)), Missed);
        assert_eq!(Verdict::of_growth(Some(44.0), Some(46.0)), Missed);
        assert_eq!(Verdict::of_growth(None, Some(20.0)), Missed);
    }
}
