//! Which files are read: one, or all that match a pattern, sorted by name.
//!
//! A restart continues in the file whose name was saved, then with those that sort after it. So no file is read twice,
//! and files that appeared meanwhile are read if they sort after it.

use super::error::InputError;
use crate::item::storage::{self, Depth, Listed};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use tidemill_domain::job::ExecutionContext;

/// Number of reads, counted as in Spring Batch.
pub(super) const READ_COUNT: &str = "read.count";

/// For a pattern: the current file, and whether it was read to its end.
const FILE: &str = "file";
const FINISHED: &str = "file.finished";

/// The version of the object that the position is in.
const VERSION: &str = "version";

/// The key under which a reader saves a part of its position.
pub(super) fn key(reader: &str, what: &str) -> String {
    format!("{reader}.{what}")
}

/// A number that a reader has saved.
pub(super) fn saved_number(
    context: &ExecutionContext,
    reader: &str,
    what: &str,
) -> Result<Option<u64>, InputError> {
    let key = key(reader, what);
    let Some(value) = context.get(&key) else { return Ok(None) };
    let bad = || InputError::Saved { reader: reader.to_owned(), key, value: value.to_string() };
    value.as_u64().map(Some).ok_or_else(bad)
}

pub(super) fn saved_version(context: &ExecutionContext, reader: &str) -> Option<String> {
    context.get_text(&key(reader, VERSION)).map(str::to_owned)
}

/// A position in an object means nothing in the one that has replaced it.
pub(super) fn check_version(path: &str, saved: Option<&str>, found: Option<&str>) -> Result<(), InputError> {
    match (saved, found) {
        (Some(saved), Some(found)) if saved != found => Err(InputError::Replaced { path: path.to_owned() }),
        _ => Ok(()),
    }
}

pub(super) fn save_version(context: &mut ExecutionContext, reader: &str, version: Option<&str>) {
    if let Some(version) = version {
        context.put(&key(reader, VERSION), version);
    }
}

/// Maximum number of files that a pattern may match.
pub const FILES_MAX: usize = 100_000;

/// Maximum number of objects that are looked at to find those that match.
const OBJECTS_MAX: usize = 10 * FILES_MAX;

#[derive(Clone, Debug)]
pub(crate) enum Files {
    One(PathBuf),
    Pattern { pattern: String, may_be_none: bool },
}

/// The file that a run stopped in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StopPoint {
    pub(crate) file: String,
    pub(crate) is_finished: bool,
}

impl StopPoint {
    pub(super) fn saved(context: &ExecutionContext, reader: &str) -> Option<Self> {
        let file = context.get_text(&key(reader, FILE))?.to_owned();
        let is_finished = context.get(&key(reader, FINISHED)).and_then(serde_json::Value::as_bool);
        Some(Self { file, is_finished: is_finished.unwrap_or(false) })
    }

    pub(super) fn save(self, context: &mut ExecutionContext, reader: &str) {
        context.put(&key(reader, FILE), self.file);
        context.put(&key(reader, FINISHED), self.is_finished);
    }
}

impl Files {
    pub(crate) fn matching(pattern: impl Into<String>) -> Self {
        Self::Pattern { pattern: pattern.into(), may_be_none: false }
    }

    pub(crate) fn shown(&self) -> String {
        match self {
            Self::One(path) => path.display().to_string(),
            Self::Pattern { pattern, .. } => pattern.clone(),
        }
    }

    /// All files, sorted. After a restart there may be none: finished files can have been moved away.
    pub(crate) fn list(&self, stopped: Option<&StopPoint>) -> Result<Vec<PathBuf>, InputError> {
        match self {
            Self::One(path) => Ok(vec![path.clone()]),
            Self::Pattern { pattern, may_be_none } => {
                let files = find(pattern)?;
                if files.is_empty() && !may_be_none && stopped.is_none() {
                    return Err(InputError::NoneMatches { pattern: pattern.clone() });
                }
                Ok(files)
            }
        }
    }
}

/// Sorted by name; an error if there is none.
pub(crate) fn matching_files(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    Files::matching(pattern).list(None)
}

