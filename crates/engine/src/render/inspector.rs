//! Whoever looks at rendered files.

use super::Asking;
use std::fmt;
use tidemill_domain::render::{LocalPath, Probe, Profile};

/// Looks at files, without judging them: `domain::render::check` does.
pub trait Inspector: fmt::Debug + Send + Sync {
    /// Whether the programs that it needs are there.
    fn check(&self) -> Asking<'_, ()>;

    /// What there is to say about a file. One that cannot be read at all is `Failure::OutputInvalid`.
    fn inspect<'a>(&'a self, file: &'a LocalPath, profile: &'a Profile) -> Asking<'a, Probe>;

    /// Writes a picture out of the middle of a file to `picture`.
    fn poster<'a>(&'a self, file: &'a LocalPath, picture: &'a LocalPath) -> Asking<'a, ()>;
}
