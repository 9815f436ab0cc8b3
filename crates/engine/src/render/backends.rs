//! The backends of a worker: the render farm, the inspector of files and the storage.

use super::{Asking, Storage};
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

/// A render farm: nexrender, or its stand-in in the demo. Its jobs run independently of us.
pub trait Farm: fmt::Debug + Send + Sync {
    /// For people, such as `http://render01:3000`. Must not contain a secret.
    fn name(&self) -> String;

    /// Whether it is reachable and accepts our secret.
    fn check(&self) -> Asking<'_, ()>;

    /// The state of a job, by the farm's name for it; none if it has no such job.
    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>>;

    /// Submits a job. Looks first whether the farm already has it, and again if the answer was lost, so that there is
    /// never a second one. The farm may give it another name, which is in the answer.
    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob>;

    /// Removes a job, if it exists. A node that already renders it continues.
    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()>;
}

/// Inspects files without judging them: `domain::render::check` does.
pub trait Inspector: fmt::Debug + Send + Sync {
    /// Whether the programs that it needs are there.
    fn check(&self) -> Asking<'_, ()>;

    /// A file that cannot be read at all is `Failure::OutputInvalid`.
    fn inspect<'a>(&'a self, file: &'a LocalPath, profile: &'a Profile) -> Asking<'a, Probe>;

    /// Writes a frame from the middle of a file to `picture`.
    fn poster<'a>(&'a self, file: &'a LocalPath, picture: &'a LocalPath) -> Asking<'a, ()>;
}