/// The files that a restart still has to read.
pub(crate) fn left(files: Vec<PathBuf>, stopped: &StopPoint) -> Result<VecDeque<PathBuf>, InputError> {
    let is_there = files.iter().any(|file| file.to_str() == Some(&stopped.file));
    if !stopped.is_finished && !is_there {
        return Err(InputError::Vanished { path: stopped.file.clone() });
    }
    let is_left = |file: &PathBuf| match file.to_str() {
        Some(name) if stopped.is_finished => name > stopped.file.as_str(),
        Some(name) => name >= stopped.file.as_str(),
        None => false,
    };
    Ok(files.into_iter().filter(is_left).collect())
}

fn find(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    if let Some(url) = storage::url(Path::new(pattern)) {
        return find_objects(url);
    }
    let paths =
        glob::glob(pattern).map_err(|source| InputError::Pattern { pattern: pattern.to_owned(), source })?;
    let mut names = Vec::new();
    for path in paths {
        let path = path.map_err(|error| InputError::Open {
            path: error.path().display().to_string(),
            source: error.into(),
        })?;
        if !path.is_file() {
            continue;
        }
        if names.len() == FILES_MAX {
            return Err(InputError::TooManyMatch { pattern: pattern.to_owned(), max: FILES_MAX });
        }
        let name = path.into_os_string().into_string();
        names.push(name.map_err(|name| InputError::Name { path: name.to_string_lossy().into_owned() })?);
    }
    names.sort_unstable();
    Ok(names.into_iter().map(PathBuf::from).collect())
}

/// Objects that match, sorted by name; `*` matches within a folder, `**` also below.
fn find_objects(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    let fixed = pattern.split(['*', '?', '[']).next().unwrap_or_default();
    let folder = fixed.rsplit_once('/').map_or(fixed, |(folder, _)| folder);
    let matcher = glob::Pattern::new(pattern)
        .map_err(|source| InputError::Pattern { pattern: pattern.to_owned(), source })?;
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let has_folders = pattern[folder.len()..].trim_start_matches('/').contains('/') || pattern.contains("**");
    let depth = if has_folders { Depth::Below } else { Depth::Folder };
    let cannot_list = |source| InputError::Open { path: pattern.to_owned(), source };
    let storage = storage::installed().map_err(cannot_list)?;
    let listed = storage.list(folder, depth, OBJECTS_MAX).map_err(cannot_list)?;
    if listed.len() > OBJECTS_MAX {
        let (pattern, folder) = (pattern.to_owned(), folder.to_owned());
        return Err(InputError::TooManyListed { pattern, folder, max: OBJECTS_MAX });
    }
    let mut names = Vec::new();
    for Listed { url, size } in listed.into_iter().filter(|object| matcher.matches_with(&object.url, options))
    {
        let is_object = size > 0 || storage.find(&url).map_err(cannot_list)?.is_some();
        names.extend(is_object.then_some(url));
    }
    if names.len() > FILES_MAX {
        return Err(InputError::TooManyMatch { pattern: pattern.to_owned(), max: FILES_MAX });
    }
    names.sort_unstable();
    Ok(names.into_iter().map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(there: &[&str], file: &str, is_finished: bool) -> Option<Vec<String>> {
        let there = there.iter().map(PathBuf::from).collect();
        let files = left(there, &StopPoint { file: file.to_owned(), is_finished }).ok()?;
        Some(files.into_iter().map(|file| file.display().to_string()).collect())
    }

    #[test]
    fn a_run_goes_on_with_the_file_it_stopped_in_and_those_behind() {
        assert_eq!(check(&["a", "b", "c"], "b", false), Some(vec!["b".into(), "c".into()]));
        assert_eq!(check(&["a", "b", "c"], "b", true), Some(vec!["c".into()]));
    }

    #[test]
    fn a_finished_file_may_go_and_an_unfinished_one_may_not() {
        assert_eq!(check(&["c"], "b", true), Some(vec!["c".into()]));
        assert_eq!(check(&["c"], "b", false), None);
    }

    #[test]
    fn what_came_meanwhile_is_read_only_when_it_sorts_behind() {
        assert_eq!(check(&["a", "aa", "b", "bb"], "b", true), Some(vec!["bb".into()]));
    }
}
