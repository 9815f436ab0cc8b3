//! Where PostgreSQL's server programs are, and which version they have.

use crate::account::find_program;
use crate::error::ServerError;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with `postgres`, `initdb` and `psql`: Debian's newest, or the one that `pg_config` names.
pub fn find_binaries() -> Option<PathBuf> {
    newest_in(Path::new("/usr/lib/postgresql")).or_else(|| {
        let output = Command::new(find_program("pg_config")?).arg("--bindir").output().ok()?;
        let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        is_complete(&folder).then_some(folder)
    })
}

/// The version of the server programs in `binaries`, such as `15.4`.
pub(crate) fn version(binaries: &Path) -> Result<String, ServerError> {
    let program = binaries.join("postgres");
    let output = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|error| ServerError::caused(format!("cannot run {}", program.display()), error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    version_in(&text).ok_or_else(|| ServerError::new(format!("no version in {:?}", text.trim())))
}

/// The part of a version that decides which settings there are.
pub(crate) fn major(version: &str) -> u32 {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn newest_in(folder: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(folder).ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .map(|entry| (major(&entry.file_name().to_string_lossy()), entry.path().join("bin")))
        .filter(|(_, binaries)| is_complete(binaries))
        .collect();
    found.sort();
    found.pop().map(|(_, binaries)| binaries)
}

/// A client package alone has the folder too, but not the server.
fn is_complete(folder: &Path) -> bool {
    ["postgres", "initdb", "psql", "pg_isready"].iter().all(|program| folder.join(program).is_file())
}

fn version_in(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(word.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        for (version, programs) in [
            ("9.6", &["postgres", "initdb", "psql", "pg_isready"][..]),
            ("15", &["postgres", "initdb", "psql", "pg_isready"]),
            ("17", &["psql", "pg_isready"]),
        ] {
            let binaries = folder.path().join(version).join("bin");
            fs::create_dir_all(&binaries).unwrap();
            for program in programs {
                fs::write(binaries.join(program), "").unwrap();
            }
        }

        assert_eq!(newest_in(folder.path()), Some(folder.path().join("15/bin")));
        assert_eq!(newest_in(&folder.path().join("absent")), None);
    }

    #[test]
    fn versions_are_read_as_the_servers_print_them() {
        let debian = "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n";

        assert_eq!(version_in(debian).as_deref(), Some("15.14"));
        assert_eq!(version_in("postgres (PostgreSQL) 19devel\n").as_deref(), Some("19devel"));
        assert_eq!(version_in("no such program"), None);
        assert_eq!(major("19devel"), 19);
    }
}
