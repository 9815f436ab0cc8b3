//! Whether the rules compile for Windows, where the standard library for Windows is installed: the paths of render nodes are
//! theirs. The rest of Tidemill runs on Linux.
#![cfg(test)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::skip::optional;

const TARGET: &str = "x86_64-pc-windows-gnu";

fn sysroot() -> PathBuf {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = Command::new(rustc).args(["--print", "sysroot"]).output().unwrap();
    PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim())
}

#[test]
fn the_rules_compile_for_windows() {
    let library = sysroot().join("lib/rustlib").join(TARGET).join("lib");
    if optional("windows-target", library.is_dir().then_some(())).is_none() {
        return;
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = tempfile::tempdir().unwrap();

    let checked = Command::new(cargo)
        .args(["check", "--locked", "--package", "tidemill-domain", "--target", TARGET])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .env("CARGO_TARGET_DIR", target.path())
        .output()
        .unwrap();

    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
