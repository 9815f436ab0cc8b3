//! The environment that child programs inherit: all of ours, except our settings and variables that hold secrets.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;

static SECRETS: OnceLock<BTreeSet<String>> = OnceLock::new();

/// Withholds these variables from all programs that this process starts. Only the first call counts.
pub fn withhold(secrets: impl IntoIterator<Item = String>) {
    SECRETS.get_or_init(|| secrets.into_iter().collect());
}

/// Whether a variable is a setting or a secret, which jobs do not see.
pub fn is_withheld(name: &str) -> bool {
    tidemill_domain::job::command::is_withheld(name, is_secret)
}

pub(crate) fn is_secret(name: &str) -> bool {
    SECRETS.get().is_some_and(|secrets| secrets.contains(name))
}

pub(crate) fn passed_on() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter(|(name, _)| !is_withheld(&name.to_string_lossy()))
}
