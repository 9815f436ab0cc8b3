//! Checks the films of the demo without ffmpeg: reads the boxes of an MP4 file and decodes nothing. It knows only what
//! the clip of the demo has.

use tidemill_domain::render::check::Video;
use tidemill_domain::render::rate::Rate;
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
            probe(&bytes).map_err(|why| bad(&why))
        })
    }

    fn poster<'a>(&'a self, _file: &'a LocalPath, _picture: &'a LocalPath) -> Asking<'a, ()> {
        let why = "the demo makes no pictures, because it has no decoder";
        Box::pin(async move { Err(Trouble::new(Failure::Unexpected, why)) })
    }
}

fn probe(bytes: &[u8]) -> Result<Probe, String> {
    let content =
        |kind| find(bytes, kind).ok_or_else(|| format!("the box {} is missing", kind.escape_ascii()));
    content(b"ftyp")?;
    let tracks = boxes(content(b"moov")?).filter(|(kind, _)| kind == b"trak");
    let videos = tracks.filter_map(|(_, track)| video(track, bytes.len())).collect();
    Ok(Probe { bytes: bytes.len() as u64, format: "mp4".to_owned(), videos, ..Probe::default() })
}

/// None if the track is not a video.
fn video(track: &[u8], file_length: usize) -> Option<Video> {
    let media = find(track, b"mdia")?;
    if find(media, b"hdlr")?.get(8..12)? != b"vide" {
        return None;
    }
    let header = find(media, b"mdhd")?;
    let (scale, ticks) = (u32_at(header, 12)?, u32_at(header, 16)?);
    let table = find(find(media, b"minf")?, b"stbl")?;
    let entry = find(table, b"stsd")?.get(8..)?;
    let codec = if entry.get(4..8)? == b"avc1" { "h264" } else { "unknown" };
    let pixels = |at: usize| Some(u32::from(u16::from_be_bytes(entry.get(at..at + 2)?.try_into().ok()?)));
    // All frames last equally long.
    let rate = Rate::new(scale, u32_at(find(table, b"stts")?, 12)?).ok();
    let sizes = numbers(find(table, b"stsz")?, 8)?;
    // Frames are stored without gaps, from the first chunk on.
    let mut end = *numbers(find(table, b"stco")?, 4)?.first()?;
    let is_complete = |size: &&u64| {
        end = end.saturating_add(**size);
        end <= file_length as u64
    };
    Some(Video {
        codec: codec.to_owned(),
        width: pixels(32)?,
        height: pixels(34)?,
        base_rate: rate,
        average_rate: rate,
        frames: Some(sizes.len() as u64),
        packets: Some(sizes.iter().filter(is_complete).count() as u64),
        seconds: Some(f64::from(ticks) / f64::from(scale.max(1))),
        ..Video::default()
    })
}

fn find<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).find(|(found, _)| found == kind).map(|(_, content)| content)
}

/// The kind and content of each box, up to the first incomplete one.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let size = u32_at(bytes, 0)? as usize;
        let (kind, content) = (bytes.get(4..8)?.try_into().ok()?, bytes.get(8..size)?);
        bytes = bytes.get(size..)?;
        Some((kind, content))
    })
}

/// The numbers of a list; its length is at `at`.
fn numbers(table: &[u8], at: usize) -> Option<Vec<u64>> {
    let count = u32_at(table, at)? as usize;
    (1..=count).map(|place| u32_at(table, at + 4 * place).map(u64::from)).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::CLIP;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_clip_of_the_demo_is_what_ffprobe_says_it_is() {
        let probe = probe(CLIP).unwrap();

        let [video] = &probe.videos[..] else { panic!("{probe:?}") };
        assert_eq!((video.codec.as_str(), video.width, video.height), ("h264", 640, 360));
        assert_eq!((video.frames, video.packets, video.seconds), (Some(50), Some(50), Some(2.0)));
        assert_eq!(video.average_rate, Some(Rate::new(25, 1).unwrap()));
    }

    #[test]
    fn a_file_that_was_cut_has_fewer_frames_than_it_promises() {
        let cut = probe(&CLIP[..CLIP.len() * 3 / 4]).unwrap();

        let video = &cut.videos[0];
        assert_eq!(video.frames, Some(50));
        assert!(video.packets < video.frames, "{video:?}");
        assert!(probe(&CLIP[..40]).unwrap_err().contains("moov"));
        assert!(probe(b"not a film").is_err());
        assert!(probe(b"").is_err());
    }

    proptest! {
        #[test]
        fn nothing_in_a_file_makes_it_panic(cut in 0..CLIP.len(), at in 0..CLIP.len(), byte: u8) {
            let mut bytes = CLIP.to_vec();
            bytes[at] = byte;
            let _answer = probe(&bytes[cut..]);
            let _answer = probe(&bytes);
        }
    }
}
