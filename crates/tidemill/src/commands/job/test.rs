//! `job test`: runs jobs on sample inputs, on a database of their own, and shows how the results differ from what is expected.

mod diff;
mod perform;

use crate::commands::prelude::*;
use crate::config::Output;
use crate::output::Column;
use perform::Bench;
use std::fs;
use std::path::{Path, PathBuf};
use tidemill_declare::{Known, is_test, load_beside, load_test};
use tidemill_engine::item::storage;

#[derive(Args, Debug)]
pub(crate) struct TestArguments {
    /// Job files, their tests (NAME.test.yaml beside NAME.yaml), or folders of tests
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// A case that has run.
struct Tested {
    file: String,
    case: String,
    differences: Vec<String>,
}

pub(super) async fn run(arguments: &TestArguments, context: &Context) -> Result<Exit> {
    let mut tested = Vec::new();
    for path in tests(&arguments.paths)? {
        tested.extend(file(&path).await?);
    }
    let has_failed = tested.iter().any(|one| !one.differences.is_empty());
    match context.output() {
        Output::Table => write_stdout(report(&tested))?,
        output => listing(&tested).print(output)?,
    };
    Ok(if has_failed { Exit::Failure } else { Exit::Ok })
}

async fn file(path: &Path) -> Result<Vec<Tested>> {
    let test = load_test(path)?;
    let connections = test.cases.iter().flat_map(|case| case.connections.keys().cloned());
    let connections: Vec<String> = connections.collect();
    let lacks_objects = !storage::is_installed();
    let known = Known { connections: &connections, lacks_objects, ..Known::default() };
    let (job, others) = load_beside(job_of(path)?, &known)?;
    let bench = Bench { job, others, connections, folder: folder_of(path)? };
    let mut tested = Vec::new();
    for case in &test.cases {
        let differences = match bench.run(case).await? {
            Ok(found) => diff::differences(&case.expect, &bench.expected_files(case)?, &found),
            Err(refusal) => vec![refusal],
        };
        tested.push(Tested { file: path.display().to_string(), case: case.name.value.clone(), differences });
    }
    Ok(tested)
}

/// The test files that are meant.
fn tests(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = fs::read_dir(path).map_err(|error| no_test(path).because(error))?;
            let before = found.len();
            found.extend(
                entries.flatten().map(|entry| entry.path()).filter(|path| is_yaml(path) && is_test(path)),
            );
            found[before..].sort();
            if found.len() == before {
                return Err(no_test(path));
            }
        } else if is_test(path) {
            found.push(path.clone());
        } else {
            let beside = ["yaml", "yml"].map(|ending| path.with_extension(format!("test.{ending}")));
            found.push(beside.into_iter().find(|test| test.is_file()).ok_or_else(|| no_test(path))?);
        }
    }
    Ok(found)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

fn no_test(path: &Path) -> Failure {
    let what = format!("{} has no test", path.display());
    let fix = "write one beside the job, such as settle.test.yaml for settle.yaml; docs/guide/job-files.md has an example";
    Failure::new(Code::BadJobFile, what, fix)
}

/// `settle.yaml` for `settle.test.yaml`.
fn job_of(test: &Path) -> Result<PathBuf> {
    let job = test.with_extension("");
    let jobs = ["yaml", "yml"].map(|ending| job.with_extension(ending));
    jobs.iter().find(|job| job.is_file()).cloned().ok_or_else(|| {
        let what = format!("there is no job {} beside its test", jobs[0].display());
        Failure::new(Code::BadJobFile, what, "give both the same name: settle.yaml and settle.test.yaml")
    })
}

/// Absolute, because the cases run in another folder.
fn folder_of(path: &Path) -> Result<PathBuf> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    folder.canonicalize().map_err(|error| no_test(path).because(error))
}

fn listing(tested: &[Tested]) -> Listing {
    let columns: &[Column<Tested>] = &[
        ("file", |one| json!(one.file)),
        ("case", |one| json!(one.case)),
        ("is_passed", |one| json!(one.differences.is_empty())),
        ("differences", |one| json!(one.differences)),
    ];
    Listing::of("tidemill.job_test/v1", "No cases.", tested, columns)
}

fn report(tested: &[Tested]) -> String {
    let mut text = String::new();
    for Tested { file, case, differences } in tested {
        let word = if differences.is_empty() { "ok" } else { "FAILED" };
        text.push_str(&format!("{word:8}{file}: {case}\n"));
        differences.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    let passed = tested.iter().filter(|one| one.differences.is_empty()).count();
    text.push_str(&format!("{passed} passed, {} failed\n", tested.len() - passed));
    text
}
