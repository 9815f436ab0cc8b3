//! The backends of a worker: the render farm, the inspector of files and the storage.

use super::Asking;
use super::storage::Storage;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::{LocalPath, Probe, Profile, Uid};

#[derive(Clone, Debug)]
pub struct Backends {
    pub farm: Arc<dyn Farm>,
    pub inspector: Arc<dyn Inspector>,
    pub storage: Arc<dyn Storage>,
}

/// A render farm: nexrender, or what stands for it in the demo. Its jobs go on whether or not anybody asks for them.
pub trait Farm: fmt::Debug + Send + Sync {
    /// What people call it, such as `http://render01:3000`. Holds no secret.
    fn name(&self) -> String;

    /// Whether it can be talked to: there, the right one, and our secret is right.
    fn check(&self) -> Asking<'_, ()>;

    /// How a job is, by the name that the farm has for it; none when it knows no such job.
    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>>;

    /// Lets it have a job. Looks first whether it has that already, and again when an answer was lost, so that there is
    /// never a second one of this name. The farm may have another name for it, which is in the answer.
    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob>;

    /// Takes a job out; that there is none is no trouble. A node that renders it already goes on.
    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()>;
}

/// Looks at files, without judging them: `domain::render::check` does.
pub trait Inspector: fmt::Debug + Send + Sync {
    /// Whether the programs that it needs are there.
    fn check(&self) -> Asking<'_, ()>;

    /// What there is to say about a file. One that cannot be read at all is `Failure::OutputInvalid`.
    fn inspect<'a>(&'a self, file: &'a LocalPath, profile: &'a Profile) -> Asking<'a, Probe>;

    /// Writes a picture out of the middle of a file to `picture`.
    fn poster<'a>(&'a self, file: &'a LocalPath, picture: &'a LocalPath) -> Asking<'a, ()>;
}
