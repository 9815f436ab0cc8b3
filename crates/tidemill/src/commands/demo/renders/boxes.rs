//! The boxes of an MP4 file: what its tables promise, and what of it really is in the file. Nothing is decoded.

use tidemill_domain::render::check::Video;
use tidemill_domain::render::rate::Rate;
use tidemill_domain::render::{Failure, LocalPath, Probe, Profile, Trouble};
use tidemill_engine::render::{Asking, Inspector};

/// Looks at the films of the demo without ffmpeg. It decodes nothing, and does not say that it did.
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
        let why = "the demo makes no pictures, because it has nothing to decode films with";
        Box::pin(async move { Err(Trouble::new(Failure::Unexpected, why)) })
    }
}

/// What there is to say about a file, or why it is none.
fn probe(bytes: &[u8]) -> Result<Probe, String> {
    if find(bytes, b"ftyp").is_none() {
        return Err("there is no box ftyp at its beginning".to_owned());
    }
    let moov = find(bytes, b"moov").ok_or("there is no box moov, so nobody can tell what is in it")?;
    find_any(bytes, b"mdat").ok_or("there is no box mdat, so there is no picture in it")?;
    let videos: Vec<Video> = all(moov, b"trak").filter_map(|track| video(track, bytes.len())).collect();
    Ok(Probe {
        bytes: bytes.len() as u64,
        format: "mp4".to_owned(),
        videos,
        // Sound is not looked at; neither is what only a decoder can see.
        ..Probe::default()
    })
}

/// A track of pictures; none when it is something else.
fn video(track: &[u8], length: usize) -> Option<Video> {
    let media = find(track, b"mdia")?;
    if find(media, b"hdlr")?.get(8..12)? != b"vide" {
        return None;
    }
    let header = find(media, b"mdhd")?;
    // Version 1 has longer times.
    let (scale_at, is_long) = if *header.first()? == 1 { (20, true) } else { (12, false) };
    let scale = u32_at(header, scale_at)?;
    let ticks = if is_long { u64_at(header, 24)? } else { u64::from(u32_at(header, 16)?) };
    let table = find(find(media, b"minf")?, b"stbl")?;
    let entry = find(table, b"stsd")?.get(8..)?;
    let codec = match entry.get(4..8)? {
        b"avc1" | b"avc3" => "h264",
        b"hvc1" | b"hev1" => "hevc",
        _ => "unknown",
    };
    let sizes = sizes(find(table, b"stsz")?)?;
    let times = find(table, b"stts")?;
    // One entry says that all frames last equally long.
    let rate = match u32_at(times, 4)? {
        1 => Rate::new(scale, u32_at(times, 12)?).ok(),
        _ => None,
    };
    Some(Video {
        codec: codec.to_owned(),
        width: u32::from(u16_at(entry, 32)?),
        height: u32::from(u16_at(entry, 34)?),
        base_rate: rate,
        average_rate: rate,
        frames: Some(sizes.len() as u64),
        packets: Some(whole(&places(table, &sizes)?, length)),
        seconds: Some(ticks as f64 / f64::from(scale.max(1))),
        ..Video::default()
    })
}

fn sizes(table: &[u8]) -> Option<Vec<u64>> {
    let (same, count) = (u32_at(table, 4)?, u32_at(table, 8)? as usize);
    if same != 0 {
        return Some(vec![same.into(); count.min(1_000_000)]);
    }
    (0..count).map(|index| u32_at(table, 12 + 4 * index).map(u64::from)).collect()
}

/// Where every frame begins and ends in the file.
fn places(table: &[u8], sizes: &[u64]) -> Option<Vec<(u64, u64)>> {
    let runs = find(table, b"stsc")?;
    let run = |index: usize| Some((u32_at(runs, 8 + 12 * index)?, u32_at(runs, 12 + 12 * index)?));
    let runs: Vec<(u32, u32)> = (0..u32_at(runs, 4)? as usize).map(run).collect::<Option<_>>()?;
    let chunks: Vec<u64> = match (find(table, b"stco"), find(table, b"co64")) {
        (Some(short), _) => (0..u32_at(short, 4)? as usize)
            .map(|n| u32_at(short, 8 + 4 * n).map(u64::from))
            .collect::<Option<_>>()?,
        (None, long) => {
            let long = long?;
            (0..u32_at(long, 4)? as usize).map(|n| u64_at(long, 8 + 8 * n)).collect::<Option<_>>()?
        }
    };
    let (mut places, mut left) = (Vec::with_capacity(sizes.len()), sizes.iter());
    for (index, chunk) in (1_u32..).zip(chunks) {
        let frames = runs.iter().rev().find(|(first, _)| *first <= index)?.1;
        let mut at = chunk;
        for size in left.by_ref().take(frames as usize) {
            places.push((at, at.saturating_add(*size)));
            at = at.saturating_add(*size);
        }
    }
    Some(places)
}

/// How many frames are in the file from their first to their last byte.
fn whole(places: &[(u64, u64)], length: usize) -> u64 {
    places.iter().filter(|(from, to)| from < to && *to <= length as u64).count() as u64
}

/// The content of the first box of this kind, if all of it is there.
fn find<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    all(bytes, kind).next()
}

/// The same, also of a box whose end is missing.
fn find_any<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    Boxes { bytes, at: 0 }.find(|found| found.kind == kind).map(|found| found.content)
}

fn all<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> impl Iterator<Item = &'a [u8]> {
    Boxes { bytes, at: 0 }
        .filter(move |found| found.is_whole && found.kind == kind)
        .map(|found| found.content)
}

struct Mp4Box<'a> {
    kind: &'a [u8],
    content: &'a [u8],
    is_whole: bool,
}

struct Boxes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Boxes<'a> {
    type Item = Mp4Box<'a>;

    fn next(&mut self) -> Option<Mp4Box<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let kind = rest.get(4..8)?;
        let (head, size) = match u32_at(rest, 0)? {
            0 => (8, rest.len() as u64),
            1 => (16, u64_at(rest, 8)?),
            size => (8, u64::from(size)),
        };
        let size = usize::try_from(size).ok().filter(|size| *size >= head)?;
        self.at = self.at.saturating_add(size);
        let content = rest.get(head..size.min(rest.len()))?;
        Some(Mp4Box { kind, content, is_whole: size <= rest.len() })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
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
