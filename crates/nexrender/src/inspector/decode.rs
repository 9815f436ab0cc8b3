//! Decodes every frame and finds black, frozen and silent passages, in one pass.
//!
//! ffmpeg writes its findings and its errors to one stream, each line with its level: `[blackdetect @ 0x55…] [info]
//! black_start:0 black_end:3 …` and `[h264 @ 0x55…] [error] Invalid NAL unit size`.

use super::program::Run;
use super::{FfmpegInspector, arguments};
use std::time::Duration;
use tidemill_domain::render::check::{Decoded, Shares};
use tidemill_domain::render::{LocalPath, Trouble};

/// Tolerance: ffmpeg does not count the last frame of a passage that lasts until the end.
const END_SECONDS: f64 = 0.1;

impl FfmpegInspector {
    pub(super) async fn decode(&self, file: &LocalPath, within: Duration) -> Result<Findings, Trouble> {
        let before = ["-nostdin", "-hide_banner", "-nostats", "-v", "level+info", "-xerror"];
        let after = [
            // Video and audio only; a timecode track cannot be decoded.
            &["-map", "0:V?", "-map", "0:a?"][..],
            &["-vf", "blackdetect=d=0.05,freezedetect=d=0.5", "-af", "silencedetect=d=0.5"],
            &["-f", "null", "-"],
        ]
        .concat();
        let arguments = arguments(&before, file, &after);
        let mut heard = Findings::default();
        let ran = self.ffmpeg.run(Run { arguments, within, stdout_max: 0 }, |line| heard.hear(line)).await?;
        if !ran.is_success {
            heard.error.get_or_insert_with(|| "ffmpeg gave up without a word".to_owned());
        }
        Ok(heard)
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Findings {
    error: Option<String>,
    black: Spans,
    frozen: Spans,
    silent: Spans,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Spans {
    ended: Vec<(f64, f64)>,
    begun: Option<f64>,
}

impl Findings {
    fn hear(&mut self, line: &str) {
        let (speaker, level, said) = split(line);
        match (speaker, level) {
            (_, "error" | "fatal" | "panic") => {
                self.error.get_or_insert_with(|| said.to_owned());
            }
            (Some("blackdetect"), "info") => {
                if let (Some(start), Some(end)) = (after(said, "black_start:"), after(said, "black_end:")) {
                    self.black.ended.push((start, end));
                }
            }
            (Some("freezedetect"), "info") => self.frozen.hear(said, "freeze_start:", "freeze_end:"),
            (Some("silencedetect"), "info") => self.silent.hear(said, "silence_start:", "silence_end:"),
            _ => {}
        }
    }

    pub(super) fn decoded(&self) -> Decoded {
        self.error.clone().map_or(Decoded::Whole, Decoded::Broken)
    }

    /// Shares of a file of this duration, and of each of its audio tracks.
    pub(super) fn shares(&self, seconds: f64, sounds: usize) -> Shares {
        let is_long = seconds.is_finite() && seconds > 0.0;
        let share = |spans: &Spans, tracks: usize| {
            let all = seconds * f64::from(u32::try_from(tracks).unwrap_or(u32::MAX));
            (is_long && tracks > 0).then(|| (spans.seconds(seconds) / all).clamp(0.0, 1.0))
        };
        Shares {
            black: share(&self.black, 1),
            frozen: share(&self.frozen, 1),
            silent: share(&self.silent, sounds),
        }
    }
}

impl Spans {
    /// Start and end are reported on separate lines.
    fn hear(&mut self, said: &str, start: &str, end: &str) {
        if let Some(start) = after(said, start) {
            self.begun = Some(start);
        }
        if let Some(end) = after(said, end)
            && let Some(start) = self.begun.take()
        {
            self.ended.push((start, end));
        }
    }

    fn seconds(&self, seconds: f64) -> f64 {
        let ended = self.ended.iter().map(|(start, end)| {
            let end = if seconds - end < END_SECONDS { seconds } else { *end };
            (end - start.max(0.0)).max(0.0)
        });
        let begun = self.begun.map(|start| (seconds - start.max(0.0)).max(0.0));
        ended.chain(begun).sum()
    }
}

/// Filter, level and message.
fn split(line: &str) -> (Option<&str>, &str, &str) {
    let (mut speaker, mut rest) = (None, line);
    if let Some((inside, behind)) = brackets(line)
        && let Some((name, _)) = inside.split_once(" @ ")
    {
        (speaker, rest) = (Some(name), behind);
    }
    let (level, said) = brackets(rest).unwrap_or(("", rest));
    (speaker, level, said)
}

/// The bracketed text at the beginning, and the rest.
fn brackets(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.split_once("] ")
}

fn after(text: &str, word: &str) -> Option<f64> {
    let (_, rest) = text.split_once(word)?;
    let number: f64 = rest.split_whitespace().next()?.parse().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heard(lines: &[&str]) -> Findings {
        let mut heard = Findings::default();
        lines.iter().for_each(|line| heard.hear(line));
        heard
    }

    #[test]
    fn a_clip_that_is_black_and_silent_is_so_to_its_end() {
        let heard = heard(&[
            "[info] Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:/x/b.mp4':",
            "[silencedetect @ 0x55922a6866c0] [info] silence_start: 0",
            "[freezedetect @ 0x55922a6a7e00] [info] lavfi.freezedetect.freeze_start: 0",
            "[info] frame=   30 fps=0.0 q=-0.0 Lsize=N/A time=00:00:01.00 bitrate=N/A speed= 237x",
            "[blackdetect @ 0x55922a6a79c0] [info] black_start:0 black_end:0.966667 black_duration:0.966667",
            "[silencedetect @ 0x55922a6866c0] [info] silence_end: 1.00267 | silence_duration: 1.00267",
        ]);

        assert_eq!(heard.decoded(), Decoded::Whole);
        assert_eq!(heard.shares(1.0, 1), Shares { black: Some(1.0), frozen: Some(1.0), silent: Some(1.0) });
    }

    #[test]
    fn shares_are_those_of_the_whole_and_of_each_track() {
        let heard = heard(&[
            "[blackdetect @ 0x1] [info] black_start:1 black_end:2 black_duration:1",
            "[blackdetect @ 0x1] [info] black_start:5 black_end:6.5 black_duration:1.5",
            "[freezedetect @ 0x2] [info] lavfi.freezedetect.freeze_start: 8",
            "[freezedetect @ 0x2] [info] lavfi.freezedetect.freeze_duration: 1",
            "[freezedetect @ 0x2] [info] lavfi.freezedetect.freeze_end: 9",
            "[silencedetect @ 0x3] [info] silence_start: 4",
            "[silencedetect @ 0x3] [info] silence_end: 6 | silence_duration: 2",
        ]);

        assert_eq!(heard.shares(10.0, 2), Shares { black: Some(0.25), frozen: Some(0.1), silent: Some(0.1) });
        assert_eq!(heard.shares(10.0, 0).silent, None);
        assert_eq!(heard.shares(0.0, 1), Shares::default());
    }

    #[test]
    fn the_first_error_is_what_is_wrong_and_a_title_is_none() {
        let whole =
            heard(&["[info]     title           : [error] not so", "[h264 @ 0x1] [warning] a warning"]);
        let broken = heard(&[
            "[h264 @ 0x1] [error] Invalid NAL unit size (0 > 4).",
            "[error] Error while decoding stream #0:0",
        ]);

        assert_eq!(whole.decoded(), Decoded::Whole);
        assert_eq!(broken.decoded(), Decoded::Broken("Invalid NAL unit size (0 > 4).".to_owned()));
    }

    proptest! {
        #[test]
        fn any_line_is_heard_without_a_panic(
            lines in prop::collection::vec(
                "(\\[(black|freeze|silence)detect @ 0x1\\] )?(\\[(info|error)\\] )?(black_start:|freeze_start: |silence_end: |\\[|\\] )?[-0-9.einfNa가]{0,9}( black_end:[-0-9e]{0,5})?",
                0..12,
            ),
            seconds: f64,
            sounds in 0..3_usize,
        ) {
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let shares = heard(&lines).shares(seconds, sounds);
            for share in [shares.black, shares.frozen, shares.silent].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&share), "{share}");
            }
        }
    }
}
