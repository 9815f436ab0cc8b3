//! What holds for all texts: nothing is lost, nothing panics, nothing is counted too low, and time grows with length.

use super::{lowered, number, parse, soundness};
use crate::hint::token::{self, CommentTokens, Node};
use crate::hint::{Degree, HINT_BYTES_MAX, Hint};
use proptest::prelude::*;
use std::time::Duration;

/// A failure prints its smallest input, so no file of regressions is needed.
fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

/// Pieces that hints are made of, whole and broken.
const PIECES: [&str; 56] = [
    "/*+",
    "*/",
    "--+",
    "\n",
    "/*",
    "/* +",
    "--",
    "+",
    "(",
    ")",
    ",",
    "@",
    ".",
    " ",
    "  ",
    "\t",
    "'",
    "\"",
    "q'[",
    "]'",
    "SELECT",
    "insert",
    "PARALLEL",
    "parallel",
    "NO_PARALLEL",
    "NOPARALLEL",
    "PARALLEL_INDEX",
    "NO_PARALLEL_INDEX",
    "SHARED",
    "FULL",
    "OPT_PARAM",
    "NO_STATEMENT_QUEUING",
    "DEFAULT",
    "AUTO",
    "MANUAL",
    "where",
    "A",
    "\"Order\"",
    "SEL$1",
    "8",
    "16",
    "0",
    "1",
    "4294967295",
    "99999999999",
    "한",
    "\u{0}",
    "8x",
    "CREATE",
    "alter",
    " AS ",
    "DEGREE",
    " instances ",
    "FORCE",
    " DML",
    "DISABLE",
];

/// Real hints, to be broken.
const REAL: [&str; 12] = [
    "/*+ PARALLEL(8) FULL(A) */",
    "/*+ PARALLEL(A,8) PARALLEL(B 16) */",
    "/*+ PARALLEL(@SEL$1 A@SEL$1 8 2) NO_STATEMENT_QUEUING */",
    "/*+ PARALLEL_INDEX(\"Order\", IX1 (a b), DEFAULT) */",
    "--+ parallel(auto) full(a)\n",
    "INSERT /*+ APPEND PARALLEL(4) */ INTO t SELECT /*+ PARALLEL(s) */ q'[it's]', 'x' FROM s -- end",
    "/*+ NO_PARALLEL PARALLEL */ /*+ PARALLEL(3) */",
    "/*+ OPT_PARAM('parallel_degree_policy' 'auto') PARALLEL(0), PARALLEL(MANUAL) */",
    "CREATE TABLE t PARALLEL (DEGREE 8 INSTANCES 2) AS SELECT /*+ PARALLEL(16) */ 'PARALLEL 32' FROM s",
    "CREATE INDEX i ON t (\"PARALLEL 8\") PARALLEL /* why */ 8 -- end",
    "ALTER SESSION FORCE PARALLEL DML PARALLEL 8; INSERT /*+ PARALLEL(t 4) */ INTO t SELECT * FROM s",
    "alter index i rebuild parallel; alter table t noparallel",
];

/// Every byte of a text is in one token.
fn check(bytes: &[u8]) {
    soundness::check(bytes);
    let text = String::from_utf8_lossy(bytes);
    let tokens = token::read(&text).into_iter().flat_map(|node| match node {
        Node::Plain(token) => vec![token],
        Node::Comment(CommentTokens { open, body, close }) => {
            std::iter::once(open).chain(body).chain(close).collect()
        }
    });
    assert_eq!(tokens.map(|token| token.of(&text).to_owned()).collect::<String>(), text);
}

#[test]
fn any_bytes_are_read_and_rewritten_soundly() {
    proptest!(cases(2_000), |(bytes in prop::collection::vec(any::<u8>(), 0..200))| check(&bytes));
}

#[test]
fn any_pieces_of_hints_are_read_and_rewritten_soundly() {
    let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40);

    proptest!(cases(8_000), |(pieces in pieces, is_open in any::<bool>())| {
        let begin = if is_open { "/*+" } else { "" };
        check(format!("{begin}{}", pieces.concat()).as_bytes());
    });
}

