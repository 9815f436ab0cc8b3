//! `cargo xtask dist`: archives of the program for Linux, each with man pages, completions, units, licences and a list of what is
//! in it; archives of the function for AWS Lambda; and the checksums of all.

use crate::process::{cargo, run_in_terminal};
use crate::supervise::Cancel;
use crate::tool::CYCLONEDX;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The target for which archives are always made.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// What packaged builds have, as in `deploy/Dockerfile`.
const FEATURES: &str = "columnar,kafka-tls,objects";

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Files of the workspace that are in each archive.
const FILES: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Folders of the workspace that are in each archive.
const FOLDERS: [&str; 3] = ["deploy/grafana", "deploy/prometheus", "deploy/systemd"];

/// What was asked for.
#[derive(PartialEq, Eq, Debug)]
struct Options {
    targets: Vec<String>,
    /// Packed in place of one that is built.
    binary: Option<PathBuf>,
    /// The same for the function. With a program that was given, only one that was given is packed.
    bootstrap: Option<PathBuf>,
    out: PathBuf,
}

/// What is built.
struct Build {
    package: &'static str,
    program: &'static str,
    features: &'static str,
}

const PROGRAM: Build = Build { package: "tidemill", program: "tidemill", features: FEATURES };

/// The name that AWS Lambda starts.
const FUNCTION: Build = Build { package: "tidemill-lambda", program: "bootstrap", features: "" };

/// Makes the archives.
pub(crate) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    match Options::read(arguments).and_then(|options| options.make(cancel)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: dist: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let out = workspace().join("target/dist-archives");
        let mut options = Self { targets: Vec::new(), binary: None, bootstrap: None, out };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--target" => options.targets.push(value.clone()),
                "--binary" => options.binary = Some(value.into()),
                "--bootstrap" => options.bootstrap = Some(value.into()),
                "--out" => options.out = value.into(),
                _ => return Err(format!("cannot understand {flag}; see `cargo xtask help`")),
            }
        }
        if options.targets.is_empty() {
            options.targets.push(HOST.to_owned());
        }
        let is_given = options.binary.is_some() || options.bootstrap.is_some();
        if is_given && options.targets != [HOST] {
            return Err(format!("--binary and --bootstrap are programs for {HOST}"));
        }
        Ok(options)
    }

    fn make(&self, cancel: &Cancel) -> Result<(), String> {
        for target in &self.targets {
            can_build_for(target, &sysroot()?)?;
        }
        fs::create_dir_all(&self.out)
            .map_err(|error| format!("cannot make {}: {error}", self.out.display()))?;
        // This one also prints the man pages and the completions of the others.
        let here = match &self.binary {
            Some(binary) => binary.clone(),
            None => PROGRAM.build(HOST, cancel)?,
        };
        let mut archives = Vec::new();
        for target in &self.targets {
            let program = if target == HOST { here.clone() } else { PROGRAM.build(target, cancel)? };
            archives.push(self.pack(target, &program, &here, cancel)?);
            let function = match (&self.bootstrap, &self.binary) {
                (Some(given), _) => given.clone(),
                (None, Some(_)) => continue,
                (None, None) => FUNCTION.build(target, cancel)?,
            };
            archives.push(self.pack_function(target, &function, cancel)?);
        }
        let mut sums = Command::new("sha256sum");
        sums.args(&archives).current_dir(&self.out);
        into_file(sums, &self.out.join("SHA256SUMS"))?;
        println!("{} and SHA256SUMS are in {}", archives.join(", "), self.out.display());
        Ok(())
    }

    /// The name of the archive.
    fn pack(&self, target: &str, program: &Path, here: &Path, cancel: &Cancel) -> Result<String, String> {
        let name = format!("tidemill-{}-{target}", env!("CARGO_PKG_VERSION"));
        let place = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let folder = place.path().join(&name);
        let completions = folder.join("completions");
        fs::create_dir_all(&completions).map_err(|error| format!("cannot make a folder: {error}"))?;
        let run = |program: &Path, arguments: &[&Path]| {
            let mut command = Command::new(program);
            command.args(arguments);
            run_in_terminal(command, cancel)
        };
        take(program, self.binary.as_deref(), &folder.join("tidemill"), cancel)?;
        run(here, &["man".as_ref(), "--out".as_ref(), &folder.join("man/man1")])?;
        for shell in SHELLS {
            let mut command = Command::new(here);
            command.args(["completions", shell]);
            into_file(command, &completions.join(format!("tidemill.{shell}")))?;
        }
        for file in FILES {
            run("cp".as_ref(), &[&workspace().join(file), &folder.join(file)])?;
        }
        for given in FOLDERS {
            run("cp".as_ref(), &["-r".as_ref(), &workspace().join(given), &folder])?;
        }
        list_parts(target, &folder.join("tidemill.cdx.json"), cancel)?;
        let archive = format!("{name}.tar.gz");
        let mut tar = Command::new("tar");
        // Two archives of the same commit are the same.
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+w,go-w,a+rX"]);
        tar.arg(format!("--mtime=@{}", time_of_commit())).args(["--use-compress-program=gzip -n", "-cf"]);
        tar.arg(self.out.join(&archive));
        tar.arg("-C").arg(place.path()).arg(&name);
        run_in_terminal(tar, cancel)?;
        Ok(archive)
    }

    /// Packs the function as AWS Lambda takes it: an archive with one program. Returns its name.
    fn pack_function(&self, target: &str, program: &Path, cancel: &Cancel) -> Result<String, String> {
        let archive = format!("tidemill-lambda-{}-{target}.zip", env!("CARGO_PKG_VERSION"));
        let place = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let bootstrap = place.path().join(FUNCTION.program);
        take(program, self.bootstrap.as_deref(), &bootstrap, cancel)?;
        let mut touch = Command::new("touch");
        // Two archives of the same commit are the same.
        touch.arg(format!("--date=@{}", time_of_commit())).arg(&bootstrap);
        run_in_terminal(touch, cancel)?;
        let packed = place.path().join(&archive);
        let mut zip = Command::new("zip");
        zip.env("TZ", "UTC").args(["--quiet", "--no-extra", "--junk-paths"]).arg(&packed).arg(&bootstrap);
        run_in_terminal(zip, cancel)?;
        // `zip` adds to an archive that is already there, so it is made elsewhere.
        let mut copy = Command::new("cp");
        copy.arg(&packed).arg(self.out.join(&archive));
        run_in_terminal(copy, cancel)?;
        Ok(archive)
    }
}

