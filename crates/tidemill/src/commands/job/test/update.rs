//! Writes what was found into a test file, as what is expected. Everything else in the file stays as it is.

use super::diff::Found;
use crate::commands::prelude::*;
use tidemill_declare::model::{Expectation, FileContent, TestCase, TestFile, TestRows};
use tidemill_declare::read_test;
use tidemill_domain::job::BatchStatus;

/// The text of the file with the new expectations.
pub(super) fn updated(test: &TestFile, accepted: &[(&TestCase, Found)]) -> Result<String> {
    let mut lines: Vec<String> = test.source.text().lines().map(str::to_owned).collect();
    // The last one first, so that the lines of the others keep their numbers.
    for (case, found) in accepted.iter().rev() {
        let Some(place) = case.expect_place else { return Err(refused(test, case)) };
        let indent = place.column - 1;
        let is_inside =
            |line: &String| line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
        let inside = lines[place.line..].iter().take_while(|line| is_inside(line));
        let inside: Vec<&String> = inside.collect();
        // Blank lines at the end belong to what follows.
        let length = inside.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
        let block = block(&case.expect, found, indent);
        lines.splice(place.line - 1..place.line + length, block).for_each(drop);
    }
    let text = lines.join("\n") + "\n";
    match read_test(&test.path, &text) {
        Ok(_) => Ok(text),
        Err(_) => Err(refused(test, accepted[0].0)),
    }
}

fn refused(test: &TestFile, case: &TestCase) -> Failure {
    let what = format!("{}: the case {:?} cannot be updated", test.path.display(), case.name.value);
    let fix = "write `expect:` on a line of its own in that case, with nothing or indented lines below it";
    Failure::new(Code::BadJobFile, what, fix)
}

/// The lines of `expect`: what it named before, or everything if it named nothing.
fn block(expect: &Expectation, found: &Found, indent: usize) -> Vec<String> {
    let is_all = expect.is_empty();
    let mut lines = vec!["expect:".to_owned()];
    if is_all || expect.status.is_some() || found.status != BatchStatus::Completed {
        lines.push(format!("  status: {}", found.status));
    }
    if expect.exit_code.is_some() {
        lines.push(format!("  exit_code: {}", scalar(&found.exit_code)));
    }
    if expect.message.is_some() {
        lines.push(format!("  message: {}", scalar(&found.message)));
    }
    let named = |step: &str| expect.steps.iter().find(|(name, _)| name == step).map(|(_, values)| values);
    let steps = found.steps.iter().filter(|(step, _)| is_all || named(step).is_some());
    let steps: Vec<String> = steps
        .map(|(step, values)| {
            let is_named = |name: &str| match named(step) {
                Some(values) => values.iter().any(|(known, _)| known == name),
                None => !matches!(name, "status" | "exit_code"),
            };
            let values = values.iter().filter(|(name, _)| is_named(name));
            let values: Vec<String> =
                values.map(|(name, value)| format!("{name}: {}", scalar(value))).collect();
            format!("    {}: {{ {} }}", scalar(step), values.join(", "))
        })
        .collect();
    section(&mut lines, "steps", steps);
    let tables = found.tables.iter().filter_map(|(table, rows)| Some((table, rows.as_ref().ok()?)));
    section(&mut lines, "tables", tables.flat_map(|(table, rows)| table_lines(table, rows)).collect());
    let content = |file: &str| expect.files.iter().find(|(name, _)| name == file).map(|(_, content)| content);
    let files = found.files.iter().filter_map(|(file, text)| Some((file, text.as_ref()?)));
    let files = files.flat_map(|(file, text)| match content(file) {
        Some(FileContent::From(path)) => vec![format!("    {}: {{ from: {} }}", scalar(file), scalar(path))],
        _ => file_lines(file, text),
    });
    section(&mut lines, "files", files.collect());
    let indented =
        |line: String| if line.is_empty() { line } else { format!("{}{line}", " ".repeat(indent)) };
    lines.into_iter().map(indented).collect()
}

fn section(lines: &mut Vec<String>, name: &str, content: Vec<String>) {
    if !content.is_empty() {
        lines.push(format!("  {name}:"));
        lines.extend(content);
    }
}

fn table_lines(table: &str, TestRows { columns, rows }: &TestRows) -> Vec<String> {
    if rows.is_empty() {
        return vec![format!("    {}: []", scalar(table))];
    }
    let cell = |cell: &Option<String>| cell.as_ref().map_or_else(|| "null".to_owned(), |text| scalar(text));
    let row = |row: &Vec<Option<String>>| {
        let cells =
            columns.iter().zip(row).map(|(column, value)| format!("{}: {}", scalar(column), cell(value)));
        format!("      - {{ {} }}", cells.collect::<Vec<_>>().join(", "))
    };
    std::iter::once(format!("    {}:", scalar(table))).chain(rows.iter().map(row)).collect()
}

fn file_lines(file: &str, text: &str) -> Vec<String> {
    let is_plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    let is_block = text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(is_plain);
    if !is_block {
        return vec![format!("    {}: {}", scalar(file), quoted(text))];
    }
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("      {line}") };
    std::iter::once(format!("    {}: |", scalar(file))).chain(text.lines().map(line)).collect()
}

/// In quotes, unless it is a plain word or number.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' && text.len() > 1)
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !matches!(text.to_lowercase().as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off");
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// A text of JSON is one of YAML too.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}
