//! A farm, inspector and storage whose checks succeed and that never render anything.

use serde_json::Value;
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{Failure, LocalPath, Probe, Profile, Trouble, Uid};
use tidemill_engine::render::storage::{Content, MayGoOn, Sight};
use tidemill_engine::render::{Asking, Farm, Inspector, Storage};

#[derive(Debug)]
pub(super) struct Nobody;

fn well<'a>() -> Asking<'a, ()> {
    Box::pin(async { Ok(()) })
}

fn never<'a, T: 'a>() -> Asking<'a, T> {
    Box::pin(async { Err(Trouble::new(Failure::Refused, "nothing is rendered here")) })
}

impl Farm for Nobody {
    fn name(&self) -> String {
        "nobody".to_owned()
    }

    fn check(&self) -> Asking<'_, ()> {
        well()
    }

    fn look<'a>(&'a self, _job: &'a str) -> Asking<'a, Option<RemoteJob>> {
        never()
    }

    fn submit<'a>(&'a self, _uid: Uid, _document: &'a Value) -> Asking<'a, RemoteJob> {
        never()
    }

    fn remove<'a>(&'a self, _job: &'a str) -> Asking<'a, ()> {
        well()
    }
}

impl Inspector for Nobody {
    fn check(&self) -> Asking<'_, ()> {
        well()
    }

    fn inspect<'a>(&'a self, _file: &'a LocalPath, _profile: &'a Profile) -> Asking<'a, Probe> {
        never()
    }

    fn poster<'a>(&'a self, _file: &'a LocalPath, _picture: &'a LocalPath) -> Asking<'a, ()> {
        never()
    }
}

impl Storage for Nobody {
    fn check(&self) -> Asking<'_, ()> {
        well()
    }

    fn settled<'a>(&'a self, _staged: &'a LocalPath, _quiet: Duration) -> Asking<'a, Option<Sight>> {
        never()
    }

    fn content<'a>(&'a self, _staged: &'a LocalPath) -> Asking<'a, Option<Content>> {
        never()
    }

    fn copy<'a>(&'a self, _staged: &'a LocalPath, _output: &'a Output) -> Asking<'a, Content> {
        never()
    }

    fn publish<'a>(&'a self, _output: &'a Output, _content: &'a Content) -> Asking<'a, LocalPath> {
        never()
    }

    fn published<'a>(&'a self, _output: &'a Output) -> Asking<'a, Option<Content>> {
        never()
    }

    fn discard<'a>(&'a self, _staged: &'a LocalPath) -> Asking<'a, ()> {
        well()
    }

    fn discard_part<'a>(&'a self, _output: &'a Output) -> Asking<'a, ()> {
        well()
    }

    fn upload<'a>(
        &'a self,
        _output: &'a Output,
        _url: &'a str,
        _content: &'a Content,
        _may_go_on: MayGoOn,
    ) -> Asking<'a, ()> {
        never()
    }

    fn object<'a>(&'a self, _url: &'a str) -> Asking<'a, Option<Content>> {
        never()
    }

    fn discard_object<'a>(&'a self, _url: &'a str) -> Asking<'a, ()> {
        well()
    }

    fn left(&self, _age: Duration) -> Asking<'_, Vec<(Uid, LocalPath)>> {
        never()
    }

    fn sweep(&self, _age: Duration) -> Asking<'_, u64> {
        never()
    }
}
