//! Python programs for the tests: virtual environments of fixed content, installed once into the user's cache.

use crate::cache::Kept;
use crate::process::run_in_terminal;
use crate::supervise::Cancel;
use std::hash::{DefaultHasher, Hash, Hasher};
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

/// Packages of which every one has a fixed version; their file says how it came about.
pub(crate) struct Pins {
    /// The beginning of the folder in the cache.
    folder: &'static str,
    /// The packages that people know.
    packages: &'static [&'static str],
    file: &'static str,
    text: &'static str,
    /// A test in Python that accepts its version.
    version: &'static str,
    size: &'static str,
}

/// The Airflow and the boto3 that the tests call our server with. Airflow 2.10 knows no Python after 3.12.
pub(crate) const AIRFLOW: Pins = Pins {
    folder: "airflow",
    packages: &["apache-airflow==", "boto3=="],
    file: concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-airflow.txt"),
    text: include_str!("../python/requirements-airflow.txt"),
    version: "(3, 11) <= sys.version_info < (3, 13)",
    size: "about 350 MB",
};

/// The Airflow 3 that the tests run our provider in. It also has what the tests of the Python client need.
pub(crate) const AIRFLOW3: Pins = Pins {
    folder: "airflow3",
    packages: &["apache-airflow==", "mypy==", "psycopg=="],
    file: concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-airflow3.txt"),
    text: include_str!("../python/requirements-airflow3.txt"),
    version: "(3, 11) <= sys.version_info < (3, 14)",
    size: "about 370 MB",
};

/// What the tests read the description of our API with.
pub(crate) const OPENAPI: Pins = Pins {
    folder: "openapi",
    packages: &["openapi-python-client==", "openapi-spec-validator=="],
    file: concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-openapi.txt"),
    text: include_str!("../python/requirements-openapi.txt"),
    version: "sys.version_info >= (3, 11)",
    size: "about 60 MB",
};

/// The SMTP server that the tests send mail to.
pub(crate) const SMTP: Pins = Pins {
    folder: "smtp",
    packages: &["aiosmtpd=="],
    file: concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-smtp.txt"),
    text: include_str!("../python/requirements-smtp.txt"),
    version: "sys.version_info >= (3, 11)",
    size: "about 10 MB",
};

/// What the tests write and read files with that our readers and writers share.
pub(crate) const FORMATS: Pins = Pins {
    folder: "formats",
    packages: &["fastavro==", "openpyxl==", "pyarrow==", "zstandard=="],
    file: concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-formats.txt"),
    text: include_str!("../python/requirements-formats.txt"),
    version: "sys.version_info >= (3, 11)",
    size: "about 240 MB",
};

/// The S3 server that the tests read and write objects of.
pub(crate) const MOTO: Pins = Pins {
    folder: "moto",
    packages: &["moto=="],
    file: concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements-moto.txt"),
    text: include_str!("../python/requirements-moto.txt"),
    version: "sys.version_info >= (3, 11)",
    size: "about 140 MB",
};

impl Pins {
    /// Whether this machine has a Python that can make the virtual environment.
    pub(crate) fn can_be_installed(&self) -> bool {
        self.find_python().is_some()
    }

    /// A Python that has the packages. They are installed if they are not there yet.
    pub(crate) fn python(&self, cancel: &Cancel) -> Result<PathBuf, String> {
        let missing = || format!("{} needs a Python with {}", self.folder, self.version);
        let environment = Environment {
            name: &self.name(),
            // Other pins are another environment. (Another Rust may hash differently; then it is installed once more.)
            folder: format!("{}-{:016x}", self.folder, hash(self.text)),
            python: self.find_python().ok_or_else(missing)?,
            // Nothing that is not pinned; the check would miss it.
            install: &["--no-deps", "--requirement", self.file],
            size: self.size,
        };
        let place = environment.ready(cancel, |environment| {
            let mut check = Command::new(environment.join("bin/python"));
            check.args(["-m", "pip", "check", "--quiet"]);
            Ok(check)
        })?;
        Ok(place.join("bin/python"))
    }

    /// The Python that the pins were made with comes first.
    fn find_python(&self) -> Option<&'static str> {
        find(&["python3.11", "python3.12", "python3"], self.version)
    }

    /// The packages that people know, with their versions.
    fn name(&self) -> String {
        let known = self.text.lines().filter(|line| self.packages.iter().any(|name| line.starts_with(name)));
        known.map(|line| line.replace("==", " ")).collect::<Vec<_>>().join(" and ")
    }
}

fn hash(pins: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    pins.hash(&mut hasher);
    hasher.finish()
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
    fn every_package_has_one_fixed_version() {
        for (pins, least, name) in [
            (AIRFLOW, 100, "apache-airflow 2"),
            (AIRFLOW3, 90, "apache-airflow 3"),
            (OPENAPI, 30, "openapi-python-client 0"),
            (SMTP, 2, "aiosmtpd 1"),
            (FORMATS, 6, "fastavro 1"),
            (MOTO, 20, "moto 5"),
        ] {
            let lines: Vec<&str> = pins.text.lines().filter(|line| !line.starts_with('#')).collect();

            assert!(lines.len() > least, "only {} packages are pinned", lines.len());
            let loose: Vec<&&str> = lines.iter().filter(|line| line.split("==").count() != 2).collect();
            assert_eq!(loose, Vec::<&&str>::new());
            let names = pins.name().split(" and ").count();
            assert!(pins.name().starts_with(name) && names == pins.packages.len(), "{}", pins.name());
        }
    }

    #[test]
    fn other_pins_are_another_environment() {
        assert_eq!(hash("boto3==1.0\n"), hash("boto3==1.0\n"));
        assert_ne!(hash("boto3==1.0\n"), hash("boto3==1.1\n"));
    }

    #[test]
    fn a_python_that_is_absent_or_of_another_version_is_not_found() {
        assert_eq!(find(&["no-such-python"], "True"), None);
        assert_eq!(find(&["python3"], "sys.version_info < (3,)"), None);
    }
}
