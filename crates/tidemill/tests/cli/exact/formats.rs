//! Files of all formats that Python makes and reads. The job that copies them dies, and goes on.

use super::{die_at, go_on, stage};
use crate::airflow::run_python;
use crate::examples::Program;
use crate::workspace;
use serde_json::{Value, json};
use std::path::PathBuf;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::skip;

/// The variable that names a Python with openpyxl and zstandard.
const PYTHON: &str = "TIDEMILL_TEST_FORMATS_PYTHON";

const ROWS: i64 = 50;

const ALL_COMMITTED: &str = "chunk_after_commit:5";

/// Deaths in a chunk of the middle, after the last one, and when the file gets its name.
const DEATHS: [&str; 5] = [
    "chunk_after_write:3",
    "chunk_before_commit:3",
    "chunk_after_commit:3",
    ALL_COMMITTED,
    "before_commit:13",
];

/// Rows in the form of Python's program. The names have what each format has to escape.
fn rows() -> Vec<Value> {
    let name = |id| match id % 4 {
        0 => "김철수".to_owned(),
        1 => format!("a, \"b\" <&> {id}"),
        2 => String::new(),
        _ => "two\nlines".to_owned(),
    };
    (1..=ROWS).map(|id| json!({ "id": id.to_string(), "name": name(id) })).collect()
}

/// Python makes the file `from`; the job copies it to `to`, dies at each point and goes on; Python reads `to`.
fn check(from: &str, read: &str, to: &str, write: &str, rows: &[Value]) {
    let Some(python) = skip::require("formats", std::env::var_os(PYTHON)).map(PathBuf::from) else { return };
    let python = |program: &Program, arguments: &[&str]| {
        let script = workspace().join("crates/tidemill/tests/cli/exact/formats/files.py");
        run_python(&program.stage, &python, &script, &[], arguments)
    };
    for death in DEATHS {
        let database = Scratch::file();
        let program = Program::tidemill(stage(database.url()));
        let job = format!(
            "job: copy\nsteps:\n  - name: copy\n    chunk: 10\n    read: {{ {read} }}\n    write: {{ {write} }}\n"
        );
        std::fs::write(program.stage.path("copy.yaml"), job).unwrap();
        let content = serde_json::to_string(rows).unwrap();
        python(&program, &["make", from, &content]);

        die_at(&program, &["job", "run", "copy.yaml"], death);
        // After all rows, it dies once more: when it has saved the end of the file.
        if death == ALL_COMMITTED {
            die_at(&program, &["job", "run", "copy.yaml"], "chunk_after_commit:1");
        }
        go_on(&program, &["job", "run", "copy.yaml"]).succeeds();

        assert_eq!(python(&program, &["rows", to]), json!(rows), "{from} to {to}, death at {death}");
        assert!(!program.stage.path(&format!("{to}.part")).exists(), "{to}: something is left over");
    }
}

#[test]
fn gzip_of_csv_becomes_zstd_of_json_lines() {
    let (read, write) = ("csv: { path: in.csv.gz }", "jsonl: { path: out.jsonl.zst }");
    check("in.csv.gz", read, "out.jsonl.zst", write, &rows());
}

#[test]
fn zstd_of_json_lines_becomes_gzip_of_csv() {
    let (read, write) = ("jsonl: { path: in.jsonl.zst }", "csv: { path: out.csv.gz, columns: [id, name] }");
    check("in.jsonl.zst", read, "out.csv.gz", write, &rows());
}

#[test]
fn json_arrays_are_copied() {
    let (read, write) = ("json: { path: in.json.gz }", "json: { path: out.json }");
    check("in.json.gz", read, "out.json", write, &rows());
    let (read, write) = ("json: { path: in.json }", "json: { path: out.json.zst }");
    check("in.json", read, "out.json.zst", write, &rows());
}

#[test]
fn fixed_width_files_are_copied() {
    let name = |id: i64| ["김철수", "Lee", ""][id as usize % 3];
    let rows: Vec<Value> = (1..=ROWS).map(|id| json!({ "id": id.to_string(), "name": name(id) })).collect();
    let read = "fixed_width: { path: in.txt, columns: { id: 1-6, name: 7-20 } }";
    let write = "fixed_width: { path: out.txt, columns: { id: { at: 1-6, align: right }, name: 7-20 } }";
    check("in.txt", read, "out.txt", write, &rows);
}

#[test]
fn xml_records_are_copied() {
    let read = "xml: { path: in.xml, record: row }";
    let write = "xml: { path: out.xml.gz, record: row, root: rows, attributes: [id] }";
    check("in.xml", read, "out.xml.gz", write, &rows());
}

#[test]
fn a_sheet_becomes_csv() {
    let (read, write) = ("excel: { path: in.xlsx }", "csv: { path: out.csv, columns: [id, name] }");
    // A sheet has no empty texts: such a cell is null.
    let rows: Vec<Value> = rows()
        .into_iter()
        .map(|row| if row["name"] == "" { json!({ "id": row["id"], "name": "-" }) } else { row })
        .collect();
    check("in.xlsx", read, "out.csv", write, &rows);
}
