//! The cargo-deny that checks our dependencies: built once into the user's cache.

use crate::cache::Kept;
use crate::process::{cargo, run_in_terminal};
use crate::supervise::Cancel;
use std::fs;
use std::path::PathBuf;

/// Where tests find the program.
pub(crate) const PROGRAM: &str = "TIDEMILL_TEST_CARGO_DENY";

const VERSION: &str = "0.20.2";

/// The program, which is built if it is not there yet.
pub(crate) fn program(cancel: &Cancel) -> Result<PathBuf, String> {
    let kept = Kept {
        name: &format!("cargo-deny {VERSION}"),
        folder: &format!("cargo-deny-{VERSION}"),
        size: "about 30 MB and some minutes",
    };
    let folder = kept.ready(
        |folder| folder.join("bin/cargo-deny").exists(),
        |folder| {
            let build = folder.join("build");
            // A debug build checks our dependencies in seconds; a release build takes much longer to compile.
            let mut install = cargo(&["install", "cargo-deny", "--version", VERSION, "--locked", "--debug"]);
            install.args(["--quiet", "--force"]).arg("--root").arg(folder).arg("--target-dir").arg(&build);
            install.env("CARGO_PROFILE_DEV_DEBUG", "0");
            run_in_terminal(install, cancel)?;
            fs::remove_dir_all(&build).map_err(|error| format!("cannot remove {}: {error}", build.display()))
        },
    )?;
    Ok(folder.join("bin/cargo-deny"))
}
