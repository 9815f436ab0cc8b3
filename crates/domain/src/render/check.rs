//! Whether a file is what its profile says. All that is wrong is named at once.
//!
//! That metadata look right proves little: a file that was cut in half still says how long it was. So packets are counted
//! and every frame is decoded; what both say is judged here.

mod finding;

#[cfg(test)]
mod tests;

use super::profile::{Audio, Decoding, Profile};
use super::rate::Rate;
pub use finding::{Check, Finding, Verdict};
use std::collections::BTreeSet;

/// How far durations may be apart, in seconds, or one frame if that is longer.
const DURATION_TOLERANCE: f64 = 0.1;
/// How far sound and picture may be apart, in seconds.
const AUDIO_TOLERANCE: f64 = 0.2;
/// How many frames more or less a file may have than its duration says.
const FRAMES_TOLERANCE: f64 = 2.0;
const SAMPLE_RATE: u32 = 48_000;
/// From this share on a picture or sound is worth a warning.
const WARNED_SHARE: f64 = 0.98;

/// What ffprobe and ffmpeg said about a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Probe {
    pub bytes: u64,
    /// The names of its container, with commas between them.
    pub format: String,
    /// Its pictures that move, and those that are only attached.
    pub videos: Vec<Video>,
    pub audios: Vec<Sound>,
    /// What came of decoding it; none when that was not tried.
    pub decoded: Option<Decoded>,
    /// The share of it that is black, stands still, or is silent, as far as that was looked at.
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
    /// How many frames its container promises.
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
    /// It is not; the first line of what was said.
    Broken(String),
}

/// Shares from 0 to 1.
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
            None => verdict.fail(Check::Decoding, "every frame", "it was not tried"),
        }
    }
    // Keyed graphics are mostly black for good reasons, so none of these is a failure.
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
    let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let has_pixels = profile.pixel_formats.is_empty()
        || video.pixel_format.as_ref().is_some_and(|format| profile.pixel_formats.contains(format));
    let wanted = format!("{}x{}", profile.width, profile.height);
    let found = format!("{}x{}", video.width, video.height);
    let (shape, order) = (&video.sample_aspect_ratio, &video.field_order);
    // ffprobe writes 0:1 where the file does not say.
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
    let expected = wanted.map_or_else(|| "more than nothing".to_owned(), |wanted| format!("{wanted} s"));
    let is_long = seconds.is_some_and(|seconds| {
        // A hair more, because sums of fractions are not exact.
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

fn one_of(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" or ")
}
