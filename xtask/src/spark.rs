//! The Spark that the tests submit to: pyspark in a virtual environment, installed once into the user's cache.

use crate::python::{self, Environment};
use crate::supervise::Cancel;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::account::find_program;

/// Runs on Java 17 and 21, and on Python 3.9 and later.
const VERSION: &str = "4.0.5";

/// Whether this machine has what pyspark needs: Java, and a Python that can make virtual environments.
pub(crate) fn can_be_installed() -> bool {
    find_program("java").is_some() && find_python().is_some()
}

/// The home of Spark, which is installed if it is not there yet.
pub(crate) fn home(cancel: &Cancel) -> Result<PathBuf, String> {
    let name = format!("pyspark {VERSION}");
    let environment = Environment {
        name: &name,
        folder: format!("pyspark-{VERSION}"),
        python: find_python().ok_or("pyspark needs Python 3.9 or later")?,
        install: &[&format!("pyspark=={VERSION}")],
        size: "about 450 MB",
    };
    let environment = environment.ready(cancel, |environment| {
        // It starts, so Java is there and of a version that it knows.
        let home = home_in(environment).ok_or("pip has installed no pyspark")?;
        let mut check = Command::new(home.join("bin/spark-submit"));
        check.arg("--version");
        Ok(check)
    })?;
    home_in(&environment).ok_or_else(|| {
        format!("there is no pyspark in {}; remove that folder and try again", environment.display())
    })
}

fn find_python() -> Option<&'static str> {
    python::find(&["python3"], "sys.version_info >= (3, 9)")
}

/// Where pip puts it depends on the version of Python.
fn home_in(environment: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(environment.join("lib")).ok()?;
    let homes = versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages/pyspark")));
    homes.into_iter().find(|home| home.join("bin/spark-submit").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_found_whatever_the_version_of_python() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("lib/python3.99/site-packages/pyspark");
        fs::create_dir_all(home.join("bin")).unwrap();

        let before = home_in(folder.path());
        fs::write(home.join("bin/spark-submit"), "").unwrap();
        let after = home_in(folder.path());

        assert_eq!((before, after), (None, Some(home)));
    }
}
