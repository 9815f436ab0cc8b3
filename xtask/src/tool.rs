//! Tools of cargo that the tests need: each is built once into the user's cache.

use crate::cache::Kept;
use crate::process::{cargo, run_in_terminal};
use crate::supervise::Cancel;
use std::fs;
use std::path::PathBuf;

/// A tool and the version that we use.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    /// Features in place of its default ones.
    features: Option<&'static str>,
}

/// Checks our dependencies.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", features: None };

/// Lists what is in our program, as CycloneDX.
pub(crate) const CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9", features: None };

/// Runs the tests. Without its updater, which fetches programs by itself.
pub(crate) const NEXTEST: Tool =
    Tool { name: "cargo-nextest", version: "0.9.151", features: Some("default-no-update") };

impl Tool {
    /// The program, which is built if it is not there yet.
    pub(crate) fn program(&self, cancel: &Cancel) -> Result<PathBuf, String> {
        let Self { name, version, features } = self;
        let kept = Kept {
            name: &format!("{name} {version}"),
            folder: &format!("{name}-{version}"),
            size: "about 100 MB and some minutes",
        };
        let folder = kept.ready(
            |folder| folder.join("bin").join(name).exists(),
            |folder| {
                let build = folder.join("build");
                // A debug build is fast enough for us; a release build takes much longer to compile.
                let mut install = cargo(&["install", name, "--version", version, "--locked", "--debug"]);
                install
                    .args(["--quiet", "--force"])
                    .arg("--root")
                    .arg(folder)
                    .arg("--target-dir")
                    .arg(&build);
                if let Some(features) = features {
                    install.args(["--no-default-features", "--features", features]);
                }
                install.env("CARGO_PROFILE_DEV_DEBUG", "0");
                run_in_terminal(install, cancel)?;
                fs::remove_dir_all(&build)
                    .map_err(|error| format!("cannot remove {}: {error}", build.display()))
            },
        )?;
        Ok(folder.join("bin").join(name))
    }
}
