//! What the tests reported, read from the JUnit report of nextest. Pure.

use std::time::Duration;

/// A test that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TestRun {
    /// The program it belongs to, such as `tidemill-store::conformance`.
    pub(crate) program: String,
    pub(crate) name: String,
    pub(crate) time: Duration,
    pub(crate) has_failed: bool,
}

/// Reads a report: one `testcase` for each test, with a `failure` or an `error` inside if it did not pass.
pub(crate) fn parse(junit: &str) -> Vec<TestRun> {
    let mut runs: Vec<TestRun> = Vec::new();
    // Text inside an element has no `<`: there it is written `&lt;`.
    for tag in junit.split('<').skip(1) {
        let (element, attributes) =
            tag.split_once(|c: char| c.is_whitespace() || c == '>').unwrap_or((tag, ""));
        match (element, runs.last_mut()) {
            ("testcase", _) => runs.push(TestRun {
                program: attribute(attributes, "classname"),
                name: attribute(attributes, "name"),
                time: attribute(attributes, "time").parse().map_or(Duration::ZERO, Duration::from_secs_f64),
                has_failed: false,
            }),
            ("failure" | "error", Some(run)) => run.has_failed = true,
            _ => {}
        }
    }
    runs
}

/// The value of `name="…"` among attributes. Names of tests have nothing in them that XML escapes.
fn attribute(attributes: &str, name: &str) -> String {
    let mut rest = attributes;
    while let Some((before, after)) = rest.split_once("=\"") {
        let Some((value, next)) = after.split_once('"') else { break };
        if before.trim() == name {
            return value.to_owned();
        }
        rest = next;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" uuid="0f1c" time="2.500">
    <testsuite name="tidemill-store::conformance" tests="2" disabled="0" errors="0" failures="1">
        <testcase name="lease::expires" classname="tidemill-store::conformance" timestamp="2026-01-01T00:00:00" time="1.250">
        </testcase>
        <testcase name="lease::a_planted_failure" classname="tidemill-store::conformance" time="0.250">
            <failure message="thread &apos;x&apos; panicked" type="test failure with exit code 101">left &lt;testcase right</failure>
            <system-out>&lt;testcase name=&quot;no&quot;</system-out>
        </testcase>
    </testsuite>
    <testsuite name="xtask" tests="1" disabled="0" errors="0" failures="0">
        <testcase name="stages::in_the_table" classname="xtask" time="0.010"/>
    </testsuite>
</testsuites>
"#;

    #[test]
    fn each_test_is_found_with_its_program_and_time_and_a_planted_failure_is_seen() {
        let runs = parse(REPORT);

        let found: Vec<(&str, &str, u128, bool)> = runs
            .iter()
            .map(|run| (&*run.program, &*run.name, run.time.as_millis(), run.has_failed))
            .collect();
        let expected = [
            ("tidemill-store::conformance", "lease::expires", 1_250, false),
            ("tidemill-store::conformance", "lease::a_planted_failure", 250, true),
            ("xtask", "stages::in_the_table", 10, false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_report_without_tests_has_none() {
        assert_eq!(parse(""), []);
        assert_eq!(parse(r#"<testsuites name="nextest-run" tests="0"></testsuites>"#), []);
    }
}
