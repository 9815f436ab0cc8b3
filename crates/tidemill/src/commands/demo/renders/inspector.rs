//! Looks at the films of the demo without ffmpeg: reads the boxes of the file and counts the frames that are in it. It
//! decodes nothing, and does not say that it did.

use super::boxes;
use tidemill_domain::render::{Failure, LocalPath, Probe, Profile, Trouble};
use tidemill_engine::render::{Asking, Inspector};

#[derive(Clone, Copy, Debug)]
pub(super) struct BoxInspector;

impl Inspector for BoxInspector {
    fn check(&self) -> Asking<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn inspect<'a>(&'a self, file: &'a LocalPath, _profile: &'a Profile) -> Asking<'a, Probe> {
        Box::pin(async move {
            let bad = |why: &str| Trouble::new(Failure::OutputInvalid, why);
            let bytes = std::fs::read(file.to_string()).map_err(|error| bad(&error.to_string()))?;
            boxes::probe(&bytes).map_err(|why| bad(&why))
        })
    }

    fn poster<'a>(&'a self, _file: &'a LocalPath, _picture: &'a LocalPath) -> Asking<'a, ()> {
        let why = "the demo makes no pictures, because it has nothing to decode films with";
        Box::pin(async move { Err(Trouble::new(Failure::Unexpected, why)) })
    }
}
