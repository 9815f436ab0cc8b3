//! What expressions compute, and their errors.

use super::*;
use crate::model::Names;
use proptest::prelude::*;
use tidemill_domain::item::{Phase, Row};
use tidemill_domain::time::Timestamp;

fn row() -> Row {
    let columns =
        ["id", "amount", "name", "paid", "missing", "exact", "day", "at", "bytes", "doc", "a b", "c.d"];
    let values = vec![
        7_i64.into(),
        "19.99".into(),
        " Kim 김 ".into(),
        true.into(),
        Value::Null,
        Value::Decimal("12345678901234567890.25".parse().unwrap()),
        Value::Date("2026-11-15".parse().unwrap()),
        Value::Instant(Timestamp::from_micros(1_763_199_000_000_001)),
        Value::Bytes(vec![0, 255]),
        Value::Json(serde_json::json!({ "tags": ["a", "b"], "n": 2.5 })),
        "blank".into(),
        "dot".into(),
    ];
    Row::new(columns.map(str::to_owned).into(), values)
}

fn evaluate(text: &str) -> Result<Value, String> {
    let row = row();
    let parameters = Names::from([("date".to_owned(), "2026-11-15".into()), ("run.id".to_owned(), 3.into())]);
    let others =
        Names::from([("last".to_owned(), Value::Json(serde_json::json!({ "exit_code": "FAILED" })))]);
    let scope = Scope { row: Some(&row), parameters: &parameters, others: &others };
    let expression =
        Expression::parse(text).map_err(|error| format!("{} at {}", error.message, error.offset))?;
    expression.value(&scope).map_err(|error| {
        assert_eq!(error.kind_in(Phase::Write), ErrorKind::PROCESS);
        error.to_string()
    })
}

fn check(text: &str, expected: impl Into<Value>) {
    assert_eq!(evaluate(text), Ok(expected.into()), "{text}");
}

#[test]
fn values_of_a_row_are_seen_without_loss() {
    check("row.id + 1", 8_i64);
    check("row.paid", true);
    check("row.missing", Value::Null);
    check("row.missing == null", true);
    check("row.exact", "12345678901234567890.25");
    check("row.day", "2026-11-15");
    check("row.day < '2026-12-01'", true);
    check("row.at", Timestamp::from_micros(1_763_199_000_000_001));
    check("row.at > timestamp('2025-01-01T00:00:00Z')", true);
    check("row.bytes", vec![0_u8, 255]);
    check("size(row.bytes)", 2_i64);
    check("row['a b'] + row['c.d'] + row.c.d", "blankdotdot");
    check("has(row.name) && !has(row.nome)", true);
    check("row.doc.tags[1]", "b");
    check("row.doc.n", 2.5);
    check("row.doc", serde_json::json!({ "n": 2.5, "tags": ["a", "b"] }));
    check("[row.id, 2u]", serde_json::json!([7, 2]));
    check(
        "parameters.date + '/' + string(parameters.run.id) + string(parameters['run.id'])",
        "2026-11-15/33",
    );
    check("last.exit_code == 'FAILED' ? 'repair' : 'go'", "repair");
}

