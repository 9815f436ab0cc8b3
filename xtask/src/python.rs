//! Python programs for the tests: virtual environments of fixed content, installed once into the user's cache.

use crate::cache::Kept;
use crate::process::run_in_terminal;
use crate::supervise::Cancel;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Its folder in that of the cache.
const ENVIRONMENT: &str = "environment";

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
        let kept = Kept { name: self.name, folder: &self.folder, size: self.size };
        let folder = kept.ready(is_there, |folder| self.install(&folder.join(ENVIRONMENT), cancel, check))?;
        Ok(folder.join(ENVIRONMENT))
    }

    fn install(
        &self,
        environment: &Path,
        cancel: &Cancel,
        check: impl FnOnce(&Path) -> Result<Command, String>,
    ) -> Result<(), String> {
        let mut make = Command::new(self.python);
        make.args(["-m", "venv", "--clear"]).arg(environment);
        run_in_terminal(make, cancel)?;
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args(["install", "--no-input", "--quiet"]).args(self.install);
        run_in_terminal(pip, cancel)?;
        run_in_terminal(check(environment)?, cancel)
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

/// Whether the Python that it rests on is still there.
fn is_there(folder: &Path) -> bool {
    folder.join(ENVIRONMENT).join("bin/python").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_environment_is_there_while_its_python_is() {
        let folder = tempfile::tempdir().unwrap();
        let (environment, python) = (folder.path().join(ENVIRONMENT), folder.path().join("python"));
        fs::create_dir_all(environment.join("bin")).unwrap();
        fs::write(&python, "").unwrap();
        symlink(&python, environment.join("bin/python")).unwrap();

        let before = is_there(folder.path());
        fs::remove_file(&python).unwrap();
        let upgraded = is_there(folder.path());

        assert_eq!((before, upgraded), (true, false));
    }

    #[test]
    fn a_python_that_is_absent_or_of_another_version_is_not_found() {
        assert_eq!(find(&["no-such-python"], "True"), None);
        assert_eq!(find(&["python3"], "sys.version_info < (3,)"), None);
    }
}
