//! Loading job files: one, one with its neighbours, or a whole folder.

use crate::document::BYTES_MAX;
use crate::model::{JobFile, Place};
use crate::{Diagnostic, Diagnostics, Source, check, document, parse};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Parses a job file and checks it by itself.
pub fn load(path: impl AsRef<Path>) -> Result<JobFile, Diagnostics> {
    let path = path.as_ref();
    read(path, &text(path)?)
}

/// Loads the `*.yaml` and `*.yml` files of a folder, sorted by name, without subfolders, and checks each by itself and
/// all together.
pub fn load_folder(folder: impl AsRef<Path>) -> Result<Vec<JobFile>, Diagnostics> {
    let folder = folder.as_ref();
    let paths = paths(folder)?;
    if paths.is_empty() {
        let fix = "put files with the ending .yaml into it, or name another folder";
        return Err(Diagnostics::one(Diagnostic::of_file(folder, "the folder has no job files", fix)));
    }
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match load(&path) {
            Ok(file) => files.push(file),
            Err(wrong) => problems.extend(wrong.into_problems()),
        }
    }
    // What is missing may be in a file that could not be parsed.
    if problems.is_empty() {
        problems = check::files(&files);
    }
    Diagnostics::of(problems).map_or(Ok(files), Err)
}

/// Loads a job file and the others of its folder, which its job steps may call. Invalid others are left out.
pub fn load_beside(path: impl AsRef<Path>) -> Result<(JobFile, Vec<JobFile>), Diagnostics> {
    let path = path.as_ref();
    let file = load(path)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let others = paths(folder)?.into_iter().filter(|other| other.file_name() != path.file_name());
    let others = others.filter_map(|other| load(other).ok()).collect();
    Ok((file, others))
}

/// Parses the text of a job file and checks it by itself.
///
/// ```
/// let wrong = tidemill_declare::read("a.yaml", "job: a\nstep: []\n").unwrap_err();
/// assert_eq!(wrong.problems()[0].headline(), "a.yaml:1:1: a job needs the key \"steps\", and here is none");
/// assert_eq!(wrong.problems()[1].fix, "did you mean steps?");
/// ```
pub fn read(path: impl Into<PathBuf>, text: &str) -> Result<JobFile, Diagnostics> {
    let source = Source::new(path, text);
    let root = document::read(&source)?;
    let (mut file, mut problems) = parse::job(&source, &root);
    file.iter_mut().for_each(check::mark);
    // A misspelt key would cause follow-up problems.
    if let Some(file) = &file
        && !parse::has_strangers(&root)
    {
        problems.extend(check::alone(file));
    }
    match (file, Diagnostics::of(problems)) {
        (Some(file), None) => Ok(file),
        (_, Some(problems)) => Err(problems),
        (None, None) => {
            let fix = "report this as a fault of the program, with the file";
            Err(Diagnostics::one(Diagnostic::of_file(source.path(), "the file cannot be understood", fix)))
        }
    }
}

/// Reads no more than a job file may have.
fn text(path: &Path) -> Result<String, Diagnostics> {
    let unreadable = |why: String, fix: &str| {
        let problem = Diagnostic::of_file(path, "the file cannot be read", fix).because(why);
        Diagnostics::one(problem)
    };
    let failed = |error: io::Error| {
        let fix = match error.kind() {
            io::ErrorKind::NotFound => "correct the path; it is seen from the current folder",
            _ => "let this user read the file, or name another",
        };
        unreadable(error.to_string(), fix)
    };
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(unreadable("it is no regular file".to_owned(), "name a file with a job in it"));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
        let line = before.lines().count().max(1);
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        let source = Source::new(path, &before);
        let what = "the byte at this place is not UTF-8";
        let place = Place { line: if before.ends_with('\n') { line + 1 } else { line }, column };
        Diagnostics::one(Diagnostic::at(&source, place, 1, what, "save the file as UTF-8"))
    })
}

fn paths(folder: &Path) -> Result<Vec<PathBuf>, Diagnostics> {
    let failed = |error: io::Error| {
        let fix = "correct the path, or let this user read the folder";
        let problem = Diagnostic::of_file(folder, "the folder cannot be read", fix);
        Diagnostics::one(problem.because(error.to_string()))
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_job = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if is_job && !path.is_dir() {
            // A file of the current folder is shown as the user would write it.
            paths.push(path.strip_prefix(".").map(Path::to_owned).unwrap_or(path));
        }
    }
    paths.sort();
    Ok(paths)
}