#[test]
fn broken_hints_are_read_and_rewritten_soundly() {
    let change =
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::sample::select(&PIECES[..]));
    let changes = prop::collection::vec(change, 1..5);

    proptest!(cases(8_000), |(real in prop::sample::select(&REAL[..]), changes in changes)| {
        let mut bytes = real.as_bytes().to_vec();
        for (from, to, piece) in changes {
            let from = from.index(bytes.len() + 1);
            let to = (from + to.index(4)).min(bytes.len());
            bytes.splice(from..to, piece.bytes());
        }
        check(&bytes);
    });
}

/// A directive as text, without its objects, and its degree.
fn directive() -> impl Strategy<Value = (String, bool, Degree)> {
    let object = prop::sample::select(vec!["A", "\"a b\"", "@Q A", "A@SEL$1", "@\"Q\" v.A@\"Q\""]);
    let degree = prop_oneof![1_u32..100, Just(u32::MAX)];
    let separator = prop::sample::select(vec![" ", ",", " , ", ", "]);
    prop_oneof![
        degree.clone().prop_map(|n| (format!("PARALLEL({n})"), true, Degree::Exact(number(n)))),
        Just(("parallel".to_owned(), true, Degree::AtLeastTwo)),
        Just(("PARALLEL ( Default )".to_owned(), true, Degree::Default)),
        Just(("PARALLEL(auto)".to_owned(), true, Degree::Auto)),
        (object.clone(), separator.clone(), degree.clone()).prop_map(|(o, s, n)| (
            format!("PARALLEL({o}{s}{n})"),
            false,
            Degree::Exact(number(n))
        )),
        (object.clone(), separator.clone(), degree).prop_map(|(o, s, n)| (
            format!("PARALLEL_INDEX({o} IX{s}{n})"),
            false,
            Degree::Exact(number(n))
        )),
        (object, separator).prop_map(|(o, s)| (format!("PARALLEL({o}{s}DEFAULT)"), false, Degree::Default)),
    ]
}

#[test]
fn nothing_is_counted_too_low_and_the_statement_comes_first() {
    let other =
        prop::sample::select(vec!["", "FULL(A)", "LEADING(A (B C))", "unknown", "INDEX(A, IX)", "'x'"]);
    let hint = prop::collection::vec((directive(), other), 1..6);

    proptest!(cases(4_000), |(hint in hint, default in 1_u32..200, granted in 1_u32..200)| {
        let written: Vec<String> = hint.iter().map(|((text, ..), other)| format!("{text} {other}")).collect();
        let text = format!("/*+ {} */", written.join(" "));
        let has_statement = hint.iter().any(|((_, is_statement, _), _)| *is_statement);
        let (default, none) = (number(default), number(1));
        let expected = hint
            .iter()
            .filter(|((_, is_statement, _), _)| *is_statement || !has_statement)
            .map(|((.., degree), _)| degree.upper_bound(default, none))
            .max();

        prop_assert_eq!(Some(parse(&text).degree().upper_bound(default, none)), expected, "{}", text);
        let rewritten = lowered(&text, granted).unwrap();
        let left = parse(&rewritten).degree();
        prop_assert!(!left.depends_on_default() || granted == u32::MAX, "{}", rewritten);
        prop_assert!(left.upper_bound(default, none).get() <= granted, "{}", rewritten);
    });
}

/// A clause and its degree.
fn clause() -> impl Strategy<Value = (String, Degree)> {
    let exact = |n| Degree::Exact(number(n));
    let word = prop::sample::select(vec!["PARALLEL", "parallel", "Parallel\n", "PARALLEL /* 99 */"]);
    let degree = prop_oneof![1_u32..100, Just(u32::MAX)];
    prop_oneof![
        (word.clone(), degree.clone()).prop_map(move |(w, n)| (format!("{w} {n}"), exact(n))),
        (word.clone(), degree).prop_map(move |(w, n)| (format!("{w}( degree {n} )"), exact(n))),
        (word.clone(), 1_u32..100, 1_u32..100).prop_map(move |(w, n, instances)| (
            format!("{w} (DEGREE {n} INSTANCES {instances})"),
            exact(n * instances)
        )),
        word.prop_map(|w| (w.to_owned(), Degree::Default)),
        Just(("NOPARALLEL".to_owned(), Degree::None)),
    ]
}

