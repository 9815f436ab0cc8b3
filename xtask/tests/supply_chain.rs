//! Whether our dependencies follow `deny.toml`: cargo-deny checks them, with the advisories of `advisories.toml`.
#![cfg(test)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::skip::require;

/// The folder in which cargo-deny looks for RustSec's database. The number is a hash of the database's address.
const DATABASE: &str = "advisory-db-3157b0e258782691";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo_deny() -> Option<PathBuf> {
    require("cargo-deny", env::var_os("TIDEMILL_TEST_CARGO_DENY").map(PathBuf::from))
}

/// Writes each advisory of `advisories.toml` as a file of RustSec's format.
fn write_database(folder: &Path) {
    let database = folder.join(DATABASE);
    fs::create_dir_all(database.join("crates")).unwrap();
    // The age of this file is the age of the database.
    fs::create_dir(database.join(".git")).unwrap();
    fs::write(database.join(".git/FETCH_HEAD"), "").unwrap();
    let advisories = fs::read_to_string(workspace().join("advisories.toml")).unwrap();
    for advisory in advisories.split("\n[").skip(1) {
        let (id, fields) = advisory.split_once("]\n").unwrap();
        let (package, versions) = fields.split_once('\n').unwrap();
        let text = format!("```toml\n[advisory]\nid = \"{id}\"\n{package}\n\n[versions]\n{versions}\n```\n");
        fs::write(database.join(format!("crates/{id}.md")), text).unwrap();
    }
}

/// All dependencies of a workspace, as JSON. Cargo downloads those that only other platforms need: cargo-deny reads the
/// licences in them.
fn metadata(manifest: &str) -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--all-features",
        "--manifest-path",
        manifest,
    ]);
    let asked = command.current_dir(workspace()).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    String::from_utf8(asked.stdout).unwrap()
}

/// The exit code of cargo-deny for these dependencies, and the errors that it prints.
fn check(cargo_deny: &Path, manifest: &str, metadata: &str, checks: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    write_database(folder.path());
    let metadata_path = folder.path().join("metadata.json");
    fs::write(&metadata_path, metadata).unwrap();
    let mut command = Command::new(cargo_deny);
    // Without `--offline`, it would fetch RustSec's database.
    command.args([
        "--offline",
        "--locked",
        "--log-level=error",
        "--color=never",
        "--manifest-path",
        manifest,
    ]);
    command.arg("--metadata-path").arg(metadata_path).env("TIDEMILL_TEST_ADVISORIES", folder.path());
    // A crate that is not in the local index cannot be checked for being yanked.
    command.args(["check", "--deny=index-failure"]).args(checks);
    let checked = command.current_dir(workspace()).output().unwrap();
    (checked.status.code(), String::from_utf8(checked.stderr).unwrap())
}

/// Changes a text field of a package.
fn plant(metadata: &str, package: &str, key: &str, value: &str) -> String {
    let package = metadata.find(&format!(r#"{{"name":"{package}","version":"#)).unwrap();
    let key = format!(r#""{key}":""#);
    let start = package + metadata[package..].find(&key).unwrap() + key.len();
    let end = start + metadata[start..].find('"').unwrap();
    [&metadata[..start], value, &metadata[end..]].concat()
}

#[test]
fn dependencies_follow_deny_toml() {
    let Some(cargo_deny) = cargo_deny() else { return };

    let (code, errors) = check(&cargo_deny, "Cargo.toml", &metadata("Cargo.toml"), &["all"]);

    assert_eq!(code, Some(0), "{errors}");
}

/// Nobody ships the fuzz targets, so libFuzzer may have a licence of its own.
#[test]
fn dependencies_of_the_fuzz_targets_follow_deny_toml_except_for_licences() {
    let Some(cargo_deny) = cargo_deny() else { return };
    let (manifest, checks) = ("fuzz/Cargo.toml", ["advisories", "bans", "sources"]);

    let (code, errors) = check(&cargo_deny, manifest, &metadata(manifest), &checks);

    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn a_bad_version_a_banned_crate_a_bad_licence_and_an_unknown_source_are_found() {
    let Some(cargo_deny) = cargo_deny() else { return };
    let mut metadata = metadata("Cargo.toml");
    for (package, key, value) in [
        ("rustls", "version", "0.23.44"),
        // Only `tidemill-store` may use sqlx.
        ("tidemill-store", "name", "tidemill-other"),
        ("itoa", "license", "GPL-3.0-only"),
        (
            "fastrand",
            "source",
            "git+https://example.invalid/fastrand#0123456789abcdef0123456789abcdef01234567",
        ),
    ] {
        metadata = plant(&metadata, package, key, value);
    }

    let (code, errors) = check(&cargo_deny, "Cargo.toml", &metadata, &["all"]);

    // One bit for each check that failed.
    assert_eq!(code, Some(0b1111), "{errors}");
    for found in ["ID: RUSTSEC-2026-0285", "crate 'sqlx = ", "GPL-3.0-only", "error[source-not-allowed]"] {
        assert!(errors.contains(found), "{found} is not in:\n{errors}");
    }
}
