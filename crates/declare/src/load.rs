//! Loading job files: one, one with its neighbours, or a whole folder.

use crate::check::{Checker, Neighbours};
use crate::document::BYTES_MAX;
use crate::model::{JobFile, Place, TestFile};
use crate::parse::Gaps;
use crate::{Diagnostic, Diagnostics, Source, check, document, parse};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the program and its configuration have besides the files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    pub connections: &'a [String],
    /// Alert channels that a job may notify; none if they are not checked.
    pub channels: Option<&'a [String]>,
    /// Names of the program's own jobs, which files must not declare again.
    pub own_jobs: &'a [String],
    /// Whether the program was built without object stores, so that their URLs are refused.
    pub lacks_objects: bool,
}

/// The job files of a folder, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    pub files: Vec<JobFile>,
    pub invalid: Vec<InvalidFile>,
}

#[derive(Clone, Debug)]
pub struct InvalidFile {
    pub path: PathBuf,
    /// The job that it declares, if that can be read.
    pub job: Option<String>,
    pub problems: Diagnostics,
    /// Whether its only problem is that it calls a job of another invalid file.
    pub is_caller: bool,
}

/// Parses a job file and checks it by itself.
pub fn load(path: impl AsRef<Path>) -> Result<JobFile, Diagnostics> {
    Draft::load(path.as_ref()).finish()
}

/// Parses the text of a job file and checks it by itself.
///
/// ```
/// let wrong = tidemill_declare::read("a.yaml", "job: a\nstep: []\n").unwrap_err();
/// assert_eq!(wrong.problems()[0].headline(), "a.yaml:1:1: a job needs the key \"steps\", and here is none");
/// assert_eq!(wrong.problems()[1].fix, "did you mean steps?");
/// ```
pub fn read(path: impl Into<PathBuf>, text: &str) -> Result<JobFile, Diagnostics> {
    Draft::read(path.into(), text).finish()
}

/// Parses a test file.
pub fn load_test(path: impl AsRef<Path>) -> Result<TestFile, Diagnostics> {
    let path = path.as_ref();
    read_test(path, &text(path).map_err(|problem| Diagnostics::one(*problem))?)
}

/// Parses the text of a test file.
fn read_test(path: &Path, text: &str) -> Result<TestFile, Diagnostics> {
    let source = Source::new(path, text);
    let (root, mut problems) = document::read(&source, document::OF_TEST);
    let (file, found) = root.map_or((None, Vec::new()), |root| parse::test(&source, &root));
    problems.extend(found);
    match (file, Diagnostics::of(problems)) {
        (Some(file), None) => Ok(file),
        (_, Some(problems)) => Err(problems),
        (None, None) => Err(not_understood(path)),
    }
}

/// Whether a file is a test of a job, and not a job: `settle.test.yaml` is the test of `settle.yaml`.
pub fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some_and(|inner| inner == "test"))
}

/// Loads the `*.yaml` and `*.yml` files of a folder, except tests, without subfolders, and checks each by itself and all together.
/// The error means that the folder cannot be read.
pub fn load_folder(folder: impl AsRef<Path>, known: &Known<'_>) -> Result<Folder, Diagnostics> {
    let mut drafts: Vec<Draft> = paths(folder.as_ref())?.iter().map(|path| Draft::load(path)).collect();
    refuse_duplicates(&mut drafts, known);
    check_together(&mut drafts, known);
    let mut loaded = Folder::default();
    for draft in drafts {
        let (path, job, is_caller) = (draft.path.clone(), draft.job.clone(), draft.is_caller);
        match draft.finish() {
            Ok(file) => loaded.files.push(file),
            Err(problems) => loaded.invalid.push(InvalidFile { path, job, problems, is_caller }),
        }
    }
    Ok(loaded)
}

/// Loads a job file and the others of its folder, which its job steps may call. Invalid others are left out.
pub fn load_beside(
    path: impl AsRef<Path>,
    known: &Known<'_>,
) -> Result<(JobFile, Vec<JobFile>), Diagnostics> {
    let path = path.as_ref();
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut drafts = vec![Draft::load(path)];
    // If the folder cannot be read, neither can the file, and its own message is better.
    let others = paths(folder).unwrap_or_default();
    drafts.extend(
        others.iter().filter(|other| other.file_name() != path.file_name()).map(|other| Draft::load(other)),
    );
    check_together(&mut drafts, known);
    let mut finished = drafts.into_iter().map(Draft::finish);
    let file = finished.next().unwrap_or_else(|| Err(not_understood(path)))?;
    Ok((file, finished.filter_map(Result::ok).collect()))
}

pub type FolderState = Vec<(PathBuf, u64, Option<SystemTime>)>;

/// Changes whenever a job file of the folder is added, removed or written.
pub fn folder_state(folder: impl AsRef<Path>) -> io::Result<FolderState> {
    let mut state = Vec::new();
    for path in job_paths(folder.as_ref())? {
        // A file that has just been removed is missing the next time, too.
        if let Ok(found) = fs::metadata(&path) {
            state.push((path, found.len(), found.modified().ok()));
        }
    }
    Ok(state)
}

/// A job file with everything that was found wrong so far.
#[derive(Default)]
struct Draft {
    path: PathBuf,
    job: Option<String>,
    /// As far as it could be parsed.
    file: Option<JobFile>,
    gaps: Gaps,
    problems: Vec<Diagnostic>,
    is_caller: bool,
}

