//! Files of all formats that Python makes and reads. The job that copies them dies, and goes on.

use super::{die_at, go_on, stage};
use crate::airflow::run_python;
use crate::examples::Program;
use crate::workspace;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::moto::PrivateMoto;
use tidemill_testkit::{long_or, skip};

/// The variable that names a Python with openpyxl, zstandard, pyarrow and fastavro.
const PYTHON: &str = "TIDEMILL_TEST_FORMATS_PYTHON";

const ROWS: i64 = 50;

const ALL_COMMITTED: &str = "chunk_after_commit:5";

/// The file has its name, and the end of its step is not committed.
const NAMED: &str = "step_closed:1";

/// Deaths in a chunk of the middle, after the last one, and when the file gets its name.
const DEATHS: [&str; 5] =
    ["chunk_after_write:3", "chunk_before_commit:3", "chunk_after_commit:3", ALL_COMMITTED, NAMED];

/// For one more variant of a format.
const TWO_DEATHS: &[&str] = &["chunk_before_commit:3", ALL_COMMITTED];

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

fn python(program: &Program, arguments: &[&str]) -> Option<Value> {
    let python = skip::require("formats", std::env::var_os(PYTHON)).map(PathBuf::from)?;
    let script = workspace().join("crates/tidemill/tests/cli/exact/formats/files.py");
    Some(run_python(&program.stage, &python, &script, &[], arguments))
}

/// Python makes the file `from`; the job copies it to `to`, dies at each point and goes on; Python reads `to`.
fn check(from: &str, read: &str, to: &str, write: &str, rows: &[Value]) {
    check_all(long_or(&DEATHS, &["chunk_before_commit:3", NAMED]), &[(from, rows)], read, to, write);
}

/// The same with other deaths, and with several files, which are read one after the other.
fn check_all(deaths: &[&str], made: &[(&str, &[Value])], read: &str, to: &str, write: &str) {
    for death in deaths {
        let database = Scratch::file();
        let program = Program::tidemill(stage(database.url()));
        if copied(&program, &Place::Folder, death, made, read, to, write).is_none() {
            return;
        }
        for left in [format!("{to}.part"), format!("{to}.whole")] {
            assert!(!program.stage.path(&left).exists(), "{left} is left over");
        }
    }
}

/// Where the files are.
pub(super) enum Place<'a> {
    /// In that of the program.
    Folder,
    Bucket(&'a PrivateMoto),
}

impl Place<'_> {
    /// Moves a file of the program there.
    fn put(&self, program: &Program, name: &str) {
        if let Self::Bucket(server) = self {
            server.put(name, &fs::read(program.stage.path(name)).unwrap()).unwrap();
            fs::remove_file(program.stage.path(name)).unwrap();
        }
    }

    /// Fetches a file from there; whether it is there.
    fn get(&self, program: &Program, name: &str) -> bool {
        if let Self::Bucket(server) = self
            && let Some(content) = server.get(name).unwrap()
        {
            fs::write(program.stage.path(name), content).unwrap();
        }
        program.stage.path(name).exists()
    }

    /// A reader or writer of a job file, with paths there.
    fn paths(&self, text: &str) -> String {
        match self {
            Self::Folder => text.to_owned(),
            Self::Bucket(_) => text.replace("path: ", "path: s3://lake/"),
        }
    }
}

/// None without Python.
pub(super) fn copied(
    program: &Program,
    place: &Place<'_>,
    death: &str,
    made: &[(&str, &[Value])],
    read: &str,
    to: &str,
    write: &str,
) -> Option<()> {
    let (read_there, write_there) = (place.paths(read), place.paths(write));
    let job = format!(
        "job: copy\nsteps:\n  - name: copy\n    chunk: 10\n    read: {{ {read_there} }}\n    write: {{ {write_there} }}\n"
    );
    fs::write(program.stage.path("copy.yaml"), job).unwrap();
    for (name, rows) in made {
        python(program, &["make", name, &serde_json::to_string(rows).unwrap()])?;
        place.put(program, name);
    }

    die_at(program, &["job", "run", "copy.yaml"], death);
    assert_eq!(place.get(program, to), death == NAMED, "{to}, death at {death}");
    // After all rows, it dies once more: when it has saved the end of the file.
    if death == ALL_COMMITTED {
        die_at(program, &["job", "run", "copy.yaml"], "chunk_after_commit:1");
    }
    go_on(program, &["job", "run", "copy.yaml"]).succeeds();

    assert!(place.get(program, to), "{to}, death at {death}");
    let rows: Vec<&Value> = made.iter().flat_map(|(_, rows)| *rows).collect();
    assert_eq!(python(program, &["rows", to]), Some(json!(rows)), "{read} to {to}, death at {death}");
    Some(())
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
    let (read, write) = (read.replace(".txt", ".txt.gz"), write.replace(".txt", ".txt.zst"));
    check_all(TWO_DEATHS, &[("in.txt.gz", &rows)], &read, "out.txt.zst", &write);
}

