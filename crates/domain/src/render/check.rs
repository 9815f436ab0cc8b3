//! Whether a file matches its profile. All problems are reported at once.
//!
//! Metadata alone proves little, for example of a truncated file. So packets are counted and every frame is decoded.

#[cfg(test)]
mod tests;

use super::profile::{Audio, Decoding, Profile};
use super::rate::Rate;
use crate::error_chain::listed;
use std::collections::BTreeSet;
use std::fmt;

/// How far durations may differ, in seconds, or one frame if that is longer.
const DURATION_TOLERANCE: f64 = 0.1;
/// How far audio and video may differ, in seconds.
const AUDIO_TOLERANCE: f64 = 0.2;
/// How far the number of frames may differ from the duration.
const FRAMES_TOLERANCE: f64 = 2.0;
const SAMPLE_RATE: u32 = 48_000;
/// From this share on, a black, frozen or silent file causes a warning.
const WARNED_SHARE: f64 = 0.98;

/// The results of ffprobe and ffmpeg.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Probe {
    pub bytes: u64,
    /// The names of its container, separated by commas.
    pub format: String,
    /// Includes attached pictures.
    pub videos: Vec<Video>,
    pub audios: Vec<Sound>,
    /// None when decoding was not tried.
    pub decoded: Option<Decoded>,
    /// As far as they were measured.
    pub shares: Shares,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Video {
    pub codec: String,
    pub pixel_format: Option<String>,
    pub width: u32,
    pub height: u32,
    pub sample_aspect_ratio: Option<String>,
    pub field_order: Option<String>,
    /// `r_frame_rate`.
    pub base_rate: Option<Rate>,
    /// `avg_frame_rate`.
    pub average_rate: Option<Rate>,
    /// The number of frames in its container.
    pub frames: Option<u64>,
    pub packets: Option<u64>,
    pub seconds: Option<f64>,
    pub is_attached: bool,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sound {
    pub sample_rate: Option<u32>,
    pub seconds: Option<f64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decoded {
    Whole,
    /// With the first line of the error.
    Broken(String),
}

/// From 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shares {
    pub black: Option<f64>,
    pub frozen: Option<f64>,
    pub silent: Option<f64>,
}

pub fn check(probe: &Probe, profile: &Profile) -> Verdict {
    let mut verdict = Verdict::default();
    let (bytes, least) = (probe.bytes, profile.bytes_min);
    let (least_words, words) = (format!("at least {least} bytes"), format!("{bytes} bytes"));
    verdict.fail_unless(bytes >= least, Check::Size, least_words, words);
    let is_container = probe.format.split(',').any(|name| name == profile.container);
    verdict.fail_unless(is_container, Check::Container, &profile.container, &probe.format);
    let moving: Vec<_> = probe.videos.iter().filter(|video| !video.is_attached).collect();
    if moving.len() < probe.videos.len() {
        verdict.warn(Check::AttachedPicture, "none", probe.videos.len() - moving.len());
    }
    verdict.fail_unless(moving.len() == 1, Check::VideoStreams, "one", moving.len());
    if let [video] = moving.as_slice() {
        picture(video, profile, &mut verdict);
        motion(video, profile, &mut verdict);
        sound(probe, video, profile, &mut verdict);
    }
    if profile.decoding == Decoding::On {
        match &probe.decoded {
            Some(Decoded::Whole) => {}
            Some(Decoded::Broken(line)) => verdict.fail(Check::Decoding, "every frame", line),
            None => verdict.fail(Check::Decoding, "every frame", "not tried"),
        }
    }
    // Keyed graphics are mostly black for good reasons, so these are only warnings.
    let shares = probe.shares;
    for (check, share) in
        [(Check::Black, shares.black), (Check::Frozen, shares.frozen), (Check::Silent, shares.silent)]
    {
        if let Some(share) = share.filter(|share| *share > WARNED_SHARE) {
            verdict.warn(check, "a part of it", format!("{:.0} %", share * 100.0));
        }
    }
    verdict
}

fn picture(video: &Video, profile: &Profile, verdict: &mut Verdict) {
    let one_of = |names: &BTreeSet<String>| listed(names, " or ");
    let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let has_pixels = profile.pixel_formats.is_empty()
        || video.pixel_format.as_ref().is_some_and(|format| profile.pixel_formats.contains(format));
    let wanted = format!("{}x{}", profile.width, profile.height);
    let found = format!("{}x{}", video.width, video.height);
    let (shape, order) = (&video.sample_aspect_ratio, &video.field_order);
    // ffprobe writes 0:1 for an unknown ratio.
    let is_square = matches!(shape.as_deref(), None | Some("1:1" | "0:1" | "N/A"));
    let is_progressive = matches!(order.as_deref(), None | Some("progressive" | "unknown"));
    for (is_good, check, expected, actual) in [
        (profile.codecs.contains(&video.codec), Check::Codec, one_of(&profile.codecs), video.codec.clone()),
        (has_pixels, Check::PixelFormat, one_of(&profile.pixel_formats), or_unknown(&video.pixel_format)),
        (wanted == found, Check::Resolution, wanted.clone(), found),
        (is_square, Check::PixelShape, "1:1".to_owned(), or_unknown(shape)),
        (is_progressive, Check::FieldOrder, "progressive".to_owned(), or_unknown(order)),
    ] {
        verdict.fail_unless(is_good, check, expected, actual);
    }
}

fn motion(video: &Video, profile: &Profile, verdict: &mut Verdict) {
    let show = |rate: Option<Rate>| rate.map_or_else(|| "unknown".to_owned(), |rate| rate.to_string());
    let (rate, base_rate) = (video.average_rate, video.base_rate);
    verdict.fail_unless(rate == Some(profile.rate), Check::Rate, profile.rate, show(rate));
    verdict.fail_unless(base_rate == rate, Check::ConstantRate, show(rate), show(base_rate));
    let tolerance = DURATION_TOLERANCE.max(profile.rate.frame_seconds());
    let seconds = video.seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let wanted = profile.duration.map(|duration| duration.as_secs_f64());
    let expected = wanted.map_or_else(|| "more than 0 s".to_owned(), |wanted| format!("{wanted} s"));
    let is_long = seconds.is_some_and(|seconds| {
        // Plus a rounding error.
        wanted.is_none_or(|wanted| (seconds - wanted).abs() <= tolerance + 1e-6)
    });
    let actual = video.seconds.map_or_else(|| "unknown".to_owned(), |seconds| format!("{seconds} s"));
    verdict.fail_unless(is_long, Check::Duration, expected, actual);

    let Some(packets) = video.packets else {
        return verdict.fail(Check::Packets, "a number", "unknown");
    };
    if let Some(frames) = video.frames {
        verdict.fail_unless(packets == frames, Check::Packets, frames, packets);
    }
    if let Some(seconds) = seconds {
        let frames = seconds * profile.rate.per_second();
        let is_near = (packets as f64 - frames).abs() <= FRAMES_TOLERANCE;
        verdict.fail_unless(is_near, Check::Frames, format!("about {frames:.0}"), packets);
    }
}

fn sound(probe: &Probe, video: &Video, profile: &Profile, verdict: &mut Verdict) {
    let streams = probe.audios.len();
    match profile.audio {
        Audio::None => verdict.fail_unless(streams == 0, Check::Audio, "none", streams),
        Audio::Required if streams == 0 => verdict.fail(Check::Audio, "sound", "none"),
        Audio::Required | Audio::Any => {}
    }
    for audio in &probe.audios {
        if profile.audio == Audio::Required {
            let rate = audio.sample_rate.map_or_else(|| "unknown".to_owned(), |rate| format!("{rate} Hz"));
            let is_broadcast = audio.sample_rate == Some(SAMPLE_RATE);
            verdict.fail_unless(is_broadcast, Check::SampleRate, format!("{SAMPLE_RATE} Hz"), rate);
        }
        if let (Some(sound), Some(picture)) = (audio.seconds, video.seconds) {
            let is_together = (sound - picture).abs() < AUDIO_TOLERANCE;
            let (expected, actual) = (format!("{picture} s"), format!("{sound} s"));
            verdict.fail_unless(is_together, Check::AudioDuration, expected, actual);
        }
    }
}

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

    fn fail(&mut self, check: Check, expected: impl fmt::Display, actual: impl fmt::Display) {
        self.failures.push(Finding { check, expected: expected.to_string(), actual: actual.to_string() });
    }

    fn fail_unless(
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

    fn warn(&mut self, check: Check, expected: impl fmt::Display, actual: impl fmt::Display) {
        self.warnings.push(Finding { check, expected: expected.to_string(), actual: actual.to_string() });
    }
}
