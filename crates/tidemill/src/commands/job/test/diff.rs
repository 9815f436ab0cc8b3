//! How the results of a job differ from what a test expects, in lines for people.

use std::collections::BTreeMap;
use tidemill_declare::model::{Expectation, TestRows};
use tidemill_domain::job::BatchStatus;
use tidemill_domain::words::plural;

/// More lines of one table or file are counted and not shown.
const LINES_MAX: usize = 40;

/// Longer parts that differ are compared line by line, without looking for what was inserted.
const ALIGNED_MAX: usize = 1000;

/// What came of a case.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub(super) status: BatchStatus,
    pub(super) exit_code: String,
    pub(super) message: String,
    /// In the order in which they ran.
    pub(super) steps: Vec<(String, Vec<(&'static str, String)>)>,
    /// Or why a table cannot be read.
    pub(super) tables: BTreeMap<String, Result<TestRows, String>>,
    /// None if there is no such file.
    pub(super) files: BTreeMap<String, Option<Vec<u8>>>,
}

/// Empty if nothing differs. `files` are the expected contents.
pub(super) fn differences(expect: &Expectation, files: &[(String, Vec<u8>)], found: &Found) -> Vec<String> {
    let mut lines = Vec::new();
    let status = expect.status.unwrap_or(BatchStatus::Completed);
    if status != found.status {
        lines.push(format!("status is {}, expected {status}", found.status));
        lines.extend((!found.message.is_empty()).then(|| format!("  {}", found.message)));
    }
    if let Some(code) = expect.exit_code.as_ref().filter(|code| **code != found.exit_code) {
        lines.push(format!("exit_code is {}, expected {code}", found.exit_code));
    }
    if let Some(message) = expect.message.as_ref().filter(|message| !found.message.contains(*message)) {
        lines.push(format!("message does not contain {message:?}: {}", found.message));
    }
    for (step, expected) in &expect.steps {
        match found.steps.iter().find(|(name, _)| name == step) {
            None => lines.push(format!("step {step} did not run")),
            Some((_, values)) => lines.extend(expected.iter().filter_map(|(name, expected)| {
                let (_, value) = values.iter().find(|(known, _)| known == name)?;
                (value != expected).then(|| format!("step {step}: {name} is {value}, expected {expected}"))
            })),
        }
    }
    for (table, expected) in &expect.tables {
        match &found.tables[table] {
            Ok(rows) => section(&mut lines, &format!("table {table}"), row_differences(expected, rows)),
            Err(why) => lines.push(format!("table {table} cannot be read: {why}")),
        }
    }
    for (file, expected) in files {
        match &found.files[file] {
            Some(bytes) => match (str::from_utf8(expected), str::from_utf8(bytes)) {
                (Ok(expected), Ok(text)) => {
                    section(&mut lines, &format!("file {file}"), line_differences(expected, text));
                }
                _ if expected == bytes => {}
                _ => lines.push(format!("file {file} has other bytes than expected")),
            },
            None => lines.push(format!("file {file} was not written")),
        }
    }
    // An empty expectation accepts nothing, so that it is not forgotten.
    if lines.is_empty() && expect.is_empty() {
        lines.push("expect is empty; write what you expect of steps, tables or files".to_owned());
    }
    lines
}

fn section(lines: &mut Vec<String>, head: &str, differences: Vec<String>) {
    if differences.is_empty() {
        return;
    }
    lines.push(format!("{head}: {}", plural(differences.len(), "difference", "differences")));
    let more = differences.len().saturating_sub(LINES_MAX);
    lines.extend(differences.into_iter().take(LINES_MAX).map(|line| format!("  {line}")));
    lines.extend((more > 0).then(|| format!("  and {more} more")));
}

type Cells = Vec<Option<String>>;

/// Rows are compared in any order. Those that differ are paired by their first column.
fn row_differences(expected: &TestRows, found: &TestRows) -> Vec<String> {
    let (mut missing, mut extra) = (expected.rows.clone(), found.rows.clone());
    missing.retain(|row| match extra.iter().position(|other| other == row) {
        Some(index) => {
            extra.remove(index);
            false
        }
        None => true,
    });
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    for row in missing {
        match extra.iter().position(|other| other.first() == row.first()) {
            Some(index) => changed.push((row, extra.remove(index))),
            None => gone.push(row),
        }
    }
    let columns = if expected.columns.is_empty() { &found.columns } else { &expected.columns };
    let named = |row: &Cells| {
        let cells = columns.iter().zip(row).map(|(column, cell)| format!("{column}={}", shown(cell)));
        cells.collect::<Vec<_>>().join(" ")
    };
    let changed = changed.iter().map(|(expected, found)| {
        let key =
            columns.iter().zip(expected).take(1).map(|(column, cell)| format!("{column}={}", shown(cell)));
        let cells =
            columns.iter().zip(expected.iter().zip(found)).filter(|(_, (expected, found))| expected != found);
        let cells = cells.map(|(column, (expected, found))| {
            format!("{column} is {}, expected {}", shown(found), shown(expected))
        });
        format!("changed  {}: {}", key.collect::<String>(), cells.collect::<Vec<_>>().join("; "))
    });
    let gone = gone.iter().map(|row| format!("missing  {}", named(row)));
    changed.chain(gone).chain(extra.iter().map(|row| format!("extra    {}", named(row)))).collect()
}

fn shown(cell: &Option<String>) -> String {
    match cell {
        None => "null".to_owned(),
        Some(text) if text.is_empty() || text.contains([' ', '"', '\n', '=']) => format!("{text:?}"),
        Some(text) => text.clone(),
    }
}

/// Lines that are missing (`-`) or too many (`+`), with their numbers.
fn line_differences(expected: &str, found: &str) -> Vec<String> {
    if expected == found {
        return Vec::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    if old == new {
        return vec!["only the line ends, or the end of the last line, differ".to_owned()];
    }
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let kept = if a.len().max(b.len()) > ALIGNED_MAX { Vec::new() } else { common(a, b) };
    let (mut lines, mut at) = (Vec::new(), (0, 0));
    for (i, j) in kept.into_iter().chain([(a.len(), b.len())]) {
        lines.extend((at.0..i).map(|index| format!("- {:>4}  {}", start + index + 1, a[index])));
        lines.extend((at.1..j).map(|index| format!("+ {:>4}  {}", start + index + 1, b[index])));
        at = (i + 1, j + 1);
    }
    lines
}

/// The places of the longest common subsequence.
fn common(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut lengths = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = match a[i] == b[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut places) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            places.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(rows: &[[&str; 2]]) -> TestRows {
        let cell = |text: &&str| (*text != "null").then(|| (*text).to_owned());
        TestRows {
            columns: ["id", "name"].map(str::to_owned).to_vec(),
            rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        }
    }

    #[test]
    fn rows_that_are_missing_extra_or_changed_are_told_apart() {
        let expected = rows(&[["1", "Kim"], ["2", "Lee"], ["3", "Doe"], ["4", "null"]]);
        let found = rows(&[["4", ""], ["2", "Lee"], ["5", "New man"], ["1", "Kym"]]);

        assert_eq!(
            row_differences(&expected, &found),
            [
                "changed  id=1: name is Kym, expected Kim",
                "changed  id=4: name is \"\", expected null",
                "missing  id=3 name=Doe",
                "extra    id=5 name=\"New man\"",
            ]
        );
        assert!(
            row_differences(&expected, &rows(&[["4", "null"], ["3", "Doe"], ["2", "Lee"], ["1", "Kim"]]))
                .is_empty()
        );
    }

    #[test]
    fn a_row_that_is_there_twice_is_not_the_same_as_once() {
        let twice = rows(&[["1", "Kim"], ["1", "Kim"]]);

        assert_eq!(row_differences(&rows(&[["1", "Kim"]]), &twice), ["extra    id=1 name=Kim"]);
    }

    #[test]
    fn an_inserted_line_does_not_make_the_lines_after_it_differ() {
        assert_eq!(line_differences("a\nb\nc\nd\n", "a\nx\nb\nd\n"), ["+    2  x", "-    3  c"]);
        assert_eq!(line_differences("a\n", "a"), ["only the line ends, or the end of the last line, differ"]);
    }

    proptest! {
        #[test]
        fn equal_texts_and_only_those_have_no_differences(a in "[ab\n]{0,12}", b in "[ab\n]{0,12}") {
            prop_assert_eq!(line_differences(&a, &b).is_empty(), a == b);
        }

        #[test]
        fn as_many_lines_are_left_out_of_both(a in "([abc]\n){0,12}", b in "([abc]\n){0,12}") {
            let lines = line_differences(&a, &b);
            let count = |sign: char| lines.iter().filter(|line| line.starts_with(sign)).count();
            prop_assert_eq!(a.lines().count() - count('-'), b.lines().count() - count('+'));
        }
    }
}
