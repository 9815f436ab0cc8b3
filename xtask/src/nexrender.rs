//! The render farm that the tests render with: the packages of nexrender.

use crate::cache::Kept;
use crate::process::run_in_terminal;
use crate::supervise::Cancel;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tidemill_testkit::account::find_program;

/// Names the packages and their versions.
const PACKAGE: &str = include_str!("../nexrender/package.json");

/// Says which versions their own dependencies have.
const LOCK: &str = include_str!("../nexrender/package-lock.json");

/// Whether this machine has a Node that can fetch and run them.
pub(crate) fn can_be_installed() -> bool {
    have(&["node", "npm"])
}

/// Whether it has the tools that make and read clips.
pub(crate) fn can_look_at_clips() -> bool {
    have(&["ffmpeg", "ffprobe"])
}

fn have(programs: &[&str]) -> bool {
    programs.iter().all(|program| find_program(program).is_some())
}

/// The folder of the packages, which are fetched if they are not there yet.
pub(crate) fn home(cancel: &Cancel) -> Result<PathBuf, String> {
    let version = version().ok_or("the packages of the tests name no version of nexrender")?;
    let kept = Kept {
        name: &format!("nexrender core {version}"),
        folder: &format!("nexrender-core-{version}"),
        size: "about 16 MB",
    };
    kept.ready(
        |folder| folder.join("node_modules/@nexrender/server/src/bin.js").exists(),
        |folder| {
            let write =
                |name, text| fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"));
            write("package.json", PACKAGE)?;
            write("package-lock.json", LOCK)?;
            let mut npm = Command::new(find_program("npm").ok_or("the packages of nexrender need npm")?);
            npm.current_dir(folder).args([
                "ci",
                "--legacy-peer-deps",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
            ]);
            npm.arg("--loglevel=error");
            run_in_terminal(npm, cancel)
        },
    )
}

/// The version of what renders, as the packages have it.
fn version() -> Option<&'static str> {
    let (_, behind) = PACKAGE.split_once("\"@nexrender/core\": \"")?;
    Some(behind.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_packages() {
        assert!(version().unwrap().split('.').all(|part| part.parse::<u32>().is_ok()));
    }
}
