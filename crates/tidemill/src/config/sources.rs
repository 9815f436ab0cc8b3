//! Everything that a configuration is read from, given as values so that tests can give their own.

use super::env::PREFIX;
use super::error::{ConfigError, excerpt};
use super::origin::Origin;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

const SYSTEM_FILE: &str = "/etc/tidemill/tidemill.toml";

#[derive(Clone)]
pub struct Sources {
    /// Values given by flags: the path of the key, the flag as it is written, the text.
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// All environment variables. Those without our prefix matter only when a file refers to them.
    pub environment: Vec<(String, String)>,
    /// The file after `--config`.
    pub config_file: Option<PathBuf>,
    /// The folder in which `tidemill.toml` is looked for and from which relative paths are seen.
    pub working_folder: PathBuf,
    /// The folder of the user's configuration, which holds `tidemill/config.toml`.
    pub user_folder: Option<PathBuf>,
    pub system_file: PathBuf,
}

impl Sources {
    /// The real environment and folders. Flags and `--config` are left for the command line to fill in.
    pub fn from_process() -> Result<Self, ConfigError> {
        // Without a working folder, as when it was deleted, relative paths fail one by one where they are
        // used.
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
                system_file: PathBuf::from(SYSTEM_FILE),
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
            .field("config_file", &self.config_file)
            .field("working_folder", &self.working_folder)
            .field("user_folder", &self.user_folder)
            .field("system_file", &self.system_file)
            .finish()
    }
}

/// The XDG rules have relative paths ignored.
fn absolute(value: &OsStr) -> Option<PathBuf> {
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

fn not_text(name: &OsStr) -> ConfigError {
    let name = excerpt(&name.to_string_lossy());
    let fix = format!("set {name} to UTF-8 text, or unset it");
    let origin = Origin::Env(name.clone());
    ConfigError::bad_value(&name, &origin, None, "its name or value is not UTF-8 text", fix)
}
