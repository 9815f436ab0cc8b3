//! Whether the worker compiles for Windows, with `--long` and where that can be checked, and whether only some files know Unix.
#![cfg(test)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::long_or;
use tidemill_testkit::skip::optional;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// Files that are compiled on Unix only. `system` has what is the same on Windows.
const OF_UNIX: [&str; 9] = [
    "engine/src/job/command/group.rs",
    "engine/src/job/command/previous_run.rs",
    "engine/src/outbox/sink/file.rs",
    "objects/src/lib.rs",
    "store/src/crash.rs",
    "store/src/postgres/nodelay.rs",
    "system.rs",
    "tidemill/src/commands/demo/",
    "tidemill/src/commands/run/",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What `docs/guide/render-windows.md` builds the worker with.
fn arguments() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/guide/render-windows.md")).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix("cargo build ")).unwrap();
    line.split(' ').filter(|word| *word != "--release").map(str::to_owned).collect()
}

/// The standard library for Windows, and the compilers of its C libraries.
fn toolchain() -> Option<()> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = Command::new(rustc).args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim());
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let compilers = ["x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-g++", "cmake"];
    let library = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    (library.is_dir() && compilers.into_iter().all(runs)).then_some(())
}

#[test]
fn the_worker_compiles_for_windows() {
    let arguments = arguments();
    assert!(arguments.iter().any(|word| word == TARGET), "{arguments:?}");
    // The first time it takes minutes, for everything that the worker consists of.
    if optional("windows-target", long_or(toolchain(), None)).is_none() {
        return;
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("windows");

    let checked = Command::new(cargo)
        .arg("check")
        .args(arguments)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", build)
        .env("RUSTFLAGS", "-D warnings")
        .output()
        .unwrap();

    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// Also where the target is missing, so that no change needs the other system to be noticed.
#[test]
fn only_the_files_of_unix_know_unix() {
    let crates = root().join("crates").canonicalize().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    let knows = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        ["rustix::", "os::unix", "os::fd", "signal::unix", "libc::"].iter().any(|word| product.contains(word))
    };
    let is_of_unix = |path: &PathBuf| {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap();
        let name = name.replace("system/unix.rs", "system.rs");
        OF_UNIX.iter().any(|part| name.ends_with(part) || name.starts_with(part))
    };

    let (of_unix, others): (Vec<_>, Vec<_>) = files.into_iter().filter(knows).partition(is_of_unix);

    assert!(of_unix.len() > OF_UNIX.len(), "{of_unix:?}");
    assert!(
        others.is_empty(),
        "put what only Unix has into `system`, with a counterpart of Windows: {others:?}"
    );
}
