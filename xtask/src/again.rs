//! Tests that failed are tried once more, one at a time, when all others are done. What passes then does not fail the run:
//! most tests here start processes and servers, and a machine that is busy with something else makes them late. It may also
//! be a race, which is rarer alone: so each is named at the end of the run, and somebody has to look at it. Pure.

use crate::report::Section;

/// So many may fail together because a machine was slow for a while. More are a fault.
const MOST: usize = 12;

/// The tests to try once more. None when there are too many, or a program died with its tests.
pub(crate) fn names(sections: &[Section]) -> Vec<&str> {
    let failed: u64 = sections.iter().map(|section| section.failed).sum();
    let names: Vec<&str> = sections
        .iter()
        .filter(|section| section.program.is_some())
        .flat_map(|section| &section.failures)
        .map(String::as_str)
        .collect();
    if names.len() as u64 == failed && names.len() <= MOST { names } else { Vec::new() }
}

/// Takes what passed the second time as passed; returns the names.
pub(crate) fn settle(sections: &mut [Section], again: &[Section]) -> Vec<String> {
    let mut unsteady = Vec::new();
    for section in sections {
        let passes: Vec<&String> = again
            .iter()
            .filter(|other| other.program == section.program)
            .flat_map(|other| &other.passes)
            .collect();
        let (passed, failures) = section.failures.drain(..).partition(|name| passes.contains(&name));
        section.failures = failures;
        section.passed += passed.len() as u64;
        section.failed -= passed.len() as u64;
        unsteady.extend::<Vec<String>>(passed);
    }
    unsteady
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(program: &str, passes: &[&str], failures: &[&str]) -> Section {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Section {
            program: Some(program.to_owned()),
            passed: passes.len() as u64,
            passes: names(passes),
            failed: failures.len() as u64,
            ignored: 0,
            failures: names(failures),
        }
    }

    #[test]
    fn what_passes_the_second_time_has_passed_and_is_named() {
        let mut sections = [section("cli", &["fine"], &["slow", "wrong"]), section("server", &[], &["slow"])];
        assert_eq!(names(&sections), ["slow", "wrong", "slow"]);

        let unsteady = settle(
            &mut sections,
            &[section("cli", &["slow"], &["wrong"]), section("server", &[], &["slow"])],
        );

        assert_eq!(unsteady, ["slow"]);
        assert_eq!(
            (sections[0].passed, sections[0].failed, sections[0].failures.join(" ")),
            (2, 1, "wrong".to_owned())
        );
        assert_eq!((sections[1].passed, sections[1].failed), (0, 1), "of another program");
    }

    #[test]
    fn a_test_that_did_not_run_again_has_failed() {
        let mut sections = [section("cli", &[], &["slow"])];

        assert!(settle(&mut sections, &[]).is_empty());

        assert_eq!(sections[0].failed, 1);
    }

    #[test]
    fn many_failures_and_programs_that_died_are_not_tried_again() {
        let all: Vec<String> = (0..=MOST).map(|n| format!("test{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert!(names(&[section("cli", &[], &all)]).is_empty());
        assert_eq!(names(&[section("cli", &[], &all[1..])]).len(), MOST);

        let died =
            Section { failed: 7, ..section("cli", &[], &["(7 without a result: the program ended early)"]) };
        assert!(names(&[died]).is_empty());
        assert!(names(&[Section { program: None, ..section("cli", &[], &["slow"]) }]).is_empty());
    }
}
