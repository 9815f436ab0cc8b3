//! The Airflow and the boto3 that the tests call our server with: one virtual environment with fixed versions.

use crate::python::{self, Environment};
use crate::supervise::Cancel;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// Every package with its version; the file says how it came about.
const PINS: &str = include_str!("../python/requirements-airflow.txt");

const PINS_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-airflow.txt");

/// The Python that the pins were made with comes first. Some of them need 3.11; Airflow 2.10 knows none after 3.12.
const PYTHONS: [&str; 3] = ["python3.11", "python3.12", "python3"];

/// Whether this machine has what Airflow needs: a Python that it knows and that can make virtual environments.
pub(crate) fn can_be_installed() -> bool {
    find_python().is_some()
}

/// A Python that has Airflow and boto3, which are installed if they are not there yet.
pub(crate) fn python(cancel: &Cancel) -> Result<PathBuf, String> {
    let python = find_python().ok_or("Airflow needs Python 3.11 or 3.12")?;
    let environment = Environment {
        name: &named(PINS),
        folder: format!("airflow-{:016x}", hash(PINS)),
        python,
        // Nothing that is not pinned; the check would miss it.
        install: &["--no-deps", "--requirement", PINS_FILE],
        size: "about 350 MB",
    };
    let place = environment.ready(cancel, |environment| {
        let mut check = Command::new(environment.join("bin/python"));
        check.args(["-m", "pip", "check", "--quiet"]);
        Ok(check)
    })?;
    Ok(place.join("bin/python"))
}

fn find_python() -> Option<&'static str> {
    python::find(&PYTHONS, "(3, 11) <= sys.version_info < (3, 13)")
}

/// The two that the pins are for, with their versions.
fn named(pins: &str) -> String {
    let wanted = ["apache-airflow==", "boto3=="];
    let found = pins.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    found.map(|line| line.replace("==", " ")).collect::<Vec<_>>().join(" and ")
}

/// Other pins are another environment. (Another Rust may hash differently; then it is installed once more.)
fn hash(pins: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    pins.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_one_fixed_version() {
        let pins: Vec<&str> = PINS.lines().filter(|line| !line.starts_with('#')).collect();

        assert!(pins.len() > 100, "only {} packages are pinned", pins.len());
        let loose: Vec<&&str> = pins.iter().filter(|line| line.split("==").count() != 2).collect();
        assert_eq!(loose, Vec::<&&str>::new());
        assert!(named(PINS).starts_with("apache-airflow ") && named(PINS).contains(" and boto3 "));
    }

    #[test]
    fn other_pins_are_another_environment() {
        assert_eq!(hash("boto3==1.0\n"), hash("boto3==1.0\n"));
        assert_ne!(hash("boto3==1.0\n"), hash("boto3==1.1\n"));
    }
}
