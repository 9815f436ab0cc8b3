//! The end of a test run: what failed, what was skipped, and the counts.

use crate::report::Section;
use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use tidemill_testkit::skip::named;

/// Everything that a run is judged by.
#[derive(Debug)]
pub(crate) struct Summary {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
    components: BTreeSet<String>,
}

impl Summary {
    /// Adds up what the tests reported. `skips` is what they noted themselves: a line with program, test and
    /// component for each skip. `skip` is the list of what was to be skipped.
    pub(crate) fn new(sections: &[Section], skips: &str, skip: &str) -> Self {
        let sum = |count: fn(&Section) -> u64| sections.iter().map(count).sum::<u64>();
        let skipped = skipped_tests(sections, skips);
        Self {
            // The test harness saw them pass.
            passed: sum(|section| section.passed).saturating_sub(skipped),
            failed: sum(|section| section.failed),
            skipped: sum(|section| section.ignored) + skipped,
            components: named(skip).map(str::to_owned).collect(),
            failures: sections.iter().flat_map(named_failures).collect(),
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
        if !self.failures.is_empty() {
            writeln!(f, "\nfailed tests:")?;
            self.failures.iter().try_for_each(|name| writeln!(f, "  {name}"))?;
        }
        if !self.components.is_empty() {
            let names: Vec<&str> = self.components.iter().map(String::as_str).collect();
            writeln!(f, "\nskipped components: {}", names.join(", "))?;
        }
        writeln!(f)
    }
}

fn named_failures(section: &Section) -> Vec<String> {
    let place = section.program.as_ref().map_or(String::new(), |program| format!("  in {program}"));
    section.failures.iter().map(|name| format!("{name}{place}")).collect()
}

/// How many tests skipped themselves. A test that notes two components counts once; one that noted a skip and
/// failed all the same is a failed one. With one thread the harness runs tests on `main`, which names none of
/// them: then each line counts.
fn skipped_tests(sections: &[Section], skips: &str) -> u64 {
    let failed: BTreeSet<&str> =
        sections.iter().flat_map(|section| &section.failures).map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    let mut skipped = 0;
    for line in skips.lines() {
        let mut fields = line.split('\t');
        let (program, test) = (fields.next(), fields.next().unwrap_or_default());
        if !failed.contains(test) && (test == "main" || seen.insert((program, test))) {
            skipped += 1;
        }
    }
    skipped
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

    fn section(passed: u64, failures: &[&str]) -> Section {
        Section {
            program: Some("store src/lib.rs".to_owned()),
            passed,
            failed: failures.len() as u64,
            ignored: 1,
            failures: failures.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_test_that_skipped_itself_has_not_passed() {
        let skips = "store-1f\tlease::expires\tpostgres\nstore-1f\tlease::expires\tpgbouncer\n\
                     engine-2e\tlease::expires\tpostgres\n";

        let summary = Summary::new(&[section(5, &[])], skips, "postgres, pgbouncer");

        assert_eq!(summary.counts(), "3 passed, 0 failed, 3 skipped");
        assert!(summary.to_string().contains("skipped components: pgbouncer, postgres\n"));
        assert_eq!(summary.verdict(), Ok(()));
    }

    #[test]
    fn a_test_that_failed_after_a_skip_has_failed() {
        let summary = Summary::new(&[section(2, &["planted"])], "store-1f\tplanted\tpostgres\n", "postgres");

        assert_eq!(summary.counts(), "2 passed, 1 failed, 1 skipped");
        assert!(summary.to_string().contains("  planted  in store src/lib.rs\n"), "{summary}");
        assert_eq!(summary.verdict(), Err("1 test failed".to_owned()));
    }

    #[test]
    fn tests_on_the_main_thread_count_one_by_one() {
        let skips = "store-1f\tmain\tpostgres\nstore-1f\tmain\tpostgres\n";

        let summary = Summary::new(&[section(3, &[])], skips, "postgres");

        assert_eq!(summary.counts(), "1 passed, 0 failed, 3 skipped");
    }

    #[test]
    fn a_run_without_tests_is_not_green() {
        assert_eq!(Summary::new(&[], "", "").verdict(), Err("no test ran".to_owned()));
        assert_eq!(Summary::new(&[], "", "").counts(), "0 passed, 0 failed, 0 skipped");
    }
}
