//! `tidemill hint`: what a hint asks for, and the same with less; and no database is touched.

use crate::{Ran, Stage, workspace};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::num::NonZeroU32;
use std::process::Stdio;
use tidemill_domain::hint::{Hint, Warning, rewrite};

/// A stage whose database nobody serves.
fn stage() -> Stage {
    Stage::on("postgres://nobody@127.0.0.1:1/x")
}

fn with_input(arguments: &[&str], input: &[u8]) -> Ran {
    let stage = stage();
    let mut command = stage.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that has seen enough does not read on.
    let _rest_is_not_read = child.stdin.take().unwrap().write_all(input);
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_hint_is_told_in_words() {
    let ran = stage().run(&[
        "hint",
        "parse",
        "/*+ PARALLEL(a, 8) PARALLEL(b), FULL(a) */",
        "--default-degree",
        "4",
    ]);

    assert_eq!(
        ran.succeeds().stdout,
        "degree: the default degree, or 8 if that is greater\n\
         counts for: 8\n\
         object: PARALLEL(a, 8) (8)\n\
         object: PARALLEL(b) (the default degree)\n\
         warning: a comma between hints; Oracle may ignore what follows it, here it counts\n"
    );
}

#[test]
fn a_clause_outside_of_hints_is_told_and_not_lowered() {
    let create = "CREATE TABLE t PARALLEL (DEGREE 8) AS SELECT /*+ PARALLEL(4) */ * FROM s";

    let ran = stage().run(&["hint", "parse", create]);

    let told =
        "degree: 8\ncounts for: 8\nstatement: PARALLEL(4) (4)\nclause: PARALLEL (DEGREE 8) (8)\nwarning: ";
    assert_eq!(ran.succeeds().stdout, format!("{told}{}\n", Warning::Clause.text()));
    let refused = stage().run(&["hint", "rewrite", create, "--to", "4"]);
    refused.fails("TM1230", 5);
    assert!(refused.stderr.contains("PARALLEL (DEGREE 8) is not in a hint"), "{refused:#?}");
}

#[test]
fn a_hint_is_told_for_programs() {
    let ran = stage().run(&["hint", "parse", "/*+ parallel(0) */", "--output", "json"]);

    let found: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    assert_eq!(found["schema"], "tidemill.hint/v1");
    let hint = &found["items"][0];
    assert_eq!((&hint["degree"], &hint["number"]), (&json!("default_or"), &json!(1)));
    assert_eq!(hint["upper_bound"], Value::Null);
    assert_eq!(hint["warnings"][0]["name"], "zero_degree");
    let directive = &hint["directives"][0];
    assert_eq!((&directive["text"], &directive["begin"]), (&json!("parallel(0)"), &json!(4)));
    assert_eq!((&directive["name"], &directive["level"]), (&json!("PARALLEL"), &json!("statement")));
}

#[test]
fn the_upper_bound_takes_the_settings_that_are_given() {
    let check = |hint: &str, flags: &[&str], bound: Value| {
        let ran = stage().run(&[&["hint", "parse", hint, "-o", "jsonl"], flags].concat());
        let found: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
        assert_eq!(found["upper_bound"], bound, "{hint} {flags:?}");
    };

    check("/*+ PARALLEL(8) */", &[], json!(8));
    check("/*+ PARALLEL */", &[], Value::Null);
    check("/*+ PARALLEL */", &["--default-degree", "64"], json!(64));
    check("/*+ FULL(a) */", &["--default-degree", "64"], json!(1));
    check("/*+ FULL(a) */", &["--none", "3"], json!(3));
    check("/*+ NO_PARALLEL */", &["--none", "3", "--default-degree", "64"], json!(1));
}

#[test]
fn the_rewritten_text_alone_is_printed() {
    let check = |text: &str, to: &str, expected: &str| {
        let ran = stage().run(&["hint", "rewrite", text, "--to", to]);
        assert_eq!(ran.succeeds().stdout, format!("{expected}\n"));
        assert_eq!(ran.stderr, "");
    };

    check("/*+ PARALLEL(16) FULL(A) */", "8", "/*+ PARALLEL(8) FULL(A) */");
    check("/*+  Parallel( a ,16 )  */", "8", "/*+  Parallel( a ,8 )  */");
    check("--+ parallel(16)", "1", "--+ no_parallel");
    check("/*+ PARALLEL(4) */", "8", "/*+ PARALLEL(4) */");
}

#[test]
fn standard_input_is_read_and_its_other_bytes_are_kept() {
    let statement = "select --+ parallel(16)\r\n  a\t, '한' from t\n";

    for arguments in [
        &["hint", "rewrite", "-", "--to", "2"][..],
        &["hint", "rewrite", "--to", "2"],
        &["hint", "rewrite", "--to", "2", "-"],
    ] {
        let ran = with_input(arguments, statement.as_bytes());
        assert_eq!(ran.succeeds().stdout, statement.replace("16", "2"));
    }
    with_input(&["hint", "parse"], b"/*+ \xff */").fails("TM0002", 2);
}

#[test]
fn what_cannot_be_lowered_is_refused_with_its_reason() {
    let ran = stage().run(&["hint", "rewrite", "/*+ PARALLEL(8 8) */", "--to", "4"]);

    ran.fails("TM1230", 5);
    assert!(ran.stderr.contains("PARALLEL(8 8) cannot be read") && ran.stdout.is_empty(), "{ran:#?}");
}

#[test]
fn what_is_too_long_is_refused() {
    let long = "한".repeat(30_000);

    stage().run(&["hint", "parse", &long]).fails("TM1231", 2);
    with_input(&["hint", "rewrite", "-", "--to", "4"], long.as_bytes()).fails("TM1231", 2);
}

#[test]
fn a_misspelt_flag_is_no_text() {
    stage().run(&["hint", "parse", "--nope"]).fails("TM0002", 2);
    stage().run(&["hint", "parse", "-n"]).fails("TM0002", 2);
    stage().run(&["hint", "parse", "-o", "json", "--+ PARALLEL(8)"]).succeeds();
    stage().run(&["hint", "parse", "--+PARALLEL(8)", "--none", "2"]).succeeds();
}

#[test]
fn a_degree_of_nothing_is_wrong_usage() {
    stage().run(&["hint", "rewrite", "/*+ PARALLEL(8) */", "--to", "0"]).fails("TM0002", 2);
    stage().run(&["hint", "rewrite", "/*+ PARALLEL(8) */"]).fails("TM0002", 2);
    stage().run(&["hint", "parse", "x", "--default-degree", "0"]).fails("TM0002", 2);
}

/// The cells of the rows of all tables in a document, without the marks of code.
fn rows(document: &str) -> Vec<Vec<String>> {
    let row = |line: &str| -> Option<Vec<String>> {
        let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(inside.split(" | ").map(|cell| cell.trim_matches('`').to_owned()).collect())
    };
    document.lines().filter_map(row).collect()
}

#[test]
fn the_reference_tells_what_is_done() {
    let document = fs::read_to_string(workspace().join("docs/reference/hints.md")).unwrap();
    let rows = rows(&document);

    for warning in Warning::ALL {
        let expected = [warning.as_str(), warning.text()];
        assert!(rows.iter().any(|row| *row == expected), "{expected:?}");
    }
    let examples: Vec<_> = rows.iter().filter(|row| row[0].starts_with("/*+")).collect();
    assert!(examples.len() > 5, "{examples:?}");
    for row in examples {
        let [text, four, one] = &row[..] else { panic!("{row:?}") };
        for (granted, told) in [(4, four), (1, one)] {
            let expected = if told == "unchanged" { text } else { told };
            let hint = Hint::parse(text).unwrap();
            assert_eq!(rewrite(&hint, NonZeroU32::new(granted).unwrap()).as_ref(), Ok(expected), "{text}");
        }
    }
}
