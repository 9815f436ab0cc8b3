//! Everything that a configuration is read from, as values, so that tests can supply their own.

use super::env::PREFIX;
use super::error::{ConfigError, excerpt};
use super::layer::Origin;
use crate::system;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The largest configuration file and the largest file with a secret.
pub(super) const CONFIG_BYTES_MAX: u64 = 1 << 20;
const SECRET_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone)]
pub struct Sources {
    /// Values given by flags: the path of the key, the flag as it is written, the text.
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// All environment variables. Files may refer to any of them.
    pub environment: Vec<(String, String)>,
    /// The file after `--config`.
    pub config_file: Option<PathBuf>,
    /// The folder of `tidemill.toml`, and the start of relative paths.
    pub working_folder: PathBuf,
    /// The folder of the user's configuration, which holds `tidemill/config.toml`.
    pub user_folder: Option<PathBuf>,
    pub system_file: PathBuf,
}

impl Sources {
    /// The real environment and folders. The command line fills in flags and `--config`.
    pub fn from_process() -> Result<Self, ConfigError> {
        // If the working folder was deleted, relative paths fail one by one where they are used.
        let working_folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        Self::from_variables(std::env::vars_os(), working_folder)
    }

    pub(super) fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        working_folder: PathBuf,
    ) -> Result<Self, ConfigError> {
        let mut environment = Vec::new();
        let (mut config_home, mut home) = (None, None);
        let mut problems = Vec::new();
        for (name, value) in variables {
            if name == "XDG_CONFIG_HOME" {
                config_home = absolute(&value);
            } else if name == "HOME" {
                home = absolute(&value);
            }
            match (name.to_str(), value.to_str()) {
                (Some(name), Some(value)) => environment.push((name.to_owned(), value.to_owned())),
                _ if name.to_string_lossy().starts_with(PREFIX) => problems.push(not_text(&name)),
                _ => {}
            }
        }
        match ConfigError::of(problems) {
            Some(error) => Err(error),
            None => Ok(Self {
                flags: Vec::new(),
                environment,
                config_file: None,
                working_folder,
                user_folder: config_home.or_else(|| home.map(|home| home.join(".config"))),
                system_file: PathBuf::from(system::CONFIGURATION),
            }),
        }
    }
}

/// Names only: any of the texts may be secret.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: Vec<_> = self.flags.iter().map(|(_, flag, _)| flag).collect();
        let environment: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("Sources")
            .field("flags", &flags)
            .field("environment", &environment)
            .finish_non_exhaustive()
    }
}

/// The XDG rules ignore relative paths.
fn absolute(value: &OsStr) -> Option<PathBuf> {
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

fn not_text(name: &OsStr) -> ConfigError {
    let name = excerpt(&name.to_string_lossy());
    let fix = format!("set {name} to UTF-8 text, or unset it");
    let origin = Origin::Env(name.clone());
    ConfigError::bad_value(&name, &origin, None, "its name or value is not UTF-8 text", fix)
}

/// Reads a file of at most `most` bytes. It may be a pipe, which does not know its size.
pub(super) fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if length as u64 > most {
        let why = format!("it is larger than {} KiB", most >> 10);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The secret in a file, without the line break that editors and `echo` leave at the end.
pub(super) fn read_secret(path: &Path) -> io::Result<String> {
    let bytes = read_file(path, SECRET_BYTES_MAX)?;
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text");
    let text = String::from_utf8(bytes).map_err(not_text)?;
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(line.unwrap_or(&text).to_owned())
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_not_there_is_missing() {
        use ErrorKind::{
            FileTooLarge, InvalidData, IsADirectory, NotADirectory, NotFound, Other, PermissionDenied,
        };

        assert!([NotFound, NotADirectory].into_iter().all(|kind| is_missing(&kind.into())));
        let others = [PermissionDenied, IsADirectory, Other, FileTooLarge, InvalidData];
        assert!(!others.into_iter().any(|kind| is_missing(&kind.into())));
    }

    #[test]
    fn a_refusal_of_the_system_is_reported_and_kept() {
        let refusal = ErrorKind::PermissionDenied.into();

        let problem = ConfigError::file_unreadable(Path::new("/etc/x"), &Origin::Default, refusal);

        assert_eq!(problem.to_string(), "the file /etc/x cannot be read");
        assert_eq!(problem.why(), "this user may not read it or may not enter its folder");
        assert!(std::error::Error::source(&problem).is_some());
    }
}
