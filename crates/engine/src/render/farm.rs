//! Whoever renders: nexrender, or what stands for it in the demo.

use super::Asking;
use serde_json::Value;
use std::fmt;
use tidemill_domain::render::Uid;
use tidemill_domain::render::answer::RemoteJob;

/// A render farm. Its jobs go on whether or not anybody asks for them.
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
