//! Files and folders as they are on a disk.

use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tidemill_declare::{Folder, InvalidFile, Known, folder_state, load, load_beside, load_folder};

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

    let loaded = load_folder(folder.path(), &Known::default()).unwrap();

    assert_eq!(names(&loaded), ["first", "second"]);
    assert!(loaded.invalid.is_empty());
}

fn names(loaded: &Folder) -> Vec<&str> {
    loaded.files.iter().map(|file| file.name.value.as_str()).collect()
}

/// File, job and headlines of the invalid files.
fn invalid(loaded: &Folder, folder: &Path) -> Vec<(String, Option<String>, Vec<String>)> {
    let of = |file: &InvalidFile| {
        let name = file.path.file_name().unwrap().to_string_lossy().into_owned();
        (name, file.job.clone(), headlines(&file.problems, folder))
    };
    loaded.invalid.iter().map(of).collect()
}

#[test]
fn an_invalid_file_does_not_keep_the_others_from_being_loaded() {
    let folder = folder(&[
        ("a.yaml", "job: a # with a comment\nsteps: [\n"),
        ("b.yaml", "steps: []\n"),
        ("c.yaml", &job("c", None)),
    ]);

    let loaded = load_folder(folder.path(), &Known::default()).unwrap();

    assert_eq!(names(&loaded), ["c"]);
    let invalid = invalid(&loaded, folder.path());
    assert_eq!((&*invalid[0].0, invalid[0].1.as_deref()), ("a.yaml", Some("a")));
    assert!(invalid[0].2[0].starts_with("a.yaml:2:"), "{invalid:?}");
    assert_eq!((&*invalid[1].0, &invalid[1].1), ("b.yaml", &None));
}

#[test]
fn all_files_that_declare_the_same_job_are_invalid() {
    let folder = folder(&[
        ("a-old.yaml", &job("a", None)),
        ("a.yaml", &job("a", None)),
        ("b.yaml", &job("b", None)),
        ("c.yaml", &job("c", None)),
    ]);
    let known = Known { own_jobs: &["c".to_owned()], ..Known::default() };

    let loaded = load_folder(folder.path(), &known).unwrap();

    assert_eq!(names(&loaded), ["b"]);
    let told: Vec<String> = invalid(&loaded, folder.path()).into_iter().flat_map(|file| file.2).collect();
    assert_eq!(
        told,
        [
            "a-old.yaml:1:6: two files declare the job \"a\"",
            "a.yaml:1:6: two files declare the job \"a\"",
            "c.yaml:1:6: the program itself has a job \"c\"",
        ]
    );
}

#[test]
fn a_job_that_calls_a_job_of_an_invalid_file_is_invalid_too() {
    let folder = folder(&[
        ("a.yaml", &job("a", Some("b"))),
        ("b.yaml", &job("b", Some("c"))),
        ("c.yaml", "job: c\nsteps: [\n"),
        ("d.yaml", &job("d", None)),
    ]);

    let loaded = load_folder(folder.path(), &Known::default()).unwrap();

    assert_eq!(names(&loaded), ["d"]);
    let callers: Vec<bool> = loaded.invalid.iter().map(|file| file.is_caller).collect();
    assert_eq!(callers, [true, true, false]);
    let told = invalid(&loaded, folder.path());
    assert_eq!(told[0].2, ["a.yaml:4:10: the file of the job \"b\" has mistakes"]);
}

#[test]
fn the_state_of_a_folder_changes_with_its_job_files_only() {
    let folder = folder(&[("a.yaml", "job: a\n"), ("notes.txt", "")]);
    let state = || folder_state(folder.path()).unwrap();
    let before = state();

    fs::write(folder.path().join("notes.txt"), "more").unwrap();
    assert_eq!(state(), before);
    fs::write(folder.path().join("a.yaml"), "job: ab\n").unwrap();
    assert_ne!(state(), before);
    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    assert!(state().is_empty());
}

#[test]
fn everything_that_is_wrong_in_a_folder_is_told_at_once() {
    let folder =
        folder(&[("a.yaml", "job: a\n"), ("b.yaml", "job: b\nstepps: []\n"), ("c.yaml", &job("c", None))]);

    let loaded = load_folder(folder.path(), &Known::default()).unwrap();

    let told: Vec<String> = invalid(&loaded, folder.path()).into_iter().flat_map(|file| file.2).collect();
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
fn a_folder_without_job_files_is_empty_and_one_that_does_not_exist_is_refused() {
    let empty = folder(&[("notes.txt", "")]);
    let load = |path: &Path| load_folder(path, &Known::default());

    assert!(names(&load(empty.path()).unwrap()).is_empty());
    let missing = load(&empty.path().join("nowhere")).unwrap_err();
    assert!(missing.to_string().contains("cannot be read"));
}

#[test]
fn a_file_runs_although_another_of_its_folder_is_broken() {
    let folder =
        folder(&[("a.yaml", &job("a", Some("b"))), ("b.yaml", &job("b", None)), ("broken.yaml", "job: [\n")]);

    let load = || load_beside(folder.path().join("a.yaml"), &Known::default());

    assert_eq!(load().unwrap().1.len(), 1);
    fs::remove_file(folder.path().join("b.yaml")).unwrap();
    assert!(load().unwrap_err().to_string().contains("there is no job \"b\""));
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

#[test]
fn a_program_without_object_stores_refuses_their_urls_in_every_place() {
    let job = "job: a
steps:
  - name: load
    chunk: 1
    partitions: { by: file, pattern: \"s3://lake/in/*.csv\" }
    read: { csv: { path: \"${file}\" } }
    process: { lookup: { rate: { read: { json: { path: \"az://lake/rates.json\" } }, key: id, match: row.id, columns: [rate] } } }
    write: [{ json: { path: \"gs://lake/${file}.json\" } }, { jsonl: { path: \"${file}.jsonl\" } }]
    skip: { limit: 1, reject: \"s3://lake/rejects.csv\" }
";
    let folder = folder(&[("a.yaml", job)]);
    let path = folder.path().join("a.yaml");

    let refused = load_beside(&path, &Known { lacks_objects: true, ..Known::default() }).unwrap_err();

    let told = headlines(&refused, folder.path());
    let lines = [5, 7, 8, 9].map(|line| format!("a.yaml:{line}:"));
    assert!(lines.iter().all(|line| told.iter().any(|one| one.starts_with(line))), "{told:?}");
    assert!(
        told.len() == 4 && told.iter().all(|one| one.contains("built without object stores")),
        "{told:?}"
    );
    assert!(load_beside(&path, &Known::default()).is_ok());
}
