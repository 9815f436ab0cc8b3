//! Real hints and their degrees.

mod clause;
mod property;
mod soundness;
mod table;

use super::*;
use std::num::NonZeroU32;

fn number(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn parse(text: &str) -> Hint {
    Hint::parse(text).unwrap()
}

fn lowered(text: &str, granted: u32) -> Result<String, CannotRewrite> {
    rewrite(&parse(text), number(granted))
}

#[test]
fn only_the_first_hint_comment_behind_a_word_that_takes_hints_counts() {
    let check = |text: &str, ignored: &[Option<Warning>], degree: Degree| {
        let hint = parse(text);
        let found: Vec<_> = hint.comments().iter().map(|comment| comment.ignored).collect();
        assert_eq!((&*found, hint.degree()), (ignored, degree), "{text}");
    };
    let (counts, second, misplaced) = (None, Some(Warning::SecondComment), Some(Warning::Misplaced));
    let exact = |n| Degree::Exact(number(n));

    check("SELECT /*+ PARALLEL(8) */ a FROM t", &[counts], exact(8));
    check("select/*+parallel(8)*/ a from t", &[counts], exact(8));
    check("SELECT /* why */ -- and\n /*+ PARALLEL(8) */ a FROM t", &[counts], exact(8));
    check("SELECT --+ PARALLEL(8)\n a FROM t", &[counts], exact(8));
    check("SELECT --+ FULL(a)\n PARALLEL(8) FROM t", &[counts], Degree::None);
    check("SELECT /*+ FULL(a) */ /*+ PARALLEL(8) */ a FROM t", &[counts, second], Degree::None);
    check("SELECT a /*+ PARALLEL(8) */ FROM t", &[misplaced], Degree::None);
    check("/*+ PARALLEL(8) */ SELECT a FROM t", &[misplaced], Degree::None);
    check("SELECT '/*+ PARALLEL(8) */' FROM t", &[], Degree::None);
    check("SELECT q'[it's /*+ PARALLEL(8) */]' FROM t", &[], Degree::None);
    check("SELECT nQ'!/*+ '' !' /*+ PARALLEL(8) */ FROM t", &[misplaced], Degree::None);
    check("SELECT \"/*+ PARALLEL(8) */\" FROM t", &[], Degree::None);
    check("SELECT -- /*+ PARALLEL(8) */\n a FROM t", &[], Degree::None);
    check(
        "INSERT /*+ PARALLEL(2) */ INTO t SELECT /*+ PARALLEL(s 8) */ * FROM s",
        &[counts, counts],
        exact(8),
    );
    for word in ["UPDATE", "delete", "Merge"] {
        check(&format!("{word} /*+ PARALLEL(3) */ t"), &[counts], exact(3));
    }
    check("/*+ FULL(a) */ /*+ PARALLEL(8) */", &[counts, second], Degree::None);
    check("no statement /*+ PARALLEL(8) */", &[counts], exact(8));
    check("it's no statement /*+ PARALLEL(8) */", &[counts], exact(8));
}

#[test]
fn a_hint_is_read_from_left_to_right() {
    let check = |body: &str, degree: Degree| {
        assert_eq!(parse(&format!("/*+ {body} */")).degree(), degree, "{body}");
    };
    let exact = |n| Degree::Exact(number(n));

    check("some words PARALLEL(8) more", exact(8));
    check("FULL(A) SELECT PARALLEL(8)", Degree::None);
    check("PARALLEL(4) where PARALLEL(8)", exact(4));
    check("FULL(select) PARALLEL(8)", exact(8));
    check("INDEX(A IX) CLUSTER(B) PARALLEL(8)", exact(8));
    check("FULL(PARALLEL)", Degree::None);
    check("'PARALLEL(8)' \"PARALLEL\"(8)", Degree::None);
    check("XPARALLEL(8) PARALLEL8 PARALLEL$ 한PARALLEL(8)", Degree::None);
    check("FULL(A), PARALLEL(8)", exact(8));
    check("FULL(\"A PARALLEL(8)", exact(8));
    check("FULL(A PARALLEL(8)", exact(8));
    check("FULL(A PARALLEL(8))", Degree::DefaultOr(number(8)));
    check("NO_PARALLEL(A PARALLEL(8)", exact(8));
}

#[test]
fn the_statement_supersedes_objects_and_of_objects_the_greatest_counts() {
    let check = |body: &str, degree: Degree| {
        assert_eq!(parse(&format!("/*+ {body} */")).degree(), degree, "{body}");
    };
    let exact = |n| Degree::Exact(number(n));

    check("PARALLEL(A 8) PARALLEL(B 16)", exact(16));
    check("PARALLEL(A 16) PARALLEL(4)", exact(4));
    check("PARALLEL_INDEX(A IX 16) PARALLEL(4)", exact(4));
    check("PARALLEL(A 16) PARALLEL(AUTO)", Degree::Auto);
    check("PARALLEL(A 16) PARALLEL", Degree::AtLeastTwo);
    check("PARALLEL(A 16) PARALLEL(MANUAL)", Degree::DefaultOr(number(16)));
    check("PARALLEL(A 16) PARALLEL(B DEFAULT)", Degree::DefaultOr(number(16)));
    check("PARALLEL(A 16) PARALLEL_INDEX(B IX 32)", exact(32));
    check("PARALLEL(A 16) NO_PARALLEL(B)", exact(16));
    check("PARALLEL(A 16) NO_PARALLEL", exact(16));
    check("PARALLEL(4) PARALLEL(8)", exact(8));
    check("PARALLEL(4) PARALLEL(AUTO)", Degree::DefaultOr(number(4)));
    check("PARALLEL(4) PARALLEL(0)", Degree::DefaultOr(number(4)));
    check("NO_PARALLEL(A)", Degree::None);
    check("NO_PARALLEL", Degree::Serial);
    check("NoParallel NO_PARALLEL_INDEX(A IX)", Degree::Serial);
}

#[test]
fn what_is_odd_is_told_once() {
    let check = |text: &str, warnings: &[Warning]| assert_eq!(parse(text).warnings(), warnings, "{text}");

    check("/*+ PARALLEL(8) FULL(A) */", &[]);
    check("--+ PARALLEL(8)", &[]);
    check("/*+ A */ /*+ B */ /*+ C */", &[Warning::SecondComment]);
    check("SELECT a /*+ PARALLEL(8) */ FROM t", &[Warning::Misplaced]);
    check("/* + PARALLEL(8) */", &[Warning::SpaceBeforePlus]);
    check("-- + PARALLEL(8)", &[Warning::SpaceBeforePlus]);
    check("/* parallel(8) */", &[Warning::PlainComment]);
    check("/* nothing */ --", &[]);
    check("/*+ PARALLEL(8)", &[Warning::Unterminated]);
    check("/*+ FULL(A) and more */", &[Warning::ReservedWord]);
    check("/*+ FULL(A), FULL(B), INDEX(A, B) */", &[Warning::Comma]);
    check("/*+ PARALLEL(8 8) */", &[Warning::Unreadable]);
    check("/*+ PARALLEL(0) */", &[Warning::ZeroDegree]);
    check("/*+ PARALLEL(A 0) */", &[Warning::ZeroDegree]);
    check("/*+ PARALLEL(4294967296) */", &[Warning::TooLarge]);
    check("/*+ PARALLEL(A 8 2) */", &[Warning::Instances]);
    check("/*+ PARALLEL(8) NO_PARALLEL */", &[Warning::Contradiction]);
    check("/*+ PARALLEL(8) PARALLEL(4) */", &[Warning::Contradiction]);
    check("/*+ no_statement_queuing */", &[Warning::NoStatementQueuing]);
    check("/*+ OPT_PARAM('parallel_degree_policy' 'auto') */", &[Warning::ParallelParameter]);
    check("/*+ opt_param ( '_PARALLEL_x', 1) */", &[Warning::ParallelParameter]);
    check("/*+ OPT_PARAM('optimizer_mode' 'x') */", &[]);
}

#[test]
fn what_cannot_be_read_is_refused_and_named() {
    for body in
        ["PARALLEL(8 8)", "PARALLEL()", "PARALLEL(A B 8)", "PARALLEL(8", "PARALLEL_INDEX", "SHARED(-8)"]
    {
        let refused = lowered(&format!("/*+ {body} */"), 4).unwrap_err();
        assert!(
            matches!(&refused, CannotRewrite::Unreadable { directive } if directive.trim() == body),
            "{body}"
        );
    }
    let long = format!("/*+ PARALLEL({}) */", "x ".repeat(1000));
    assert!(lowered(&long, 4).unwrap_err().to_string().len() < 200);
}

#[test]
fn what_would_be_too_long_is_refused() {
    let text = format!("/*+ {}*/", "PARALLEL ".repeat(7000));
    assert!(text.len() <= HINT_BYTES_MAX);

    assert_eq!(lowered(&text, 1_000_000), Err(CannotRewrite::TooLong));
    assert_eq!(Hint::parse(&"x".repeat(HINT_BYTES_MAX + 1)), Err(HintTooLong { bytes: HINT_BYTES_MAX + 1 }));
    assert!(Hint::parse(&"x".repeat(HINT_BYTES_MAX)).is_ok());
}

#[test]
fn warnings_have_names_and_texts_of_their_own() {
    for (index, warning) in Warning::ALL.iter().enumerate() {
        let others = &Warning::ALL[..index];
        assert!(others.iter().all(|o| o.as_str() != warning.as_str() && o.text() != warning.text()));
        assert_eq!(warning.to_string(), warning.as_str());
    }
}

#[test]
fn what_the_database_chooses_counts_as_the_default() {
    use crate::hint::Degree;
    use std::num::NonZeroU32;
    let [one, four, eight] = [1, 4, 8].map(|n| NonZeroU32::new(n).unwrap());
    assert_eq!(Degree::Exact(eight).upper_bound(four, one), eight);
    assert_eq!(Degree::Auto.upper_bound(four, one), four);
    assert_eq!(Degree::DefaultOr(eight).upper_bound(four, one), eight);
    assert_eq!(Degree::AtLeastTwo.upper_bound(one, one).get(), 2);
    assert_eq!(Degree::None.upper_bound(four, one), one);
}

#[test]
fn a_degree_is_read_and_lowered() {
    let hint = parse("/*+ PARALLEL(8) FULL(A) */");

    assert_eq!(hint.degree(), Degree::Exact(number(8)));
    assert_eq!(rewrite(&hint, number(4)).unwrap(), "/*+ PARALLEL(4) FULL(A) */");
}
