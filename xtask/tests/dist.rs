//! `cargo xtask dist` packs a program that was built before, and the archive has all that is promised.
#![cfg(test)]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tidemill_testkit::skip::optional;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn ran(command: &mut Command) -> Output {
    command.output().unwrap()
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let done = ran(command);
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A program that the tests of the whole workspace have built; it is built if only these tests are run.
fn program(package: &str, name: &str) -> PathBuf {
    let built = Path::new(XTASK).with_file_name(name);
    if !built.exists() {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--locked", "--quiet", "--package", package, "--bin", name, "--target-dir"]);
        output(build.arg(built.ancestors().nth(2).unwrap()).current_dir(workspace()));
    }
    built
}

fn dist(out: &Path) -> Command {
    let mut command = Command::new(XTASK);
    command.args(["dist", "--binary"]).arg(program("tidemill", "tidemill"));
    command.arg("--bootstrap").arg(program("tidemill-lambda", "bootstrap")).arg("--out").arg(out);
    command
}

#[test]
fn an_archive_has_the_program_and_all_that_belongs_to_it() {
    if optional("cargo-cyclonedx", env::var_os("TIDEMILL_TEST_CARGO_CYCLONEDX")).is_none() {
        return;
    }
    let out = tempfile::tempdir().unwrap();

    output(&mut dist(out.path()));

    let name = format!("tidemill-{}-x86_64-unknown-linux-gnu", env!("CARGO_PKG_VERSION"));
    let checked = output(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(out.path()));
    let function = name.replace("tidemill-", "tidemill-lambda-");
    assert_eq!(checked, format!("{name}.tar.gz: OK\n{function}.zip: OK\n"));
    same_function(&out.path().join(format!("{function}.zip")));
    output(Command::new("tar").arg("-xzf").arg(format!("{name}.tar.gz")).current_dir(out.path()));
    let folder = out.path().join(&name);
    for file in [
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "completions/tidemill.bash",
        "completions/tidemill.elvish",
        "completions/tidemill.fish",
        "completions/tidemill.powershell",
        "completions/tidemill.zsh",
        "grafana/overview.json",
        "man/man1/tidemill.1",
        "man/man1/tidemill-serve.1",
        "prometheus/rules.yaml",
        "systemd/environment.example",
        "systemd/tidemill.service",
        "tidemill",
        "tidemill.cdx.json",
    ] {
        assert!(folder.join(file).metadata().is_ok_and(|file| file.len() > 100), "{file}");
    }
    let version = output(Command::new(folder.join("tidemill")).arg("--version"));
    assert!(version.starts_with(&format!("tidemill {}", env!("CARGO_PKG_VERSION"))), "{version}");
    let sections =
        output(Command::new("readelf").args(["--sections", "--wide"]).arg(folder.join("tidemill")));
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_info"), "it is not stripped");
    let owners = output(
        Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "-f"])
            .arg(out.path().join(format!("{name}.tar.gz"))),
    );
    assert!(owners.lines().all(|line| line.contains(" 0/0 ")), "{owners}");
    let left = output(
        Command::new("git").args(["status", "--porcelain", "--untracked-files"]).current_dir(workspace()),
    );
    assert!(!left.contains("tidemill-parts"), "{left}");
    same_parts(&fs::read_to_string(folder.join("tidemill.cdx.json")).unwrap());
}

/// The archive has one program, which may be executed and is stripped.
fn same_function(archive: &Path) {
    let list = "import sys, zipfile\nfor file in zipfile.ZipFile(sys.argv[1]).infolist():\n  \
                print(file.filename, oct(file.external_attr >> 16), file.file_size)";
    let listed = output(Command::new("python3").args(["-c", list]).arg(archive));
    let words: Vec<&str> = listed.split_whitespace().collect();
    let [name, mode, size] = words[..] else { panic!("{listed}") };
    assert_eq!((name, mode), ("bootstrap", "0o100755"));
    let before = program("tidemill-lambda", "bootstrap").metadata().unwrap().len();
    assert!((1_000_000..before).contains(&size.parse().unwrap()), "{size} of {before} bytes");
}

/// The list has the crates that cargo would compile for the program, each with its licence and checksum, and no place of this
/// machine.
fn same_parts(list: &str) {
    assert!(!list.contains(&fs::canonicalize(workspace()).unwrap().display().to_string()));
    let list: serde_json::Value = serde_json::from_str(list).unwrap();
    assert_eq!((list["bomFormat"].as_str(), list["specVersion"].as_str()), (Some("CycloneDX"), Some("1.5")));
    assert_eq!(list["metadata"]["component"]["name"], "tidemill");
    let parts = list["components"].as_array().unwrap();
    let name = |part: &serde_json::Value| {
        format!("{} {}", part["name"].as_str().unwrap(), part["version"].as_str().unwrap())
    };
    for part in parts {
        let is_ours = part["name"].as_str().unwrap().starts_with("tidemill-");
        let has_sum = part["hashes"][0]["alg"] == "SHA-256";
        assert!(part["licenses"].is_array() && part["purl"].is_string() && has_sum != is_ours, "{part:#}");
    }
    let mut tree = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args([
        "tree",
        "--locked",
        "--offline",
        "--package",
        "tidemill",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ]);
    tree.args([
        "--target",
        "x86_64-unknown-linux-gnu",
        "--features",
        "columnar,kafka-tls,objects",
        "--no-dedupe",
    ]);
    let tree = output(tree.args(["--format", "{p}"]).current_dir(workspace()));
    let compiled = tree.lines().filter_map(|line| line.split_once(" v"));
    let compiled: BTreeSet<String> = compiled
        .map(|(name, rest)| format!("{name} {}", rest.split(' ').next().unwrap()))
        .filter(|part| !part.starts_with("tidemill "))
        .collect();
    let listed: BTreeSet<String> = parts.iter().map(name).collect();
    assert!(compiled.len() > 200, "{compiled:?}");
    let missing: Vec<&String> = compiled.difference(&listed).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn what_cannot_be_built_here_is_told_before_anything_is_built() {
    let out = tempfile::tempdir().unwrap();
    let mut other = Command::new(XTASK);
    other.args(["dist", "--target", "riscv64gc-unknown-linux-musl", "--out"]).arg(out.path().join("none"));
    // A run of all tests has these, and its folder is still needed.
    let memory = tempfile::tempdir().unwrap();
    other.env("TIDEMILL_XTASK_SUPERVISED", "1").env("TIDEMILL_TEST_MEMORY", memory.path());

    let done = ran(&mut other);

    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !done.status.success() && told.contains("rustup target add riscv64gc-unknown-linux-musl"),
        "{told}"
    );
    assert!(!out.path().join("none").exists());
    assert!(memory.path().exists());
}
