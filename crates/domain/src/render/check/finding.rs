//! What was found: each check that failed, with what was expected and what is there.

use crate::error_chain::listed;
use std::fmt;

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Check {
        Size = "size",
        Container = "container",
        /// That there is one stream of moving pictures.
        VideoStreams = "video streams",
        /// That no picture is only attached.
        AttachedPicture = "attached pictures",
        Codec = "codec",
        PixelFormat = "pixel format",
        Resolution = "resolution",
        /// That its pixels are square.
        PixelShape = "shape of pixels",
        /// That it is not interlaced.
        FieldOrder = "field order",
        Rate = "frames per second",
        /// That all frames are equally long.
        ConstantRate = "constant frame rate",
        Duration = "duration",
        /// That it has as many packets as it promises frames.
        Packets = "packets",
        /// That it has as many frames as it is long.
        Frames = "frames",
        Audio = "sound",
        SampleRate = "sampling rate",
        /// That sound and picture are equally long.
        AudioDuration = "duration of the sound",
        Decoding = "decoding",
        Black = "black",
        Frozen = "standing still",
        Silent = "silence",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub check: Check,
    pub expected: String,
    pub actual: String,
}

crate::newtype::display!(
    Finding,
    Self { check, expected, actual } => "{check}: expected {expected}, found {actual}"
);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    pub failures: Vec<Finding>,
    pub warnings: Vec<Finding>,
}

impl Verdict {
    pub fn is_good(&self) -> bool {
        self.failures.is_empty()
    }

    pub fn message(&self) -> String {
        listed(&self.failures)
    }

    pub(super) fn fail(&mut self, check: Check, expected: impl fmt::Display, actual: impl fmt::Display) {
        self.failures.push(Finding { check, expected: expected.to_string(), actual: actual.to_string() });
    }

    pub(super) fn fail_unless(
        &mut self,
        is_good: bool,
        check: Check,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) {
        if !is_good {
            self.fail(check, expected, actual);
        }
    }

    pub(super) fn warn(&mut self, check: Check, expected: impl fmt::Display, actual: impl fmt::Display) {
        self.warnings.push(Finding { check, expected: expected.to_string(), actual: actual.to_string() });
    }
}
