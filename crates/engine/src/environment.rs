//! What programs that we start find of our own environment: all of it, but our settings and what holds secrets.
//!
//! The environment belongs to the process, and so does the list of what is withheld: whoever reads the configuration
//! fills it once, at the start, and no command or probe can be started without it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;
use tidemill_domain::job::command::is_withheld;

static SECRETS: OnceLock<BTreeSet<String>> = OnceLock::new();

/// Withholds these variables from all programs that this process starts, from now on. The first call counts.
pub fn withhold(secrets: impl IntoIterator<Item = String>) {
    SECRETS.get_or_init(|| secrets.into_iter().collect());
}

/// What a program that we start finds of our environment.
pub(crate) fn passed_on() -> impl Iterator<Item = (OsString, OsString)> {
    let secrets = SECRETS.get();
    let is_secret = move |name: &str| secrets.is_some_and(|secrets| secrets.contains(name));
    env::vars_os().filter(move |(name, _)| !is_withheld(&name.to_string_lossy(), is_secret))
}
