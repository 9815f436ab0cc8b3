//! Folders that the files of a step must be in.
//!
//! Links are resolved first, and the resolved path is opened. So a link that leads outside is refused, and changing a
//! link between check and open has no effect.

use super::storage;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;

/// Folders that the files of a step must be in, at any depth.
///
/// ```
/// # use tidemill_engine::item::Roots;
/// let roots = Roots::new([std::env::temp_dir()]);
/// assert!(roots.existing(&std::env::temp_dir()).is_ok());
/// assert!(roots.existing("/".as_ref()).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Roots {
    folders: Arc<[PathBuf]>,
}

/// Why a file may not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RootsError {
    #[error(
        "{path} lies outside of the folders that this job may use here ({folders}); use a file within them, or add its \
         folder to jobs.roots"
    )]
    Outside { path: String, folders: String },
    #[error("cannot resolve {path}; check that its folder exists and may be read")]
    Unresolved { path: String, source: io::Error },
}

impl Roots {
    /// Folders are resolved for each file, and need not exist before.
    pub fn new(folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { folders: folders.into_iter().map(Into::into).collect() }
    }

    /// The real path of an existing file or folder, if it is inside.
    pub fn existing(&self, path: &Path) -> Result<PathBuf, RootsError> {
        if let Some(url) = storage::url(path) {
            return self.object(url);
        }
        match path.canonicalize() {
            Ok(real) if self.hold(&real) => Ok(real),
            Ok(_) => Err(self.outside(path)),
            Err(source) if located(path).is_some_and(|place| self.hold(&place)) => {
                Err(RootsError::Unresolved { path: path.display().to_string(), source })
            }
            // Do not reveal which files exist elsewhere.
            Err(_) => Err(self.outside(path)),
        }
    }

    /// The real path of a file that need not exist yet, if it is inside. A link has to lead to a file inside.
    pub fn target(&self, path: &Path) -> Result<PathBuf, RootsError> {
        if let Some(url) = storage::url(path) {
            return self.object(url);
        }
        let Some(name) = path.file_name() else { return Err(self.outside(path)) };
        let folder = path.parent().map_or(Path::new("."), or_current);
        let folder = self.existing(folder).map_err(|error| match error {
            RootsError::Outside { .. } => self.outside(path),
            other => other,
        })?;
        let target = folder.join(name);
        match target.symlink_metadata() {
            Ok(found) if found.is_symlink() => self.existing(&target).map_err(|_| self.outside(path)),
            _ => Ok(target),
        }
    }

    /// Object stores have no links.
    fn object(&self, url: &str) -> Result<PathBuf, RootsError> {
        match self.folders.iter().any(|folder| storage::is_inside(url, folder)) {
            true => Ok(url.into()),
            false => Err(self.outside(Path::new(url))),
        }
    }

    fn hold(&self, real: &Path) -> bool {
        self.folders.iter().any(|folder| located(folder).is_some_and(|root| real.starts_with(root)))
    }

    fn outside(&self, path: &Path) -> RootsError {
        let folders: Vec<String> =
            self.folders.iter().map(|folder| or_current(folder).display().to_string()).collect();
        RootsError::Outside { path: path.display().to_string(), folders: folders.join(", ") }
    }
}

/// The real path of a file that may not exist; none if `..` makes that a guess.
fn located(path: &Path) -> Option<PathBuf> {
    let (mut above, mut missing) = (path, Vec::new());
    loop {
        if let Ok(real) = or_current(above).canonicalize() {
            return Some(missing.iter().rev().fold(real, |place, name| place.join(name)));
        }
        missing.push(above.file_name()?);
        above = above.parent()?;
    }
}

/// The parent of a bare name is empty, and means the current folder.
fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

impl RootsError {
    /// As an error that ends a step.
    pub fn ending(self) -> ItemError {
        match self {
            Self::Outside { .. } => ItemError::fatal(self).coded(Code::FileNotAllowed),
            Self::Unresolved { .. } => ItemError::fatal(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder `in` with a file `a`, beside a folder `out` with a file `b`.
    fn stand() -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        for (name, file) in [("in", "a"), ("out", "b")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(file), "").unwrap();
        }
        let roots = Roots::new([folder.path().join("in"), folder.path().join("not there")]);
        (folder, roots)
    }

    #[test]
    fn a_file_within_is_found_and_one_outside_is_refused() {
        let (folder, roots) = stand();
        let path = |name: &str| folder.path().join(name);

        assert_eq!(roots.existing(&path("in/a")).unwrap(), path("in/a").canonicalize().unwrap());
        assert!(matches!(roots.existing(&path("out/b")), Err(RootsError::Outside { .. })));
        assert!(matches!(roots.existing(&path("in/../out/b")), Err(RootsError::Outside { .. })));
        assert!(matches!(roots.existing(&path("in/none")), Err(RootsError::Unresolved { .. })));
        assert!(matches!(roots.existing(&path("out/none/x")), Err(RootsError::Outside { .. })));
        assert!(matches!(roots.existing(&path("not there/x")), Err(RootsError::Unresolved { .. })));
        assert!(matches!(roots.existing(&path("in/none/../../out/x")), Err(RootsError::Outside { .. })));
        assert!(matches!(Roots::new([path("i")]).existing(&path("in/a")), Err(RootsError::Outside { .. })));
    }

    #[test]
    fn a_link_counts_as_what_it_leads_to() {
        let (folder, roots) = stand();
        let path = |name: &str| folder.path().join(name);
        symlink(path("out/b"), path("in/file")).unwrap();
        symlink(path("out"), path("in/folder")).unwrap();
        symlink(path("in/a"), path("out/back")).unwrap();
        symlink(path("out/not yet"), path("in/dangling")).unwrap();

        for name in ["in/file", "in/folder/b"] {
            assert!(matches!(roots.existing(&path(name)), Err(RootsError::Outside { .. })), "{name}");
        }
        assert_eq!(roots.existing(&path("out/back")).unwrap(), path("in/a").canonicalize().unwrap());
        for name in ["in/file", "in/folder/new", "in/dangling", "out/new", "in/folder/..", "in/.."] {
            assert!(roots.target(&path(name)).is_err(), "{name}");
        }
        assert_eq!(roots.target(&path("in/new")).unwrap(), path("in").canonicalize().unwrap().join("new"));
    }
}
