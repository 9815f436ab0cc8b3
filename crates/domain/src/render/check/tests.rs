//! Real files, good and bad, as ffprobe describes them.

use super::super::profile::tests::profile;
use super::*;
use proptest::prelude::*;

fn rate(text: &str) -> Option<Rate> {
    text.parse().ok()
}

/// A clip of five seconds, as the profile wants it.
fn good() -> Probe {
    let video = Video {
        codec: "h264".into(),
        pixel_format: Some("yuv420p".into()),
        width: 1920,
        height: 1080,
        sample_aspect_ratio: Some("1:1".into()),
        field_order: Some("progressive".into()),
        base_rate: rate("30/1"),
        average_rate: rate("30/1"),
        frames: Some(150),
        packets: Some(150),
        seconds: Some(5.0),
        is_attached: false,
    };
    Probe {
        bytes: 900_000,
        format: "mov,mp4,m4a,3gp,3g2,mj2".into(),
        videos: vec![video],
        audios: vec![Sound { sample_rate: Some(48_000), seconds: Some(5.02) }],
        decoded: Some(Decoded::Whole),
        shares: Shares::default(),
    }
}

fn failed(change: impl Fn(&mut Probe)) -> Vec<Check> {
    let mut probe = good();
    change(&mut probe);
    check(&probe, &profile()).failures.into_iter().map(|finding| finding.check).collect()
}

#[test]
fn a_good_file_passes_and_so_does_a_small_black_one() {
    assert_eq!(check(&good(), &profile()), Verdict::default());

    let mut black = good();
    black.bytes = 9_000;
    black.shares.black = Some(1.0);
    let verdict = check(&black, &profile());
    assert!(verdict.is_good());
    assert_eq!(verdict.warnings.len(), 1);
}

#[test]
fn half_a_file_and_one_with_holes_are_refused() {
    // Cut in half: its metadata still has 150 frames and five seconds.
    assert_eq!(
        failed(|probe| {
            probe.videos[0].packets = Some(76);
            probe.decoded = Some(Decoded::Broken("Invalid NAL unit size".into()));
        }),
        [Check::Packets, Check::Frames, Check::Decoding]
    );
    // Zeros in the middle: all numbers are right.
    assert_eq!(
        failed(|probe| probe.decoded = Some(Decoded::Broken("error while decoding MB".into()))),
        [Check::Decoding]
    );
}

#[test]
fn each_thing_that_differs_is_found() {
    let video = |change: fn(&mut Video)| failed(|probe| change(&mut probe.videos[0]));

    assert_eq!(failed(|probe| probe.bytes = 999), [Check::Size]);
    assert_eq!(failed(|probe| probe.format = "matroska,webm".into()), [Check::Container]);
    assert_eq!(failed(|probe| probe.videos.clear()), [Check::VideoStreams]);
    assert_eq!(failed(|probe| probe.videos.push(probe.videos[0].clone())), [Check::VideoStreams]);
    assert_eq!(video(|video| video.codec = "hevc".into()), [Check::Codec]);
    assert_eq!(video(|video| video.pixel_format = Some("yuv444p".into())), [Check::PixelFormat]);
    assert_eq!(video(|video| video.width = 1280), [Check::Resolution]);
    assert_eq!(video(|video| video.sample_aspect_ratio = Some("4:3".into())), [Check::PixelShape]);
    assert_eq!(video(|video| video.field_order = Some("tt".into())), [Check::FieldOrder]);
    assert_eq!(video(|video| video.seconds = Some(5.2)), [Check::Duration, Check::Frames]);
    assert_eq!(video(|video| video.seconds = Some(f64::NAN)), [Check::Duration, Check::AudioDuration]);
    assert_eq!(video(|video| video.packets = None), [Check::Packets]);
    assert_eq!(failed(|probe| probe.audios[0].seconds = Some(4.7)), [Check::AudioDuration]);
    assert_eq!(failed(|probe| probe.decoded = None), [Check::Decoding]);
}

#[test]
fn rates_are_compared_exactly() {
    assert_eq!(
        failed(|probe| {
            probe.videos[0].base_rate = rate("30000/1001");
            probe.videos[0].average_rate = rate("30000/1001");
        }),
        [Check::Rate]
    );
    // A variable rate: as many frames, unequally long.
    let mut variable = good();
    variable.videos[0].average_rate = rate("900/59");
    let verdict = check(&variable, &profile());
    assert_eq!(
        verdict.message(),
        "frames per second: expected 30, found 900/59; constant frame rate: expected 900/59, found 30"
    );
}

#[test]
fn what_a_file_does_not_say_is_not_held_against_it() {
    let silent = |change: fn(&mut Video)| failed(|probe| change(&mut probe.videos[0]));

    assert!(silent(|video| video.sample_aspect_ratio = None).is_empty());
    assert!(silent(|video| video.sample_aspect_ratio = Some("0:1".into())).is_empty());
    assert!(silent(|video| video.field_order = None).is_empty());
    assert!(silent(|video| video.frames = None).is_empty());
}

#[test]
fn an_attached_picture_is_no_video_and_worth_a_warning() {
    let mut probe = good();
    probe.videos.push(Video { codec: "mjpeg".into(), is_attached: true, ..Video::default() });

    let verdict = check(&probe, &profile());

    assert!(verdict.is_good());
    assert_eq!(verdict.warnings[0].check, Check::AttachedPicture);
}

#[test]
fn sound_is_as_the_profile_wants_it() {
    let heard = |audio, change: fn(&mut Probe)| {
        let mut probe = good();
        change(&mut probe);
        let verdict = check(&probe, &Profile { audio, ..profile() });
        verdict.failures.into_iter().map(|finding| finding.check).collect::<Vec<_>>()
    };

    assert_eq!(heard(Audio::None, |_| ()), [Check::Audio]);
    assert_eq!(heard(Audio::Required, |probe| probe.audios.clear()), [Check::Audio]);
    assert_eq!(
        heard(Audio::Required, |probe| probe.audios[0].sample_rate = Some(44_100)),
        [Check::SampleRate]
    );
    assert!(heard(Audio::Any, |probe| probe.audios.clear()).is_empty());
    assert!(heard(Audio::None, |probe| probe.audios.clear()).is_empty());
}

#[test]
fn a_profile_can_do_without_decoding_and_without_a_duration() {
    let mut probe = good();
    probe.decoded = None;
    probe.videos[0] =
        Video { seconds: Some(8.0), frames: Some(240), packets: Some(240), ..probe.videos[0].clone() };
    probe.audios.clear();

    let profile = Profile { decoding: Decoding::Off, duration: None, ..profile() };

    assert!(check(&probe, &profile).is_good(), "{}", check(&probe, &profile).message());
}

proptest! {
    #[test]
    fn no_numbers_make_it_panic_and_a_cut_file_is_never_good(
        bytes: u64, seconds: f64, packets in 0..150_u64, audio: f64, black: f64,
    ) {
        let mut probe = good();
        probe.bytes = bytes;
        probe.videos[0].seconds = Some(seconds);
        probe.videos[0].packets = Some(packets);
        probe.audios[0].seconds = Some(audio);
        probe.shares.black = Some(black);
        prop_assert!(!check(&probe, &profile()).is_good());
    }
}
