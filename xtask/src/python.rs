//! Python programs for the tests: virtual environments of fixed content, installed once into the user's cache.

use crate::process::run_in_terminal;
use crate::stages::now;
use crate::supervise::Cancel;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file that says that the environment beside it is whole.
const WHOLE: &str = "whole";

/// An environment, and how to come by it.
#[derive(Debug)]
pub(crate) struct Environment<'a> {
    /// What people read about it.
    pub(crate) name: &'a str,
    /// Its folder in the cache, which must change with its content.
    pub(crate) folder: String,
    /// The Python that makes it.
    pub(crate) python: &'a str,
    /// What pip is told to install.
    pub(crate) install: &'a [&'a str],
    /// What is said about its size before it is installed.
    pub(crate) size: &'a str,
}

impl Environment<'_> {
    /// Where it is. It is installed if it is not there yet, and counts only once it has passed the check.
    pub(crate) fn ready(
        &self,
        cancel: &Cancel,
        check: impl FnOnce(&Path) -> Result<Command, String>,
    ) -> Result<PathBuf, String> {
        let folder = cache()?.join(&self.folder);
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        // Two runs at once must not install over each other.
        let lock = File::create(folder.join("lock")).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|error| format!("cannot lock {}: {error}", folder.display()))?;
        let environment = folder.join("environment");
        if !is_whole(&folder, &environment) {
            self.install(&folder, &environment, cancel, check)?;
        }
        Ok(environment)
    }

    fn install(
        &self,
        folder: &Path,
        environment: &Path,
        cancel: &Cancel,
        check: impl FnOnce(&Path) -> Result<Command, String>,
    ) -> Result<(), String> {
        println!("{}: installing into {} ({}, once)", self.name, folder.display(), self.size);
        let start = now();
        let mut make = Command::new(self.python);
        make.args(["-m", "venv", "--clear"]).arg(environment);
        run_in_terminal(make, cancel)?;
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args(["install", "--no-input", "--quiet"]).args(self.install);
        run_in_terminal(pip, cancel)?;
        run_in_terminal(check(environment)?, cancel)?;
        // Last of all, so that an installation that was broken off begins again.
        fs::write(folder.join(WHOLE), self.name)
            .map_err(|error| format!("cannot note the installation: {error}"))?;
        println!("{}: installed in {:.0} s", self.name, now().duration_since(start).as_secs_f64());
        Ok(())
    }
}

/// The first of these Pythons that can make virtual environments and whose version a test in Python accepts.
pub(crate) fn find<'a>(names: &[&'a str], version: &str) -> Option<&'a str> {
    let program = format!("import sys, ensurepip, venv; sys.exit(not ({version}))");
    let is_fit = |name: &&&str| {
        let mut python = Command::new(name);
        python.args(["-c", &program]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    names.iter().find(is_fit).copied()
}

/// Whether it was installed to the end, and the Python that it rests on is still there.
fn is_whole(folder: &Path, environment: &Path) -> bool {
    folder.join(WHOLE).exists() && environment.join("bin/python").exists()
}

fn cache() -> Result<PathBuf, String> {
    let given = env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let own = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder =
        given.or_else(own).ok_or("neither XDG_CACHE_HOME nor HOME says where to keep Python programs")?;
    Ok(folder.join("tidemill"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_environment_counts_while_it_is_whole_and_its_python_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (environment, python) = (folder.path().join("environment"), folder.path().join("python"));
        fs::create_dir_all(environment.join("bin")).unwrap();
        fs::write(&python, "").unwrap();
        symlink(&python, environment.join("bin/python")).unwrap();

        let before = is_whole(folder.path(), &environment);
        fs::write(folder.path().join(WHOLE), "").unwrap();
        let after = is_whole(folder.path(), &environment);
        fs::remove_file(&python).unwrap();
        let upgraded = is_whole(folder.path(), &environment);

        assert_eq!((before, after, upgraded), (false, true, false));
    }

    #[test]
    fn a_python_that_is_absent_or_of_another_version_is_not_found() {
        assert_eq!(find(&["no-such-python"], "True"), None);
        assert_eq!(find(&["python3"], "sys.version_info < (3,)"), None);
    }
}
