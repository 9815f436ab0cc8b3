//! Reports as they come, planted failures and torn outputs.

use super::*;

const GREEN: &str = "
running 3 tests
test lease::expires ... ok
test lease::renews ... ok
test slow ... ignored, takes a day

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s

";

const RED: &str = "
running 3 tests
test a_planted_failure ... FAILED
test with_output ... prints something
FAILED
test fine ... ok

failures:

---- a_planted_failure stdout ----
    indented output of the test
test result: ok. 99 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

failures:
    a_planted_failure
    with_output

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s

";

const DOCS: &str = "
running 1 test
test crates/domain/src/time.rs - time::Timestamp (line 12) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

all doctests ran in 0.30s; merged doctests compilation took 0.29s
";

const MESSAGES: &str = "    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.05s
     Running unittests src/lib.rs (target/debug/deps/tidemill_store-aac322de6ff4b554)
     Running tests/conformance.rs (target/debug/deps/conformance-2271c16fc46501ae)
   Doc-tests tidemill_domain
";

#[test]
fn passed_and_ignored_tests_are_counted() {
    let sections = parse(GREEN, "");

    assert_eq!(sections, [Section { passed: 2, ignored: 1, ..Section::default() }]);
}

#[test]
fn a_planted_failure_is_counted_and_named() {
    let sections = parse(RED, "");

    assert_eq!(sections.len(), 1);
    assert_eq!((sections[0].passed, sections[0].failed), (1, 2));
    assert_eq!(sections[0].failures, ["a_planted_failure", "with_output"]);
}

#[test]
fn every_program_gets_its_name_and_doc_tests_need_none() {
    let sections = parse(&[GREEN, RED, DOCS].concat(), MESSAGES);

    let programs: Vec<Option<&str>> = sections.iter().map(|section| section.program.as_deref()).collect();
    assert_eq!(programs, [Some("tidemill_store src/lib.rs"), Some("conformance tests/conformance.rs"), None]);
    assert_eq!(sections[2].passed, 1);
}

#[test]
fn tests_that_never_reported_have_failed() {
    let torn = "running 5 tests\ntest one ... ok\ntest two ... FAILED\ntest three ... ignored\n";

    let sections = parse(torn, "");

    let expected = Section {
        passed: 1,
        failed: 3,
        ignored: 1,
        failures: vec!["two".to_owned(), "(2 without a result: the program ended early)".to_owned()],
        ..Section::default()
    };
    assert_eq!(sections, [expected]);
}

#[test]
fn a_program_that_died_does_not_swallow_the_next_one() {
    let torn = "running 2 tests\ntest one ... ok\n";

    let sections = parse(&[torn, GREEN].concat(), "");

    let counts: Vec<(u64, u64)> = sections.iter().map(|section| (section.passed, section.failed)).collect();
    assert_eq!(counts, [(1, 1), (2, 0)]);
}

#[test]
fn a_program_that_died_after_its_last_test_has_failed() {
    let sections = parse("running 1 test\ntest one ... ok\n", "");

    assert_eq!((sections[0].passed, sections[0].failed), (1, 1));
}

#[test]
fn an_output_that_is_cut_inside_a_section_is_never_green() {
    for whole in [GREEN, RED] {
        let begin = whole.find("running 3 test").unwrap() + "running 3 test".len();
        let end = whole.rfind(" measured").unwrap();
        for cut in begin..end {
            let sections = parse(&whole[..cut], "");

            assert_eq!(sections.len(), 1, "{cut}");
            assert!(sections[0].failed > 0, "{cut}");
            assert!(sections[0].passed <= 2, "{cut}");
        }
    }
}

#[test]
fn no_output_is_no_section() {
    assert_eq!(parse("", MESSAGES), []);
    assert_eq!(parse("error: could not compile", ""), []);
}
