//! What was found: each check that failed, with what was expected and what is there.

use std::fmt;

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Check {
    /// How large it is.
    Size,
    /// Its container.
    Container,
    /// That there is one stream of moving pictures.
    VideoStreams,
    /// That no picture is only attached.
    AttachedPicture,
    /// What it is encoded with.
    Codec,
    /// How its pixels are stored.
    PixelFormat,
    /// Its width and height.
    Resolution,
    /// That its pixels are square.
    PixelShape,
    /// That it is not interlaced.
    FieldOrder,
    /// Its frames per second.
    Rate,
    /// That all frames are equally long.
    ConstantRate,
    /// How long it is.
    Duration,
    /// That it has as many packets as it promises frames.
    Packets,
    /// That it has as many frames as it is long.
    Frames,
    /// Whether it has sound.
    Audio,
    /// The sampling rate of the sound.
    SampleRate,
    /// That sound and picture are equally long.
    AudioDuration,
    /// That every frame can be decoded.
    Decoding,
    /// How much of it is black.
    Black,
    /// How much of it stands still.
    Frozen,
    /// How much of it is silent.
    Silent,
}

impl Check {
    /// What people read.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Container => "container",
            Self::VideoStreams => "video streams",
            Self::AttachedPicture => "attached pictures",
            Self::Codec => "codec",
            Self::PixelFormat => "pixel format",
            Self::Resolution => "resolution",
            Self::PixelShape => "shape of pixels",
            Self::FieldOrder => "field order",
            Self::Rate => "frames per second",
            Self::ConstantRate => "constant frame rate",
            Self::Duration => "duration",
            Self::Packets => "packets",
            Self::Frames => "frames",
            Self::Audio => "sound",
            Self::SampleRate => "sampling rate",
            Self::AudioDuration => "duration of the sound",
            Self::Decoding => "decoding",
            Self::Black => "black",
            Self::Frozen => "standing still",
            Self::Silent => "silence",
        }
    }
}

/// One thing that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// What should be there.
    pub expected: String,
    /// What is.
    pub actual: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.check.label(), self.expected, self.actual)
    }
}

/// All that was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// What makes the file a bad one.
    pub failures: Vec<Finding>,
    /// What somebody might want to look at.
    pub warnings: Vec<Finding>,
}

impl Verdict {
    /// Whether the file may be published.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty()
    }

    /// All failures as one text.
    pub fn message(&self) -> String {
        self.failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn fail(&mut self, check: Check, expected: impl Into<String>, actual: impl Into<String>) {
        self.failures.push(Finding { check, expected: expected.into(), actual: actual.into() });
    }

    pub(super) fn fail_unless(
        &mut self,
        is_good: bool,
        check: Check,
        expected: impl Into<String>,
        actual: impl Into<String>,
    ) {
        if !is_good {
            self.fail(check, expected, actual);
        }
    }

    pub(super) fn warn(&mut self, check: Check, expected: impl Into<String>, actual: impl Into<String>) {
        self.warnings.push(Finding { check, expected: expected.into(), actual: actual.into() });
    }
}
