//! The Spark that the tests submit to: pyspark in a virtual environment, installed once into the user's cache.

use crate::process::run_in_terminal;
use crate::stages::now;
use crate::supervise::Cancel;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidemill_testkit::account::find_program;

/// Runs on Java 17 and 21, and on Python 3.9 and later.
const VERSION: &str = "4.0.5";

/// The file that says that the environment around it is whole.
const WHOLE: &str = "whole";

/// Whether this machine has what pyspark needs: Java, and a Python that can make virtual environments.
pub(crate) fn can_be_installed() -> bool {
    let has_python = || {
        let mut python = Command::new("python3");
        python.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    find_program("java").is_some() && has_python()
}

/// The home of Spark, which is installed if it is not there yet.
pub(crate) fn home(cancel: &Cancel) -> Result<PathBuf, String> {
    let folder = cache()?.join(format!("pyspark-{VERSION}"));
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    // Two runs at once must not install over each other.
    let lock = folder.join("lock");
    let lock = File::create(&lock).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.map_err(|error| format!("cannot lock {}: {error}", folder.display()))?;
    let environment = folder.join("environment");
    if !folder.join(WHOLE).exists() {
        install(&folder, &environment, cancel)?;
    }
    home_in(&environment).ok_or_else(|| {
        format!("there is no pyspark in {}; remove that folder and try again", folder.display())
    })
}

fn install(folder: &Path, environment: &Path, cancel: &Cancel) -> Result<(), String> {
    println!("spark: installing pyspark {VERSION} into {} (about 450 MB, once)", folder.display());
    let start = now();
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        run_in_terminal(command, cancel)
    };
    let place = environment.to_str().ok_or("the cache folder has a name that is not UTF-8")?;
    run(Path::new("python3"), &["-m", "venv", "--clear", place])?;
    let wanted = format!("pyspark=={VERSION}");
    run(&environment.join("bin/pip"), &["install", "--no-input", "--quiet", &wanted])?;
    let home = home_in(environment).ok_or("pip has installed no pyspark")?;
    // It starts, so Java is there and of a version that it knows.
    run(&home.join("bin/spark-submit"), &["--version"])?;
    fs::write(folder.join(WHOLE), VERSION)
        .map_err(|error| format!("cannot note the installation: {error}"))?;
    println!("spark: installed in {:.0} s", now().duration_since(start).as_secs_f64());
    Ok(())
}

/// Where pip puts it depends on the version of Python.
fn home_in(environment: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(environment.join("lib")).ok()?;
    let homes = versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages/pyspark")));
    homes.into_iter().find(|home| home.join("bin/spark-submit").exists())
}

fn cache() -> Result<PathBuf, String> {
    let given = env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let own = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = given.or_else(own).ok_or("neither XDG_CACHE_HOME nor HOME says where to keep Spark")?;
    Ok(folder.join("tidemill"))
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
