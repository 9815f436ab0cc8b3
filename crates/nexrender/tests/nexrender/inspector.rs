//! Real files, good and bad: what ffprobe and ffmpeg say of them, and what the rules make of that.

use crate::clip::{self, Clip, local, profile};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use tidemill_domain::render::check::{Check, Verdict, check};
use tidemill_domain::render::profile::Decoding;
use tidemill_domain::render::{Failure, Profile};
use tidemill_engine::render::Inspector;
use tidemill_nexrender::{FfmpegInspector, InspectorOptions};

fn inspector() -> FfmpegInspector {
    FfmpegInspector::new(InspectorOptions::default())
}

async fn verdict(file: &Path, profile: &Profile) -> Verdict {
    check(&inspector().inspect(&local(file), profile).await.unwrap(), profile)
}

async fn failed(file: &Path) -> Vec<Check> {
    verdict(file, &profile()).await.failures.into_iter().map(|finding| finding.check).collect()
}

/// Zeros in the middle of a file.
fn make_hole(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let (start, end) = (bytes.len() * 4 / 10, bytes.len() * 6 / 10);
    bytes[start..end].fill(0);
    fs::write(file, bytes).unwrap();
}

fn cut_in_half(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

#[tokio::test]
async fn a_good_clip_passes_whatever_its_name_is() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let good = Clip::default().make(&folder.path().join("good.mp4"));

    for name in ["a:b.mp4", "-x.mp4", "http:x.mp4", "파이널 테이블 100%.mp4", "a%03d.mp4"] {
        let file = folder.path().join(name);
        fs::copy(&good, &file).unwrap();
        let verdict = verdict(&file, &profile()).await;
        assert_eq!(verdict, Verdict::default(), "{name}");
    }
}

#[tokio::test]
async fn a_small_black_clip_passes_with_a_warning() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let black = Clip { picture: "color=black:size=320x180:rate=30", others: &["-an"], ..Clip::default() };
    let black = black.make(&folder.path().join("black.mp4"));
    let silent = Profile { audio: tidemill_domain::render::profile::Audio::None, ..profile() };

    let verdict = verdict(&black, &silent).await;

    assert!(fs::metadata(&black).unwrap().len() < 20_000);
    assert!(verdict.is_good(), "{}", verdict.message());
    let warned: Vec<_> = verdict.warnings.iter().map(|finding| finding.check).collect();
    assert_eq!(warned, [Check::Black, Check::Frozen]);
}

#[tokio::test]
async fn half_a_file_and_one_with_a_hole_are_refused() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clip = Clip { others: &["-movflags", "+faststart"], ..Clip::default() };
    let half = clip.make(&folder.path().join("half.mp4"));
    let holed = folder.path().join("holed.mp4");
    fs::copy(&half, &holed).unwrap();
    cut_in_half(&half);
    make_hole(&holed);

    let (half, holed) = (failed(&half).await, failed(&holed).await);

    assert!(half.contains(&Check::Packets) && half.contains(&Check::Decoding), "{half:?}");
    assert_eq!(holed, [Check::Decoding]);
}

#[tokio::test]
async fn without_decoding_half_a_file_is_still_refused() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clip = Clip { others: &["-movflags", "+faststart"], ..Clip::default() };
    let half = clip.make(&folder.path().join("half.mp4"));
    cut_in_half(&half);
    let profile = Profile { decoding: Decoding::Off, ..profile() };

    let verdict = verdict(&half, &profile).await;

    assert!(verdict.failures.iter().any(|finding| finding.check == Check::Packets), "{}", verdict.message());
    assert!(!verdict.failures.iter().any(|finding| finding.check == Check::Decoding));
}

#[tokio::test]
async fn what_ffprobe_cannot_read_and_what_is_no_file_is_invalid() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let good = Clip::default().make(&folder.path().join("good.mp4"));
    // The index is at the end, and gone.
    let headless = folder.path().join("headless.mp4");
    fs::copy(&good, &headless).unwrap();
    cut_in_half(&headless);
    let text = folder.path().join("text.mp4");
    fs::write(&text, "not a clip").unwrap();
    let link = folder.path().join("link.mp4");
    std::os::unix::fs::symlink(&good, &link).unwrap();

    for file in [&headless, &text, &link, &folder.path().join("gone.mp4"), &folder.path().to_owned()] {
        let trouble = inspector().inspect(&local(file), &profile()).await.unwrap_err();
        assert_eq!(trouble.failure, Failure::OutputInvalid, "{}", trouble.message);
    }
}

#[tokio::test]
async fn each_thing_that_differs_is_found() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let large = Clip { picture: "testsrc2=size=640x360:rate=30", ..Clip::default() };
    let newer = Clip { encoder: "libx265", others: &["-x265-params", "log-level=none"], ..Clip::default() };
    let uneven = ["-vf", "select='not(eq(mod(floor(n/10),2),1)*mod(n,3))'", "-vsync", "vfr"];
    let uneven = Clip { others: &uneven, ..Clip::default() };

    assert_eq!(failed(&large.make(&path("large.mp4"))).await, [Check::Resolution]);
    assert_eq!(failed(&newer.make(&path("newer.mp4"))).await, [Check::Codec]);
    let uneven = failed(&uneven.make(&path("uneven.mp4"))).await;
    assert!(uneven.contains(&Check::Rate) && uneven.contains(&Check::ConstantRate), "{uneven:?}");
}

#[tokio::test]
async fn a_file_that_is_a_list_leads_nowhere() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let list = folder.path().join("list.mp4");
    let segment = format!("http://{}/x.ts", elsewhere.local_addr().unwrap());
    let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{segment}\n#EXT-X-ENDLIST\n");
    fs::write(&list, text).unwrap();

    let looked = inspector().inspect(&local(&list), &profile()).await;

    assert!(looked.is_err_and(|trouble| trouble.failure == Failure::OutputInvalid));
    assert!(elsewhere.accept().is_err(), "somebody has followed the list");
}

#[tokio::test]
async fn a_picture_is_taken_out_of_the_middle() {
    if !clip::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let good = Clip::default().make(&folder.path().join("good.mp4"));

    for (name, magic) in [("a%d.jpg", &b"\xff\xd8\xff"[..]), ("포스터.PNG", b"\x89PNG")] {
        let picture = folder.path().join(name);
        for _ in 0..2 {
            inspector().poster(&local(&good), &local(&picture)).await.unwrap();
            assert!(fs::read(&picture).unwrap().starts_with(magic), "{name}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "something was left over");
}

#[tokio::test]
async fn programs_that_are_not_there_are_missed_at_once() {
    if !clip::is_there() {
        return;
    }
    let options =
        InspectorOptions { ffmpeg: PathBuf::from("/nowhere/ffmpeg"), ..InspectorOptions::default() };

    let trouble = FfmpegInspector::new(options).check().await.unwrap_err();

    assert_eq!(trouble.failure, Failure::ToolMissing);
    assert_eq!(inspector().check().await, Ok(()));
}