impl Draft {
    fn load(path: &Path) -> Self {
        match text(path) {
            Ok(text) => Self::read(path.to_owned(), &text),
            Err(problem) => Self { path: path.to_owned(), problems: vec![*problem], ..Self::default() },
        }
    }

    fn read(path: PathBuf, text: &str) -> Self {
        let source = Source::new(&path, text);
        let job = declared_name(text);
        let (root, mut problems) = document::read(&source, document::OF_JOB);
        let Some(root) = root else { return Self { path, job, problems, ..Self::default() } };
        let (mut file, gaps, found) = parse::job(&source, &root);
        problems.extend(found);
        if let Some(file) = &mut file {
            check::mark(file);
            problems.extend(check::alone(file, &gaps));
        }
        Self { path, job, file, gaps, problems, is_caller: false }
    }

    fn finish(self) -> Result<JobFile, Diagnostics> {
        match (self.file, Diagnostics::of(self.problems)) {
            (Some(file), None) => Ok(file),
            (_, Some(problems)) => Err(problems),
            (None, None) => Err(not_understood(&self.path)),
        }
    }
}

fn not_understood(path: &Path) -> Diagnostics {
    let fix = "report this as a fault of the program, with the file";
    Diagnostics::one(Diagnostic::of_file(path, "the file cannot be understood", fix))
}

/// The value of the key `job`, also in a file that is not valid YAML.
fn declared_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("job:"))?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    Some(value.trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

/// Refuses all files that declare the same job: which one is meant is not known.
fn refuse_duplicates(drafts: &mut [Draft], known: &Known<'_>) {
    let declared: Vec<(PathBuf, Option<String>)> =
        drafts.iter().map(|draft| (draft.path.clone(), draft.job.clone())).collect();
    for Draft { file, problems, .. } in drafts {
        let Some(file) = file else { continue };
        let is_same = |(path, job): &&(PathBuf, Option<String>)| {
            *path != file.path && job.as_ref() == Some(&file.name.value)
        };
        let mut checker = Checker::of(file);
        if let Some((other, _)) = declared.iter().find(is_same) {
            let what = format!("two files declare the job {:?}", file.name.value);
            let why = format!("the other one is {}", other.display());
            checker.wrong(&file.name, what, "give one of the jobs another name").why = Some(why);
        }
        if known.own_jobs.contains(&file.name.value) {
            let what = format!("the program itself has a job {:?}", file.name.value);
            checker.wrong(&file.name, what, "give the job of the file another name");
        }
        problems.append(&mut checker.problems);
    }
}

/// Checks what each file refers to: connections, and jobs of the other files.
fn check_together(drafts: &mut [Draft], known: &Known<'_>) {
    let neighbours = Neighbours {
        files: drafts.iter().filter_map(|draft| draft.file.as_ref()).collect(),
        invalid: invalid_jobs(drafts),
    };
    let outside = |Draft { file, gaps, .. }: &Draft| match file {
        Some(file) => check::outside(file, gaps, known, &neighbours),
        None => Vec::new(),
    };
    let found: Vec<Vec<Diagnostic>> = drafts.iter().map(outside).collect();
    for (draft, found) in drafts.iter_mut().zip(found) {
        draft.problems.extend(found);
    }
    // A job that calls a job of an invalid file cannot run either, nor can its own callers.
    loop {
        let invalid: Vec<String> = invalid_jobs(drafts).into_iter().map(str::to_owned).collect();
        let mut is_last = true;
        for draft in drafts.iter_mut().filter(|draft| draft.problems.is_empty()) {
            draft.problems.extend(draft.file.iter().flat_map(|file| check::invalid_calls(file, &invalid)));
            draft.is_caller = !draft.problems.is_empty();
            is_last &= !draft.is_caller;
        }
        if is_last {
            return;
        }
    }
}

/// The jobs that files with mistakes declare.
fn invalid_jobs(drafts: &[Draft]) -> Vec<&str> {
    let invalid = drafts.iter().filter(|draft| !draft.problems.is_empty());
    invalid.filter_map(|draft| draft.job.as_deref()).collect()
}

/// Reads no more than a job file may have.
fn text(path: &Path) -> Result<String, Box<Diagnostic>> {
    let unreadable = |why: String, fix: &str| {
        Box::new(Diagnostic::of_file(path, "the file cannot be read", fix).because(why))
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
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        let source = Source::new(path, &before);
        let what = "the byte at this place is not UTF-8";
        Box::new(Diagnostic::at(&source, Place { line, column }, 1, what, "save the file as UTF-8"))
    })
}

fn paths(folder: &Path) -> Result<Vec<PathBuf>, Diagnostics> {
    job_paths(folder).map_err(|error| {
        let fix = "correct the path, or let this user read the folder";
        let problem = Diagnostic::of_file(folder, "the folder cannot be read", fix);
        Diagnostics::one(problem.because(error.to_string()))
    })
}

fn job_paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_job = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if is_job && !is_test(&path) && !path.is_dir() {
            // A file of the current folder is shown as the user would write it.
            paths.push(path.strip_prefix(".").map(Path::to_owned).unwrap_or(path));
        }
    }
    paths.sort();
    Ok(paths)
}
