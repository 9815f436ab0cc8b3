//! Every test that the page of guarantees names is there, and every promise names one.

use crate::workspace;
use std::fs;
use std::path::Path;

/// A promise of the page: its heading, and the tests that prove it, each with its file.
#[derive(Debug)]
struct Promise {
    heading: String,
    proofs: Vec<(String, String)>,
}

/// The promises are the headings of the third level; the proofs are list items that begin with a link to a file and go
/// on with the names of tests in it.
fn promises(page: &str) -> Vec<Promise> {
    let sections = page.split("\n### ").skip(1);
    let promise = |section: &str| {
        let section = section.split("\n## ").next().unwrap_or_default();
        let heading = section.lines().next().unwrap_or_default().to_owned();
        let proofs = section.split("\n- [`").skip(1).flat_map(proofs).collect();
        Promise { heading, proofs }
    };
    sections.map(promise).collect()
}

/// The tests of one list item, which ends with a blank line.
fn proofs(item: &str) -> Vec<(String, String)> {
    let item = item.split("\n\n").next().unwrap_or_default();
    let file = item.split('`').next().unwrap_or_default();
    let names = item.split_once("):").map_or("", |(_, names)| names);
    names.split('`').skip(1).step_by(2).map(|name| (file.to_owned(), name.to_owned())).collect()
}

/// Whether a source has a test of this name: a function with an attribute of tests above it, or one that is listed for
/// both databases.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    // A test for each database is listed, alone on its line or in a list of one line.
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_listed = lines.iter().any(|line| {
        let line = line.split_once("on_both![").map_or(*line, |(_, list)| list);
        line.split(", ").any(|one| {
            let one = one.split_once(": ").map_or(one, |(_, name)| name);
            one.trim_end_matches(|c| !is_word(c)) == name
        })
    });
    let opening = [format!("fn {name}("), format!("async fn {name}(")];
    lines.iter().enumerate().any(|(place, line)| {
        let is_it = opening.iter().any(|opening| line.starts_with(opening.as_str()));
        let mut above = lines.iter().take(place).rev().take_while(|line| !line.is_empty());
        is_it && (is_listed || above.any(|line| line.starts_with("#[") && line.contains("test")))
    })
}

/// What is wrong with the page, by the sources below this folder.
fn problems(page: &str, root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for Promise { heading, proofs } in promises(page) {
        if proofs.is_empty() {
            problems.push(format!("{heading}: no test is named"));
        }
        for (file, name) in proofs {
            let source = fs::read_to_string(root.join(&file)).unwrap_or_default();
            if !has_test(&source, &name) {
                problems.push(format!("{heading}: {file} has no test {name}"));
            }
        }
    }
    problems
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = fs::read_to_string(workspace().join("docs/guarantees.md")).unwrap();
    let promises = promises(&page);
    let proofs: usize = promises.iter().map(|promise| promise.proofs.len()).sum();

    assert!(promises.len() >= 30 && proofs >= 90, "{} promises, {proofs} tests", promises.len());
    assert_eq!(problems(&page, workspace()), Vec::<String>::new());
}

#[test]
fn a_test_that_is_not_there_and_a_promise_without_one_are_found() {
    let file = "crates/tidemill/tests/cli/guarantees.rs";
    let right = "every_promise_names_tests_that_exist";
    let item =
        |name: &str| format!("\n### A\n\nIt holds.\n\n- [`{file}`](../{file}):\n  `{right}`, `{name}`\n");

    assert_eq!(problems(&item(right), workspace()), Vec::<String>::new());
    // The second is a function, but no test.
    for wrong in ["every_promise_names_tests", "has_test", "it_is_nowhere"] {
        assert_eq!(problems(&item(wrong), workspace()), [format!("A: {file} has no test {wrong}")]);
    }
    let elsewhere = item(right).replace("guarantees.rs", "tidy.rs");
    assert_eq!(problems(&elsewhere, workspace()).len(), 2);
    assert_eq!(problems("\n### A\n\nIt holds.\n", workspace()), ["A: no test is named"]);
}
