//! Every file of `tests/bad_jobs` has the message that stands beside it. `UPDATE_SNAPSHOT=1` rewrites the messages.

use crate::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tidemill_declare::{Diagnostics, Known, load_beside, load_folder};

/// Fewer are not enough to say that messages are looked after.
const FILES_MIN: usize = 25;

/// All problems of a file or folder. A file is copied to `folder`, which has no other job files.
fn refusal(path: &Path, folder: &TempDir) -> Option<Diagnostics> {
    let connections = ["warehouse".to_owned(), "shop".to_owned()];
    let channels = ["log".to_owned(), "ops".to_owned()];
    let known =
        Known { connections: &connections, channels: Some(&channels), own_jobs: &[], lacks_objects: false };
    if path.is_dir() {
        let invalid = load_folder(path, &known).unwrap().invalid;
        return Diagnostics::join(invalid.into_iter().map(|file| file.problems));
    }
    let copy = folder.path().join(path.file_name().unwrap());
    fs::copy(path, &copy).unwrap();
    let problems = load_beside(&copy, &known).err();
    // Its problems are shown with the path of the copy.
    fs::rename(&copy, copy.with_extension("checked")).unwrap();
    problems
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("tests/bad_jobs")).unwrap();
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_none_or(|ending| ending != "expected"));
    cases.sort();
    cases
}

#[test]
fn every_bad_file_has_its_message() {
    let cases = cases();
    assert!(cases.len() >= FILES_MIN, "only {} files were found", cases.len());
    let root = format!("{}/", workspace().display());
    let folder = tempfile::tempdir().unwrap();
    let copies = format!("{}/", folder.path().display());
    let mut wrong = Vec::new();
    for case in &cases {
        let Some(refusal) = refusal(case, &folder) else {
            wrong.push(format!("{} is accepted", case.display()));
            continue;
        };
        let told = refusal.to_string().replace(&root, "").replace(&copies, "tests/bad_jobs/");
        let expected = case.with_extension("expected");
        if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
            fs::write(&expected, &told).unwrap();
        } else if fs::read_to_string(&expected).ok().as_ref() != Some(&told) {
            wrong.push(format!("{} is not:\n{told}", expected.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_message_is_left_without_its_file() {
    let cases = cases();
    for entry in fs::read_dir(workspace().join("tests/bad_jobs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "expected") {
            assert!(cases.iter().any(|case| case.with_extension("expected") == path), "{}", path.display());
        }
    }
}

#[test]
fn every_problem_has_a_place_in_its_file_and_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        let Some(refusal) = refusal(&case, &folder) else { continue };
        for problem in refusal.problems() {
            assert!(!problem.fix.is_empty() && !problem.fix.ends_with('.'), "{problem}");
            assert!(!problem.what.ends_with('.'), "{problem}");
            if let Some(place) = problem.place {
                let path = if case.is_dir() { &problem.path } else { &case };
                let text = fs::read_to_string(path).unwrap();
                let line = text.lines().nth(place.line - 1).unwrap_or_default();
                assert!(place.column <= line.chars().count() + 1, "{problem}");
            }
        }
        let json = refusal.json();
        assert_eq!(json.as_array().unwrap().len(), refusal.problems().len());
        assert!(json[0]["file"].is_string() && json[0]["fix"].is_string(), "{json}");
    }
}
