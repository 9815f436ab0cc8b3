//! The emulator of AWS Lambda, which AWS publishes as a part of its SAM CLI.

use crate::python::{self, Environment};
use crate::supervise::Cancel;
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The SAM CLI. Only its emulator is used, so nothing that it depends on is installed.
const SAM: &str = "1.170.0";

/// Whether this machine has a Python that can install it.
pub(crate) fn can_be_installed() -> bool {
    find_python().is_some()
}

fn find_python() -> Option<&'static str> {
    python::find(&["python3"], "sys.version_info >= (3, 10)")
}

/// The emulator, which is installed if it is not there yet.
pub(crate) fn emulator(cancel: &Cancel) -> Result<PathBuf, String> {
    let environment = Environment {
        name: &format!("the emulator of AWS SAM CLI {SAM}"),
        folder: format!("aws-sam-cli-{SAM}"),
        python: find_python().ok_or("the AWS SAM CLI needs Python 3.10 or later")?,
        install: &["--no-deps", &format!("aws-sam-cli=={SAM}")],
        size: "about 30 MB",
    };
    let place = environment.ready(cancel, |environment| {
        let mut check = Command::new("test");
        check.arg("-x").arg(program(environment)?);
        Ok(check)
    })?;
    program(&place)
}

/// The emulator for this machine in the environment.
fn program(environment: &Path) -> Result<PathBuf, String> {
    let machine = if ARCH == "aarch64" { "arm64" } else { ARCH };
    let name = format!("site-packages/samcli/local/rapid/aws-lambda-rie-{machine}");
    // The folder between has the version of Python.
    let folders = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let found = folders.map(|folder| folder.path().join(&name)).find(|path| path.exists());
    found.ok_or_else(|| format!("the AWS SAM CLI {SAM} has no {name}"))
}