/// A statement with two clauses and a hint, among texts that are none of them.
fn statement(clauses: [&str; 2], hint: &str, form: usize) -> String {
    let [first, second] = clauses;
    let other = "'PARALLEL 999' \"PARALLEL 999\" /* PARALLEL 999 */ -- PARALLEL 999\n";
    match form {
        0 => {
            format!("CREATE TABLE t {other} {first} {second} AS SELECT /*+ {hint} */ parallel {other} FROM s")
        }
        1 => format!("ALTER INDEX i REBUILD {first}; {other}; ALTER TABLE t MOVE {second} /*+ {hint} */"),
        2 => {
            format!("SELECT /*+ {hint} */ parallel, {other} FROM s; CREATE INDEX i ON t (a) {first} {second}")
        }
        _ => format!(
            "ALTER TABLE t {first}; alter table u {second}; MERGE /*+ {hint} */ INTO t USING {other} s"
        ),
    }
}

#[test]
fn clauses_and_hints_count_for_the_greatest_and_clauses_are_never_changed() {
    let clauses = (clause(), clause());

    proptest!(cases(4_000), |(
        ((first, a), (second, b)) in clauses,
        (hint, _, c) in directive(),
        form in 0_usize..4,
        (default, granted) in (1_u32..200, 1_u32..200),
    )| {
        let text = statement([&first, &second], &hint, form);
        let (default, none) = (number(default), number(1));
        let [a, b, c] = [a, b, c].map(|degree| degree.upper_bound(default, none));

        soundness::check(text.as_bytes());
        prop_assert_eq!(parse(&text).degree().upper_bound(default, none), a.max(b).max(c), "{}", text);
        if let Ok(rewritten) = lowered(&text, granted) {
            prop_assert!(a.max(b).get() <= granted, "{}", rewritten);
            prop_assert!(parse(&rewritten).degree().upper_bound(default, none).get() <= granted, "{}", rewritten);
        }
    });
}

/// The CPU time of this thread, which is more reliable on a busy machine than elapsed time.
fn time_on_processor() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap()
}

/// The shortest of several runs, which is the least disturbed.
fn shortest_time(text: &str) -> Duration {
    let time = || {
        let begin = time_on_processor();
        let hint = Hint::parse(text).unwrap();
        let _either_way = crate::hint::rewrite(&hint, number(2));
        time_on_processor() - begin
    };
    (0..8).map(|_| time()).min().unwrap()
}

#[test]
fn time_grows_with_the_length_and_not_with_its_square() {
    let nasty = [
        ("", "("),
        ("", "/*+"),
        ("", "'"),
        ("", "/*+ \" */"),
        ("", "q'["),
        ("", "/*+ q'[ */"),
        ("", "SELECT /*+ PARALLEL( */"),
        ("/*+", "("),
        ("/*+", "PARALLEL("),
        ("/*+", "PARALLEL "),
        ("/*+", "NO_PARALLEL("),
        ("/*+", "NO_PARALLEL_INDEX(A ("),
        ("/*+", "FULL(PARALLEL(8"),
        ("/*+", "PARALLEL(A 8)"),
        ("/*+", ","),
        ("/*+ PARALLEL(", "8 "),
        ("/*+ PARALLEL_INDEX(A ", "(a,"),
        ("/*+ PARALLEL(A", ".A"),
        ("/*+ PARALLEL(", "9"),
        ("--+", "'\""),
        ("/*", "/*"),
        ("", "PARALLEL "),
        ("", "PARALLEL("),
        ("ALTER ", "PARALLEL 8 "),
        ("CREATE ", "PARALLEL (DEGREE 8 "),
        ("CREATE PARALLEL (", "8 "),
        ("ALTER SESSION FORCE ", "PARALLEL DML "),
        ("", "CREATE SELECT "),
    ];
    // Each also with as many closing as opening parts.
    let all = nasty.iter().flat_map(|nasty| [(nasty, ""), (nasty, ")")]);
    for ((begin, piece), end) in all {
        let text = |bytes: usize| {
            let count = (bytes - begin.len()) / (piece.len() + end.len());
            format!("{begin}{}{}", piece.repeat(count), end.repeat(count))
        };
        let (short, long) = (text(HINT_BYTES_MAX / 16), text(HINT_BYTES_MAX));
        soundness::check(short.as_bytes());

        let growth = shortest_time(&long).as_secs_f64() / shortest_time(&short).as_secs_f64().max(1e-6);

        // Sixteen times the length: 16 if linear, 256 if quadratic.
        assert!(growth < 80.0, "{begin}{piece}{end}: {growth:.0} times as long for 16 times the length");
    }
}