#[test]
fn our_functions_can_be_called_both_ways() {
    check("decimal(row.amount, 2)", 1999_i64);
    check("row.amount.decimal(2)", 1999_i64);
    check("decimal(row.id, 2)", 700_i64);
    check("decimal(row.doc.n, 2)", 250_i64);
    check("decimal('1.50', row.id - 6)", 15_i64);
    check("upper(trim(row.name))", "KIM 김");
    check("row.name.trim().lower()", "kim 김");
    check("replace('a-b-c', '-', '')", "abc");
    check("split('a,b', ',')", serde_json::json!(["a", "b"]));
    check("split('a,b', ',').exists(x, x == 'b')", true);
    check("split('a,b', ',')[1]", "b");
    check("coalesce(row.missing, 'none') + coalesce('x', 'none')", "nonex");
    check(
        "date('2026-11-15') + date('15.11.2026', '%d.%m.%Y') + date(row.at)",
        "2026-11-152026-11-152025-11-15",
    );
    check("sha256('abc')", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("row.name.matches('K.m')", true);
    check("timestamp('2026-11-15T09:30:00Z').getHours('Asia/Seoul')", 18_i64);
}

#[test]
fn failures_say_what_was_found_and_what_helps() {
    for (text, expected) in [
        ("row.nome == ''", "row.nome == '': there is no column \"nome\"; there are id, amount, name"),
        ("row['nome']", "there is no column \"nome\""),
        ("parameters.dat", "there is no parameter \"dat\"; there are date, run.id"),
        ("row.doc.tag", "there is no tag"),
        ("row.amount > 5", "string > int is not possible; int(…), double(…) or decimal(…, digits)"),
        ("row.id + row.amount", "int + string is not possible; int(…)"),
        ("row.missing + 1", "null + int is not possible; coalesce(…, other)"),
        ("decimal(row.missing, 2)", "decimal: it takes a text, found null; coalesce"),
        ("decimal(0.1 + 0.2, 2)", "decimal: a double of more than 15 digits is not exact; give it a text"),
        ("decimal('1.555', 2)", "decimal: 1.555 would lose digits: it has more than 2 after the point"),
        ("decimal('1', '2')", "decimal: the number of digits has to be an int, found string"),
        ("upper(row.id)", "upper: it takes a text, found int; string(…)"),
        ("date('15.11.2026')", "date: \"15.11.2026\" is not a day such as 2026-11-15"),
        ("date('x', '%d.%m.%Y')", "date: \"x\" is not of the form \"%d.%m.%Y\""),
        ("split('a', '')", "split: what it is split by"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "+ overflows"),
        ("[1][5]", "the list is shorter than that"),
        ("18446744073709551615u", "18446744073709551615 is too large for a whole number"),
        ("duration('1s')", "it is duration, which no column can hold"),
        ("nothing", "there is no nothing"),
    ] {
        let error = evaluate(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_condition_has_to_be_true_or_false_and_an_answer_a_text() {
    let (parameters, others) = (Names::new(), Names::new());
    let scope = Scope { row: None, parameters: &parameters, others: &others };

    assert!(Expression::parse("1 < 2").unwrap().is_true(&scope).unwrap());
    assert_eq!(Expression::parse("'GO'").unwrap().answer(&scope).unwrap(), "GO");
    let number = Expression::parse("1").unwrap();
    assert_eq!(number.is_true(&scope).unwrap_err().to_string(), "1: it has to be true or false and is int");
    assert_eq!(number.answer(&scope).unwrap_err().to_string(), "1: it has to be a text and is int");
}

#[test]
fn what_is_no_expression_is_refused_with_its_place() {
    for (text, offset, expected) in [
        ("", 0, "there is no expression"),
        ("row.amount !=", 13, "the expression ends too early"),
        ("row.amount = 1", 11, "= is not expected here; write == to compare"),
        ("'한글' == (1", 14, "a ) is missing at the end"),
        ("row.a row.b", 6, "row.b is not expected here"),
        ("row.a == \"abc", 9, "the text that begins here has no closing quote"),
        ("row.a & row.b", 6, "& is not expected here; write && for and"),
        ("${date} == ''", 0, "a parameter is parameters.NAME here"),
        ("row.in", 4, "in is not expected here"),
        ("for", 0, "for is a word of the language"),
        ("1 +\n  * 2", 6, "* is not expected here"),
        ("'김' + uper(row.a)", 8, "there is no function uper; did you mean upper?"),
        ("row.a.startWith('x')", 6, "there is no function startWith; did you mean startsWith?"),
        ("frobnicate(1)", 0, "there is no function frobnicate"),
        ("decimal(row.a)", 0, "decimal is called as `decimal(text, digits)`"),
        ("startsWith(row.a, 'x')", 0, "startsWith is called as `text.startsWith(part)`"),
        ("row.a.map(1)", 6, "map is called as `list.map(x, value)`"),
        ("acme.Thing{a: 1}", 10, "there is no type acme.Thing"),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert!(error.message.contains(expected), "{text}: {error}");
        assert_eq!(error.offset, offset, "{text}: {error}");
    }
}

#[test]
fn names_from_outside_are_told_and_those_of_loops_are_not() {
    let text = "split(row.tags, ',').exists(x, x == parameters.tag) && has(row.id) && type(last) == int && row['a b'] == ''";
    let expression = Expression::parse(text).unwrap();

    let mut variables: Vec<&str> = expression.variables().iter().map(|(name, _)| name.as_str()).collect();
    variables.sort_unstable();
    assert_eq!(variables, ["last", "parameters", "row"]);
    assert_eq!(expression.fields("parameters"), [("tag".to_owned(), text.find("tag)").unwrap())]);
    let columns: Vec<String> = expression.fields("row").into_iter().map(|(name, _)| name).collect();
    assert_eq!(columns, ["tags", "id", "a b"]);
    let last = expression.variables().iter().find(|(name, _)| name == "last");
    assert_eq!(last.map(|(_, offset)| *offset), text.find("last"));
}

#[test]
fn deep_and_long_expressions_end_in_a_refusal_not_in_a_crash() {
    let refused = |text: String| Expression::parse(&text).unwrap_err().message;

    assert!(refused("(".repeat(33) + "1" + &")".repeat(33)).contains("more than 32 brackets"));
    assert!(refused("[".repeat(4000)).contains("more than 32 brackets"));
    assert!(refused("1+".repeat(2040) + "1").contains("parts within parts"));
    assert!(refused("a".to_owned() + &".b".repeat(2000)).contains("parts within parts"));
    assert!(refused("a".to_owned() + &"[0]".repeat(1300)).contains("parts within parts"));
    assert!(refused("x".repeat(4097)).contains("4096 are allowed"));
    assert!(refused("['a']".to_owned() + &".map(x, x + x)".repeat(5)).contains("at most 4"));
    assert!(refused("a.all(x, x.all(y, y.all(z, z)))".to_owned()).contains("one within the other"));
    assert!(refused("1?2:".repeat(1000) + "3").len() > 5);
}

#[test]
fn what_is_within_the_limits_can_be_evaluated_on_a_small_stack() {
    let brackets = "(".repeat(32) + "1" + &")".repeat(32);
    let calls = "trim(".repeat(32) + "'a'" + &")".repeat(32);
    let sum = "1+".repeat(47) + "1";
    let maps = "[1]".to_owned() + &".map(x, x)".repeat(4);
    let strings = "'x'.matches('(((((((((((((((((((((((((((((((((((x')".to_owned();

    for text in [brackets, calls, sum, maps] {
        assert!(evaluate(&text).is_ok(), "{text}");
    }
    assert!(evaluate(&strings).is_err());
}

#[test]
fn no_name_is_declared_twice() {
    let mut names: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();

    assert_eq!(names.len(), count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_is_read_or_refused_with_a_place_in_it(
        text in "(row|parameters|\\.|a|'|\"|\\(|\\)|\\[|\\]|\\{|\\}|,|\\+|-|!|=|&|\\?|:|1|김| |\\\\|size|map|has|\n){0,20}",
    ) {
        match Expression::parse(&text) {
            Ok(expression) => {
                let (parameters, others) = (Names::new(), Names::new());
                let _ = expression.value(&Scope { row: Some(&row()), parameters: &parameters, others: &others });
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.offset), "{}", error.offset),
        }
    }
}
