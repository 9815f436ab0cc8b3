//! The plans of SQLite. They do not depend on values, so every statement is taken from the source text.

use crate::Bench;
use std::path::{Path, PathBuf};
use tidemill_store::scratch::in_sqlite;

/// Those of the statements that have such a line in their plan, with the plan. The condition is asked with a statement and
/// one line of its plan.
pub(crate) async fn scans(
    bench: &Bench,
    statements: &[String],
    is_whole: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for statement in statements {
        let mut tx = bench.begin().await;
        let lines = tx.plan_for_test(statement).await.unwrap();
        if lines.iter().any(|line| is_whole(statement, line)) {
            found.push(format!("{statement}\n{lines:#?}"));
        }
    }
    found
}

/// The table, or what stands for it in the statement, that a line of a plan goes through from beginning to end.
pub(crate) fn scanned(line: &str) -> Option<&str> {
    line.strip_prefix("SCAN ")?.split(' ').next()
}

/// Every statement that SQLite runs in these files and folders of `src`. A text that goes on where another one
/// ends, as in a macro, is put behind that: the other one ends with a space.
pub(crate) fn statements(paths: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut statements = Vec::new();
    for file in paths.iter().flat_map(|path| files(root.join(path))) {
        let source = std::fs::read_to_string(file).unwrap();
        let source = inlined(&for_sqlite(source.split("#[cfg(test)]").next().unwrap()));
        let deletes = source.lines().filter(|line| line.contains("\" by \""));
        for line in deletes.map(|line| line.split('"').collect::<Vec<_>>()) {
            statements.push(format!("delete from {} where {} {{in $1}}", line[1], line[3]));
        }
        let mut beginning = String::new();
        for text in source.split('"').skip(1).step_by(2) {
            match text.split_whitespace().next().unwrap_or_default() {
                "where" | "join" | "from" | "," => statements.push(format!("{beginning}{text}")),
                "select" if text.ends_with(' ') => text.clone_into(&mut beginning),
                "select" | "insert" | "update" | "delete" | "with" => statements.push(text.to_owned()),
                _ => {}
            }
        }
    }
    statements.iter().map(|text| in_sqlite(text)).collect()
}

/// The code without comments, and without what is for PostgreSQL only.
fn for_sqlite(source: &str) -> String {
    let mut is_postgres = false;
    let mut kept = Vec::new();
    for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
        is_postgres |= line.starts_with("        postgres ") && line.ends_with('{');
        let is_short = line.starts_with("        postgres {") && line.ends_with('}');
        if !is_postgres && !is_short {
            kept.push(line.replace("\\\"", "'"));
        }
        is_postgres &= line != "        }";
    }
    assert!(!is_postgres, "the end of a side for PostgreSQL was not found");
    kept.join("\n")
}

/// With a value for each parameter in the middle of a macro's text.
fn inlined(source: &str) -> String {
    let values = [
        ("$number,", "cast(p.parameter_value as integer)"),
        ("$execution,", "cast(substr(t.run_id, length($1) + 1) as integer)"),
        ("$now,", "$2"),
        ("$tickets,", "$1"),
        ("$records,", "$1"),
        ("$pools,", "$1"),
        ("$table,", "tidemill_reject"),
        ("$key,", "step_execution_id"),
    ];
    let mut source = source.replace("{table}", "batch_job_seq");
    for (name, value) in values {
        while let Some((before, after)) = source.split_once(name) {
            let before = before.trim_end().strip_suffix("\",").expect("a text before the parameter");
            let after = after.trim_start().strip_prefix('"').expect("a text after the parameter");
            source = format!("{before}{value}{after}");
        }
    }
    source
}

fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path];
    }
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
}
