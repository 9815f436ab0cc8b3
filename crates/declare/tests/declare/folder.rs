//! Files and folders as they are on a disk.

use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tidemill_declare::{Known, check, load, load_beside, load_folder};

fn job(name: &str, called: Option<&str>) -> String {
    let work = called.map_or("command: [\"true\"]".to_owned(), |called| format!("job: {called}"));
    format!("job: {name}\nsteps:\n  - name: run\n    {work}\n")
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn headlines(wrong: &tidemill_declare::Diagnostics, folder: &Path) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    wrong.problems().iter().map(|problem| problem.headline().replace(&prefix, "")).collect()
}

#[test]
fn a_folder_is_read_in_the_order_of_names_and_other_files_are_left_alone() {
    let folder = folder(&[
        ("b.yml", &job("second", None)),
        ("a.yaml", &job("first", Some("second"))),
        ("notes.txt", "not: [yaml"),
    ]);
    fs::create_dir(folder.path().join("deep.yaml")).unwrap();

    let files = load_folder(folder.path()).unwrap();

    let names: Vec<&str> = files.iter().map(|file| file.name.value.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn everything_that_is_wrong_in_a_folder_is_told_at_once() {
    let folder =
        folder(&[("a.yaml", "job: a\n"), ("b.yaml", "job: b\nstepps: []\n"), ("c.yaml", &job("c", None))]);

    let wrong = load_folder(folder.path()).unwrap_err();

    let told = headlines(&wrong, folder.path());
    assert_eq!(
        told,
        [
            "a.yaml:1:1: a job needs the key \"steps\", and here is none",
            "b.yaml:1:1: a job needs the key \"steps\", and here is none",
            "b.yaml:2:1: unknown key \"stepps\" in a job",
        ]
    );
}

#[test]
fn a_folder_without_job_files_is_refused() {
    let empty = folder(&[("notes.txt", "")]);

    assert!(load_folder(empty.path()).unwrap_err().to_string().contains("has no job files"));
    assert!(load_folder(empty.path().join("nowhere")).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn a_file_runs_although_another_of_its_folder_is_broken() {
    let folder =
        folder(&[("a.yaml", &job("a", Some("b"))), ("b.yaml", &job("b", None)), ("broken.yaml", "job: [\n")]);

    let (file, others) = load_beside(folder.path().join("a.yaml")).unwrap();

    assert_eq!(others.len(), 1);
    assert_eq!(check(&file, &Known { connections: &[], jobs: &others }), Ok(()));
    assert!(check(&file, &Known::default()).unwrap_err().to_string().contains("there is no job \"b\""));
}

#[test]
fn what_cannot_be_read_is_told() {
    let folder = folder(&[]);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("latin.yaml"), b"job: a\nsteps:\n  - name: caf\xe9\n").unwrap();
    fs::write(path("large.yaml"), "#".repeat(2 * 1024 * 1024)).unwrap();
    let refusal = |name: &str| headlines(&load(path(name)).unwrap_err(), folder.path()).join("\n");

    assert_eq!(refusal("nowhere.yaml"), "nowhere.yaml: the file cannot be read");
    assert_eq!(refusal("latin.yaml"), "latin.yaml:3:14: the byte at this place is not UTF-8");
    assert_eq!(refusal("large.yaml"), "large.yaml: the file is larger than 1024 KiB");
    assert!(load(folder.path()).unwrap_err().to_string().contains("no regular file"));
}

#[test]
fn a_byte_order_mark_is_not_seen() {
    let text = format!("\u{feff}{}", job("a", None));
    let folder = folder(&[("a.yaml", &text)]);

    assert_eq!(load(folder.path().join("a.yaml")).unwrap().name.value, "a");
}
