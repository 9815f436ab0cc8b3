//! The crates that authors of jobs depend on can be packaged: each with what it needs, without anything that is elsewhere in the
//! workspace.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that nobody needs but this workspace.
const OURS: [&str; 2] = ["tidemill-bench", "xtask"];

/// What crates.io accepts.
const SIZE_MAX: u64 = 10_000_000;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn output(command: &mut Command) -> String {
    let ran = command.current_dir(workspace()).output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The archive of each package that was made in the folder, by its name.
fn packages(folder: &Path) -> BTreeMap<String, PathBuf> {
    let end = format!("-{}.crate", env!("CARGO_PKG_VERSION"));
    let files = std::fs::read_dir(folder.join("package")).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(&end)?.to_owned());
    files.filter_map(|path| Some((name(&path)?, path))).collect()
}

#[test]
fn every_crate_for_authors_can_be_packaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut package = cargo();
    // Compiling them would take minutes, and they are compiled anyway.
    package.args([
        "package",
        "--workspace",
        "--no-verify",
        "--offline",
        "--locked",
        "--allow-dirty",
        "--quiet",
    ]);
    package.args(OURS.iter().flat_map(|name| ["--exclude", name]));
    output(package.arg("--target-dir").arg(folder.path()));

    let packages = packages(folder.path());

    let members = output(cargo().args(["metadata", "--format-version=1", "--no-deps", "--offline"]));
    let members: serde_json::Value = serde_json::from_str(&members).unwrap();
    let members = members["packages"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    let expected: BTreeSet<&str> = members.filter(|name| !OURS.contains(name)).collect();
    assert_eq!(packages.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    for (name, path) in &packages {
        assert!(path.metadata().unwrap().len() < SIZE_MAX, "{name}");
        let root = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let files = output(Command::new("tar").arg("-tf").arg(path));
        let manifest = output(Command::new("tar").arg("-xOf").arg(path).arg(format!("{root}/Cargo.toml")));
        assert!(files.contains(&format!("{root}/README.md\n")), "{name}: {files}");
        for line in
            ["description = ", "license = ", "readme = ", "repository = ", "keywords = ", "categories = "]
        {
            assert!(manifest.contains(&format!("\n{line}")), "{name} has no {line}");
        }
        let used = manifest.split("\n[").filter(|table| table.contains("dependencies.tidemill"));
        let loose: Vec<&str> = used.filter(|table| !table.contains("version = ")).collect();
        assert_eq!(loose, Vec::<&str>::new(), "{name}");
    }
}

/// `tidemill explain` has these pages compiled in, and they are elsewhere in the workspace.
#[test]
fn the_pages_about_errors_are_in_the_package_of_the_program() {
    let mut list = cargo();
    list.args(["package", "--list", "--package", "tidemill", "--offline", "--allow-dirty", "--quiet"]);
    let files = output(&mut list);
    let packed = files.lines().filter_map(|line| line.strip_prefix("errors/")).collect::<BTreeSet<_>>();

    let pages = std::fs::read_dir(workspace().join("docs/errors")).unwrap();
    let pages: Vec<String> =
        pages.map(|page| page.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(pages.len() > 100, "{pages:?}");
    let missing: Vec<&String> = pages.iter().filter(|page| !packed.contains(page.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new());
}
