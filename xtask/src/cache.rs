//! The user's cache: what is fetched once for the tests of every checkout.

use crate::stages::now;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that says that what lies beside it is whole.
const WHOLE: &str = "whole";

/// Something that is kept in the cache.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    /// What people read about it.
    pub(crate) name: &'a str,
    /// Its folder in the cache, which must change with its content.
    pub(crate) folder: &'a str,
    /// What is said about its size before it is installed.
    pub(crate) size: &'a str,
}

impl Kept<'_> {
    /// Its folder. What is not there yet, or no longer, is installed into it, and counts only once that has succeeded.
    pub(crate) fn ready(
        &self,
        is_there: impl Fn(&Path) -> bool,
        install: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        self.ready_in(&cache()?, is_there, install)
    }

    fn ready_in(
        &self,
        cache: &Path,
        is_there: impl Fn(&Path) -> bool,
        install: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let folder = cache.join(self.folder);
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        // Two runs at once must not install over each other.
        let lock = File::create(folder.join("lock")).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|error| format!("cannot lock {}: {error}", folder.display()))?;
        if folder.join(WHOLE).exists() && is_there(&folder) {
            return Ok(folder);
        }
        println!("{}: installing into {} ({}, once)", self.name, folder.display(), self.size);
        let start = now();
        install(&folder)?;
        // Last of all, so that an installation that was broken off begins again.
        fs::write(folder.join(WHOLE), self.name)
            .map_err(|error| format!("cannot note the installation: {error}"))?;
        println!("{}: installed in {:.0} s", self.name, now().duration_since(start).as_secs_f64());
        Ok(folder)
    }
}

fn cache() -> Result<PathBuf, String> {
    let given = env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let own = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder =
        given.or_else(own).ok_or("neither XDG_CACHE_HOME nor HOME says where to keep what tests need")?;
    Ok(folder.join("tidemill"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_kept_is_installed_once_and_again_when_it_was_broken_off_or_is_gone() {
        let cache = tempfile::tempdir().unwrap();
        let kept = Kept { name: "thing 1", folder: "thing-1", size: "small" };
        let installed = Cell::new(0);
        let mut results = Vec::new();
        let mut ready = |succeeds: bool| {
            let is_there = |folder: &Path| folder.join("program").exists();
            let outcome = kept.ready_in(cache.path(), is_there, |folder| {
                installed.set(installed.get() + 1);
                fs::write(folder.join("program"), "").unwrap();
                if succeeds { Ok(()) } else { Err("broken off".to_owned()) }
            });
            results.push((outcome.is_ok(), installed.get()));
        };

        ready(false);
        ready(true);
        ready(true);
        fs::remove_file(cache.path().join("thing-1/program")).unwrap();
        ready(true);

        assert_eq!(results, [(false, 1), (true, 2), (true, 2), (true, 3)]);
    }
}
