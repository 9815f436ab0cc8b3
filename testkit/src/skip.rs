//! What a test does when a component of the machine is missing: it fails, unless somebody said that the
//! component may be missing, and then it is counted as skipped. A test that quietly passes is a false green.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The variable with the components that may be missing, separated by commas.
pub const SKIP: &str = "TIDEMILL_TEST_SKIP";

/// The variable with the file that collects what was skipped, one line for each skip.
pub const SKIPPED_LOG: &str = "TIDEMILL_TEST_SKIPPED_LOG";

/// Whether the tests of `component` are to be skipped. If so, the skip is noted for the summary of nextest's
/// run; return from the test then.
pub fn skipped(component: &str) -> bool {
    if !is_named(component) {
        return false;
    }
    note_skip(component);
    true
}

fn note_skip(component: &str) {
    if let Some(log) = env::var_os(SKIPPED_LOG) {
        let program = env::current_exe().unwrap_or_default();
        let program = program.file_stem().unwrap_or_default().to_string_lossy();
        let test = env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| "unknown".to_owned());
        let line = line(&program, &test, component);
        let noted = note(Path::new(&log), &line);
        assert!(noted.is_ok(), "cannot note a skipped test in {}: {noted:?}", log.display());
    }
}

/// The component, or none when it is to be skipped. Use it as
/// `let Some(binaries) = require("postgres", find_binaries()) else { return };`.
///
/// # Panics
///
/// When the component is missing although nobody said that it may be.
#[expect(clippy::panic, reason = "a missing component has to fail the test that needs it")]
pub fn require<T>(component: &str, found: Option<T>) -> Option<T> {
    if skipped(component) {
        return None;
    }
    match found {
        Some(found) => Some(found),
        None => panic!(
            "this test needs {component}, which was not found: install it, run `cargo xtask test`, \
             or set {SKIP}={component} to skip its tests"
        ),
    }
}

/// The component, or none when it is missing or to be skipped. For what no machine needs to have: the skip is counted, but
/// does not have to be asked for.
pub fn optional<T>(component: &str, found: Option<T>) -> Option<T> {
    if skipped(component) {
        return None;
    }
    if found.is_none() {
        note_skip(component);
    }
    found
}

/// Whether [`SKIP`] names `component`; notes nothing.
pub fn is_named(component: &str) -> bool {
    named(&env::var(SKIP).unwrap_or_default()).any(|name| name == component)
}

/// The components in a list such as the value of [`SKIP`].
///
/// ```
/// # use tidemill_testkit::skip::named;
/// assert_eq!(named("postgres, pgbouncer,").collect::<Vec<_>>(), ["postgres", "pgbouncer"]);
/// ```
pub fn named(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The program is part of the line because tests of two programs may share a name.
fn line(program: &str, test: &str, component: &str) -> String {
    format!("{program}\t{test}\t{component}\n")
}

/// One write of one short line at the end of the file, so that programs that run at once do not mix theirs.
fn note(log: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn skips_are_noted_one_below_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("skipped.log");

        note(&log, &line("store-1f", "lease::expires", "postgres")).unwrap();
        note(&log, &line("store-1f", "lease::renews", "postgres")).unwrap();

        let text = fs::read_to_string(log).unwrap();
        assert_eq!(text, "store-1f\tlease::expires\tpostgres\nstore-1f\tlease::renews\tpostgres\n");
    }

    #[test]
    fn a_component_is_named_as_a_whole() {
        assert!(named("kafka,postgres").any(|name| name == "postgres"));
        assert!(!named("postgresql").any(|name| name == "postgres"));
        assert_eq!(named("").count(), 0);
    }

    #[test]
    fn what_was_found_is_handed_on() {
        assert_eq!(require("a-component-that-nobody-skips", Some(7)), Some(7));
    }

    #[test]
    fn what_no_machine_needs_to_have_is_skipped_without_being_asked_for() {
        assert_eq!(optional("a-component-that-nobody-skips", Some(7)), Some(7));
        assert_eq!(optional::<()>("a-component-that-nobody-skips", None), None);
    }

    #[test]
    #[should_panic(expected = "this test needs a-component-that-nobody-skips")]
    fn what_is_missing_and_not_skipped_fails_the_test() {
        require::<()>("a-component-that-nobody-skips", None);
    }
}
