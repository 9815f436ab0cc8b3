//! The end of a test run: what failed, what was skipped, and the counts.

use crate::report::TestRun;
use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use tidemill_testkit::skip::named;

/// So many of the slowest tests are listed.
const SLOWEST: usize = 10;

/// Everything that a run is judged by.
#[derive(Debug)]
pub(crate) struct Summary {
    passed: usize,
    failed: usize,
    skipped: usize,
    failures: Vec<String>,
    slowest: Vec<String>,
    components: BTreeSet<String>,
}

impl Summary {
    /// Adds up what the tests reported. `skips` is what they noted themselves: a line with program, test and
    /// component for each skip. `skip` is the list of what was to be skipped.
    pub(crate) fn new(mut runs: Vec<TestRun>, skips: &str, skip: &str) -> Self {
        let noted: BTreeSet<&str> = skips.lines().filter_map(|line| line.split('\t').nth(1)).collect();
        let failed = runs.iter().filter(|run| run.has_failed).count();
        // A test that noted a skip and failed all the same is a failed one.
        let skipped = runs.iter().filter(|run| !run.has_failed && noted.contains(&*run.name)).count();
        let failures =
            runs.iter().filter(|run| run.has_failed).map(|run| format!("{}  in {}", run.name, run.program));
        let failures = failures.collect();
        let passed = runs.len() - failed - skipped;
        runs.sort_by_key(|run| std::cmp::Reverse(run.time));
        let line =
            |run: &TestRun| format!("{:>6.1} s  {}  in {}", run.time.as_secs_f64(), run.name, run.program);
        Self {
            passed,
            failed,
            skipped,
            failures,
            slowest: runs.iter().take(SLOWEST).map(line).collect(),
            components: named(skip).map(str::to_owned).collect(),
        }
    }

    /// Why the run is not good, if it is not.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        match (self.failed, self.passed) {
            (0, 0) => Err("no test ran".to_owned()),
            (0, _) => Ok(()),
            (1, _) => Err("1 test failed".to_owned()),
            (failed, _) => Err(format!("{failed} tests failed")),
        }
    }

    /// The last line of the output, which other programs read.
    pub(crate) fn counts(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = |title: &str, lines: &[String]| -> fmt::Result {
            if lines.is_empty() {
                return Ok(());
            }
            writeln!(f, "\n{title}:")?;
            lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
        };
        list("slowest tests", &self.slowest)?;
        list("failed tests", &self.failures)?;
        if !self.components.is_empty() {
            let names: Vec<&str> = self.components.iter().map(String::as_str).collect();
            writeln!(f, "\nskipped components: {}", names.join(", "))?;
        }
        writeln!(f)
    }
}

/// The file in which tests note that they skipped themselves.
#[derive(Debug)]
pub(crate) struct SkipLog {
    path: PathBuf,
}

impl SkipLog {
    /// A new, empty file.
    pub(crate) fn create() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("tidemill-skipped-{}.log", std::process::id()));
        // Left by a process that had our number and was killed.
        let _removed = fs::remove_file(&path);
        OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was noted so far.
    pub(crate) fn read(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }
}

impl Drop for SkipLog {
    fn drop(&mut self) {
        let _removed = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn runs(names: &[&str], failed: &[&str]) -> Vec<TestRun> {
        let run = |(n, name): (u64, &&str)| TestRun {
            program: "tidemill-store".to_owned(),
            name: (*name).to_owned(),
            time: Duration::from_secs(n),
            has_failed: failed.contains(name),
        };
        (0..).zip(names).map(run).collect()
    }

    #[test]
    fn a_test_that_skipped_itself_has_not_passed() {
        let skips = "store-1f\tlease::expires\tpostgres\nstore-1f\tlease::expires\tpgbouncer\n";

        let summary =
            Summary::new(runs(&["lease::expires", "lease::renews"], &[]), skips, "postgres, pgbouncer");

        assert_eq!(summary.counts(), "1 passed, 0 failed, 1 skipped");
        assert!(summary.to_string().contains("skipped components: pgbouncer, postgres\n"));
        assert_eq!(summary.verdict(), Ok(()));
    }

    #[test]
    fn a_test_that_failed_after_a_skip_has_failed() {
        let skips = "store-1f\tplanted\tpostgres\n";

        let summary = Summary::new(runs(&["fine", "planted"], &["planted"]), skips, "postgres");

        assert_eq!(summary.counts(), "1 passed, 1 failed, 0 skipped");
        assert!(summary.to_string().contains("failed tests:\n  planted  in tidemill-store\n"), "{summary}");
        assert_eq!(summary.verdict(), Err("1 test failed".to_owned()));
    }

    #[test]
    fn the_slowest_tests_are_listed_first_to_last() {
        let names: Vec<String> = (0..12).map(|n| format!("test_{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();

        let text = Summary::new(runs(&names, &[]), "", "").to_string();

        let listed: Vec<&str> = text.lines().filter_map(|line| line.split("test_").nth(1)).collect();
        assert_eq!(listed.len(), SLOWEST);
        assert!(listed[0].starts_with("11 ") && listed[9].starts_with("2 "), "{text}");
    }

    #[test]
    fn a_run_without_tests_is_not_green() {
        assert_eq!(Summary::new(Vec::new(), "", "").verdict(), Err("no test ran".to_owned()));
        assert_eq!(Summary::new(Vec::new(), "", "").counts(), "0 passed, 0 failed, 0 skipped");
    }
}