#[test]
fn xml_records_are_copied() {
    let read = "xml: { path: in.xml, record: row }";
    let write = "xml: { path: out.xml.gz, record: row, root: rows, attributes: [id] }";
    check("in.xml", read, "out.xml.gz", write, &rows());
    let read = "xml: { path: in.xml.zst, record: row }";
    check_all(TWO_DEATHS, &[("in.xml.zst", &rows())], read, "out.xml.gz", write);
}

/// The first file ends with a chunk, the second within one, and the third has a header only.
#[test]
fn files_that_a_pattern_names_are_copied_as_one() {
    let deaths = [
        "chunk_after_write:2",
        "chunk_after_commit:2",
        "chunk_after_commit:3",
        "chunk_before_commit:4",
        "chunk_after_commit:4",
        ALL_COMMITTED,
    ];
    let rows = rows();
    let made = [
        ("in-a.csv", &rows[..20]),
        ("in-b.csv.gz", &rows[20..35]),
        ("in-c.csv", &rows[..0]),
        ("in-d.csv.zst", &rows[35..]),
    ];
    check_all(&deaths, &made, "csv: { path: 'in-*.csv*' }", "out.jsonl", "jsonl: { path: out.jsonl }");
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

#[test]
fn parquet_becomes_avro_and_avro_arrow_and_arrow_parquet() {
    let columns = "columns: { id: text, name: text }";
    for (from, to, codec) in
        [("parquet", "avro", "snappy"), ("avro", "arrow", "zstd"), ("arrow", "parquet", "gzip")]
    {
        let read = format!("{from}: {{ path: in.{from} }}");
        let write = format!("{to}: {{ path: out.{to}, {columns}, compression: {codec} }}");
        check(&format!("in.{from}"), &read, &format!("out.{to}"), &write, &rows());
    }
}

#[test]
fn row_groups_are_partitions() {
    let database = Scratch::file();
    row_groups(&Program::tidemill(stage(database.url())), &Place::Folder);
}

/// Each row group of a file becomes a file.
pub(super) fn row_groups(program: &Program, place: &Place<'_>) {
    let read =
        "partitions: { by: row_group, pattern: in.parquet }\n    read: { parquet: { path: '${file}' } }";
    let write = "arrow: { path: 'out-${row_group}.arrow', columns: { id: text, name: text } }";
    let (read, write) = match place {
        Place::Folder => (read.to_owned(), write.to_owned()),
        Place::Bucket(_) => {
            (read.replace("in.parquet", "'s3://lake/in.parquet'"), write.replace("out-", "s3://lake/out-"))
        }
    };
    let job =
        format!("job: copy\nsteps:\n  - name: copy\n    chunk: 10\n    {read}\n    write: {{ {write} }}\n");
    fs::write(program.stage.path("copy.yaml"), job).unwrap();
    if python(program, &["make", "in.parquet", &serde_json::to_string(&rows()).unwrap()]).is_none() {
        return;
    }
    place.put(program, "in.parquet");

    die_at(program, &["job", "run", "copy.yaml"], "chunk_after_commit:3");
    go_on(program, &["job", "run", "copy.yaml"]).succeeds();

    for (group, expected) in rows().chunks(20).enumerate() {
        let name = format!("out-{group}.arrow");
        assert!(place.get(program, &name), "row group {group}");
        assert_eq!(python(program, &["rows", &name]), Some(json!(expected)), "row group {group}");
    }
}
