//! The findings of a check, with expected and actual values.

use crate::error_chain::listed;
use std::fmt;

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Check {
        Size = "size",
        Container = "container",
        /// There is exactly one.
        VideoStreams = "video streams",
        /// There are none.
        AttachedPicture = "attached pictures",
        Codec = "codec",
        PixelFormat = "pixel format",
        Resolution = "resolution",
        /// Pixels are square.
        PixelShape = "shape of pixels",
        /// Not interlaced.
        FieldOrder = "field order",
        Rate = "frames per second",
        /// All frames have the same duration.
        ConstantRate = "constant frame rate",
        Duration = "duration",
        /// As many packets as frames in the container.
        Packets = "packets",
        /// As many frames as the duration implies.
        Frames = "frames",
        Audio = "sound",
        SampleRate = "sampling rate",
        /// Audio and video have the same duration.
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
        listed(&self.failures, "; ")
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