/// Copies a program. The profile has stripped it, unless it was given.
fn take(program: &Path, given: Option<&Path>, to: &Path, cancel: &Cancel) -> Result<(), String> {
    let command = match given {
        Some(_) => {
            let mut strip = Command::new("strip");
            strip.args(["--strip-all", "-o"]).arg(to).arg(program);
            strip
        }
        None => {
            let mut copy = Command::new("cp");
            copy.arg(program).arg(to);
            copy
        }
    };
    run_in_terminal(command, cancel)
}

/// Where the standard libraries are.
fn sysroot() -> Result<PathBuf, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = Command::new(rustc).args(["--print", "sysroot"]).output();
    let told = asked.map_err(|error| format!("cannot run rustc: {error}"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&told.stdout).trim()))
}

fn can_build_for(target: &str, sysroot: &Path) -> Result<(), String> {
    if sysroot.join("lib/rustlib").join(target).join("lib").is_dir() {
        return Ok(());
    }
    Err(format!(
        "this Rust cannot build for {target}, because its standard library is not installed: run `rustup target add {target}`, \
         and install a C compiler for it (on Debian for aarch64: gcc-aarch64-linux-gnu)"
    ))
}

impl Build {
    fn build(&self, target: &str, cancel: &Cancel) -> Result<PathBuf, String> {
        let mut build = cargo(&["build", "--profile", "dist", "--locked", "--package", self.package]);
        build.args(["--bin", self.program, "--features", self.features, "--target", target]);
        build.current_dir(workspace());
        if target.starts_with("aarch64-") {
            build.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        }
        run_in_terminal(build, cancel)?;
        let folder =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
        Ok(folder.join(target).join("dist").join(self.program))
    }
}

/// Writes what the program consists of, in the format of CycloneDX.
fn list_parts(target: &str, path: &Path, cancel: &Cancel) -> Result<(), String> {
    let program = match env::var_os("TIDEMILL_TEST_CARGO_CYCLONEDX") {
        Some(given) => given.into(),
        None => CYCLONEDX.program(cancel)?,
    };
    // It writes a file beside the manifest of every crate. Only that of the program is wanted.
    let name = format!("tidemill-parts-{}", std::process::id());
    let root =
        fs::canonicalize(workspace()).map_err(|error| format!("cannot find the workspace: {error}"))?;
    let mut cyclonedx = Command::new(program);
    cyclonedx.args(["cyclonedx", "--quiet", "--format=json", "--spec-version=1.5", "--features", FEATURES]);
    cyclonedx.args(["--target", target, "--override-filename", &name, "--manifest-path"]);
    cyclonedx.arg(root.join("crates/tidemill/Cargo.toml")).env("SOURCE_DATE_EPOCH", time_of_commit());
    let made = run_in_terminal(cyclonedx, cancel);
    let file = format!("{name}.json");
    let read = fs::read(root.join("crates/tidemill").join(&file));
    for folder in ["crates", "."] {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let _was_there = fs::remove_file(entry.path().join(&file));
        }
    }
    made?;
    let text = read.map_err(|error| format!("cargo-cyclonedx wrote no list: {error}"))?;
    let text = String::from_utf8_lossy(&text).replace(&root.display().to_string(), "/tidemill");
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn into_file(mut command: Command, path: &Path) -> Result<(), String> {
    let file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let status = command.stdout(file).status();
    let name = command.get_program().to_string_lossy().into_owned();
    let is_fine = status.map_err(|error| format!("cannot run {name}: {error}"))?.success();
    if is_fine { Ok(()) } else { Err(format!("{name} failed, see above")) }
}

/// In seconds since 1970; 0 outside of a clone.
fn time_of_commit() -> String {
    let mut git = Command::new("git");
    let asked = git.args(["log", "-1", "--format=%ct"]).current_dir(workspace()).output();
    let told = asked.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned()).unwrap_or_default();
    if told.is_empty() { "0".to_owned() } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&arguments)
    }

    #[test]
    fn the_archive_is_for_this_kind_of_machine_unless_others_are_named() {
        assert_eq!(read("").unwrap().targets, [HOST]);
        assert_eq!(read("--target a --target b --out o").unwrap().targets, ["a", "b"]);
        for wrong in [
            "--target",
            "--frobnicate x",
            "--binary t --target aarch64-unknown-linux-gnu",
            "--bootstrap b --target aarch64-unknown-linux-gnu",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_without_its_standard_library_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("lib/rustlib").join(HOST).join("lib")).unwrap();

        assert_eq!(can_build_for(HOST, folder.path()), Ok(()));
        let problem = can_build_for("aarch64-unknown-linux-gnu", folder.path()).unwrap_err();
        assert!(problem.contains("`rustup target add aarch64-unknown-linux-gnu`"), "{problem}");
    }

    #[test]
    fn the_image_has_the_same_features() {
        let image = fs::read_to_string(workspace().join("deploy/Dockerfile")).unwrap();

        assert!(image.contains(&format!("--features {FEATURES}")));
    }
}
