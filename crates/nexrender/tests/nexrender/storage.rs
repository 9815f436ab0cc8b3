//! Publishing on a real file system.

use crate::clip::local;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::output::{Correction, Output, Source};
use tidemill_domain::render::{Failure, RenderId, Uid};
use tidemill_engine::SystemClock;
use tidemill_engine::render::Storage;
use tidemill_engine::render::storage::Content;
use tidemill_nexrender::{Mount, NasStorage, Place, ReadBack, StorageOptions};

/// A folder for nodes and one that stands for the NAS.
pub(crate) struct Stage {
    root: TempDir,
    pub(crate) storage: NasStorage,
}

impl Stage {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut StorageOptions)) -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["staging", "nas"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let storage = storage(&root.path().join("staging"), &root.path().join("nas"), change);
        Self { root, storage }
    }

    fn staging(&self, name: &str) -> PathBuf {
        self.root.path().join("staging").join(name)
    }

    fn nas(&self, name: &str) -> PathBuf {
        self.root.path().join("nas").join(name)
    }

    /// A file that a node has left.
    fn leave(&self, name: &str, text: &str) -> PathBuf {
        let file = self.staging(name);
        fs::write(&file, text).unwrap();
        file
    }

    fn in_day(&self, name: &str) -> PathBuf {
        self.nas("2026-11-15").join(name)
    }

    async fn copy(&self, file: &Path, output: &Output) -> Result<Content, Failure> {
        self.storage.copy(&local(file), output).await.map_err(|trouble| trouble.failure)
    }

    async fn publish(&self, output: &Output, content: &Content) -> Result<String, Failure> {
        let published = self.storage.publish(output, content).await;
        published.map(|path| path.to_string()).map_err(|trouble| trouble.failure)
    }
}

pub(crate) fn storage(staging: &Path, nas: &Path, change: impl FnOnce(&mut StorageOptions)) -> NasStorage {
    let place = |path: &Path| Place { folder: local(path), mount: Mount::Local };
    let mut options = StorageOptions::new(place(staging), place(nas));
    options.free_bytes_min = 0;
    change(&mut options);
    NasStorage::new(options, Arc::new(SystemClock::new()))
}

pub(crate) fn output(composition: &str) -> Output {
    Output::of(Source {
        uid: Uid::new(RenderId::new(7), Epoch::new(2)),
        composition,
        extension: "mp4",
        date: "2026-11-15".parse().unwrap(),
        folder: "",
        revision: 1,
        correction: Correction::Revision,
    })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_is_seen_under_its_final_name_only_when_all_of_it_is_there() {
    for read_back in [ReadBack::Off, ReadBack::On] {
        let stage = Stage::with(|options| options.read_back = read_back);
        let (file, output) = (stage.leave("rq-7-2.mp4", "abc"), output("파이널 테이블"));

        let before = stage.storage.published(&output).await.unwrap();
        let content = stage.copy(&file, &output).await.unwrap();
        let between = names(&stage.nas("2026-11-15"));
        let path = stage.publish(&output, &content).await.unwrap();

        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(content, Content { bytes: 3, sha256: sha256.into() });
        assert_eq!((before, between), (None, vec![".파이널 테이블_7.mp4.rq-7-2.part".to_owned()]));
        assert_eq!(path, stage.in_day("파이널 테이블_7.mp4").to_str().unwrap());
        assert_eq!(names(&stage.nas("2026-11-15")), ["파이널 테이블_7.mp4"]);
        assert_eq!(fs::read_to_string(path).unwrap(), "abc");
        assert_eq!(stage.storage.published(&output).await.unwrap(), Some(content));
        assert!(file.exists(), "it is discarded by whoever has recorded that it is published");
        stage.storage.discard(&local(&file)).await.unwrap();
        stage.storage.discard(&local(&file)).await.unwrap();
        assert!(!file.exists());
    }
}

#[tokio::test]
async fn a_part_that_was_left_over_is_written_anew() {
    let stage = Stage::new();
    let (file, output) = (stage.leave("rq-7-2.mp4", "whole"), output("Main"));
    fs::create_dir(stage.nas("2026-11-15")).unwrap();
    fs::write(stage.in_day(&output.part), "a longer one that was broken off").unwrap();

    let content = stage.copy(&file, &output).await.unwrap();
    stage.publish(&output, &content).await.unwrap();

    assert_eq!(fs::read_to_string(stage.in_day("Main_7.mp4")).unwrap(), "whole");
}

#[tokio::test]
async fn an_equal_file_is_success_and_another_one_stays_as_it_is() {
    let stage = Stage::new();
    let (file, output) = (stage.leave("rq-7-2.mp4", "ours"), output("Main"));
    let content = stage.copy(&file, &output).await.unwrap();
    fs::write(stage.in_day("Main_7.mp4"), "ours").unwrap();

    let equal = stage.publish(&output, &content).await;
    let left = names(&stage.nas("2026-11-15"));
    fs::write(stage.in_day("Main_7.mp4"), "else").unwrap();
    stage.copy(&file, &output).await.unwrap();
    let other = stage.publish(&output, &content).await;

    assert!(equal.is_ok());
    assert_eq!(left, ["Main_7.mp4"]);
    assert_eq!(other, Err(Failure::OutputConflict));
    assert_eq!(fs::read_to_string(stage.in_day("Main_7.mp4")).unwrap(), "else");
    stage.storage.discard_part(&output).await.unwrap();
    stage.storage.discard_part(&output).await.unwrap();
    assert_eq!(names(&stage.nas("2026-11-15")), ["Main_7.mp4"]);
}

#[tokio::test]
async fn a_part_that_is_not_what_was_copied_is_not_published() {
    let stage = Stage::new();
    let (file, output) = (stage.leave("rq-7-2.mp4", "whole"), output("Main"));
    let content = stage.copy(&file, &output).await.unwrap();

    fs::write(stage.in_day(&output.part), "whol").unwrap();
    let half = stage.publish(&output, &content).await;
    fs::remove_file(stage.in_day(&output.part)).unwrap();
    let gone = stage.publish(&output, &content).await;

    assert_eq!((half, gone), (Err(Failure::NasFailed), Err(Failure::NasFailed)));
    assert!(!stage.in_day("Main_7.mp4").exists());
}

#[tokio::test]
async fn what_is_no_file_of_a_node_is_not_copied() {
    let stage = Stage::new();
    let (secret, output) = (stage.root.path().join("secret"), output("Main"));
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, stage.staging("link.mp4")).unwrap();
    fs::create_dir(stage.staging("folder.mp4")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, stage.staging("pipe.mp4"), rustix::fs::Mode::RWXU).unwrap();
    symlink(stage.root.path(), stage.staging("out")).unwrap();

    for name in ["link.mp4", "folder.mp4", "pipe.mp4", "gone.mp4", "gone/gone.mp4"] {
        assert_eq!(stage.copy(&stage.staging(name), &output).await, Err(Failure::OutputInvalid), "{name}");
    }
    assert_eq!(stage.copy(&secret, &output).await, Err(Failure::PathNotMapped));
    assert_eq!(stage.copy(&stage.staging("out/secret"), &output).await, Err(Failure::NasRefused));
    let discarded = stage.storage.discard(&local(&stage.staging("out/secret"))).await;
    assert_eq!(discarded.unwrap_err().failure, Failure::NasRefused);
    assert!(secret.exists() && names(&stage.nas("2026-11-15")).is_empty());
    let settled = stage.storage.settled(&local(&stage.staging("link.mp4")), Duration::ZERO).await;
    assert_eq!(settled.unwrap_err().failure, Failure::OutputInvalid);
}

#[tokio::test]
async fn nothing_is_written_through_a_link() {
    let stage = Stage::new();
    let (file, output) = (stage.leave("rq-7-2.mp4", "abc"), output("Main"));
    let outside = stage.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, stage.nas("2026-11-15")).unwrap();

    let through_folder = stage.copy(&file, &output).await;
    fs::remove_file(stage.nas("2026-11-15")).unwrap();
    fs::create_dir(stage.nas("2026-11-15")).unwrap();
    symlink(outside.join("stolen"), stage.in_day(&output.part)).unwrap();
    let content = stage.copy(&file, &output).await.unwrap();
    symlink(outside.join("stolen"), stage.in_day(&output.name)).unwrap();
    let onto_link = stage.publish(&output, &content).await;

    assert_eq!((through_folder, onto_link), (Err(Failure::NasRefused), Err(Failure::OutputConflict)));
    assert!(names(&outside).is_empty());
}

#[tokio::test]
async fn the_file_before_is_moved_aside_and_nothing_is_lost() {
    let stage = Stage::new();
    let file = stage.leave("rq-7-2.mp4", "corrected");
    let output = Output { kept: Some("Main_7_r1.mp4".to_owned()), ..output("Main") };
    let read = |name: &str| fs::read_to_string(stage.in_day(name)).unwrap();
    let content = stage.copy(&file, &output).await.unwrap();
    fs::write(stage.in_day("Main_7.mp4"), "wrong").unwrap();

    stage.publish(&output, &content).await.unwrap();

    assert_eq!((read("Main_7.mp4"), read("Main_7_r1.mp4")), ("corrected".to_owned(), "wrong".to_owned()));
    // Published already, by a worker that was killed.
    stage.publish(&output, &content).await.unwrap();
    // Both names are taken.
    stage.copy(&file, &output).await.unwrap();
    fs::write(stage.in_day("Main_7.mp4"), "other").unwrap();
    assert_eq!(stage.publish(&output, &content).await, Err(Failure::OutputConflict));
    assert_eq!((read("Main_7.mp4"), read("Main_7_r1.mp4")), ("other".to_owned(), "wrong".to_owned()));
}

#[tokio::test]
async fn names_may_be_as_long_as_the_rules_make_them_and_no_longer() {
    let stage = Stage::new();
    let file = stage.leave("rq-7-2.mp4", "abc");
    let long = output(&"한".repeat(300));
    let too_long = Output { name: format!("{}.mp4", "한".repeat(86)), ..output("Main") };
    let traversing = Output { folder: "../outside".into(), ..output("Main") };

    let content = stage.copy(&file, &long).await.unwrap();
    let published = stage.publish(&long, &content).await;
    stage.copy(&file, &too_long).await.unwrap();
    let refused = stage.publish(&too_long, &content).await;

    assert!(published.is_ok(), "{published:?}");
    assert_eq!(refused, Err(Failure::NasRefused));
    assert_eq!(stage.copy(&file, &traversing).await, Err(Failure::Refused));
    assert!(!stage.root.path().join("outside").exists());
}

#[tokio::test]
async fn an_empty_folder_in_the_place_of_the_nas_is_seen() {
    let at = Stage::with(|options| options.output.mount = Mount::At(options.output.folder.clone()));
    let sentinel = Stage::with(|options| options.output.mount = Mount::Sentinel(".tidemill-nas".into()));
    let gone = Stage::with(|options| options.output.folder = options.output.folder.join("gone").unwrap());
    let no_staging = Stage::with(|options| options.staging.mount = Mount::At(options.staging.folder.clone()));

    for stage in [&at, &sentinel, &gone, &no_staging] {
        let file = stage.leave("rq-7-2.mp4", "abc");
        assert_eq!(stage.copy(&file, &output("Main")).await, Err(Failure::NasNotMounted));
        assert_eq!(stage.storage.check().await.unwrap_err().failure, Failure::NasNotMounted);
        assert!(names(&stage.nas("")).is_empty(), "something was written to the disk of this host");
    }
    fs::write(sentinel.nas(".tidemill-nas"), "").unwrap();
    assert_eq!(sentinel.storage.check().await, Ok(()));
    assert_eq!(names(&sentinel.nas("")), [".tidemill-nas"]);
}

/// Somebody who goes on writing to a file for as long as the value lives.
struct Writer {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    fn start(file: &Path) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (until, mut growing) = (is_over.clone(), File::options().append(true).open(file).unwrap());
        let thread = thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                growing.write_all(b"d").unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[tokio::test]
async fn a_file_that_is_written_to_while_it_is_copied_is_not_taken() {
    let stage = Stage::new();
    let (file, output) = (stage.leave("rq-7-2.mp4", &"x".repeat(4 << 20)), output("Main"));
    let _writer = Writer::start(&file);

    let copied = stage.copy(&file, &output).await;

    assert_eq!(copied, Err(Failure::OutputInvalid));
    assert!(names(&stage.nas("2026-11-15")).is_empty(), "a part was left over");
}

#[tokio::test]
async fn a_file_counts_when_it_no_longer_grows() {
    let stage = Stage::new();
    let file = stage.leave("rq-7-2.mp4", "abc");
    let quiet = Duration::from_secs(3);

    let stable = stage.storage.settled(&local(&file), Duration::from_millis(20)).await;
    let writer = Writer::start(&file);
    let unstable = stage.storage.settled(&local(&file), quiet).await;
    drop(writer);

    let bytes = stable.map(|seen| seen.map(|seen| seen.bytes));
    assert_eq!((bytes, unstable), (Ok(Some(3)), Ok(None)));
    assert_eq!(stage.storage.settled(&local(&stage.staging("gone.mp4")), quiet).await, Ok(None));
}

#[tokio::test]
async fn only_files_of_ours_that_nodes_have_left_long_ago_are_told() {
    let stage = Stage::new();
    for (name, age) in
        [("rq-1-1.mp4", 90_000), ("rq-2-1.mp4", 0), ("other.mp4", 90_000), ("rq-1.mp4", 90_000)]
    {
        let file = File::create(stage.staging(name)).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - Duration::from_secs(age)).unwrap();
    }
    fs::create_dir(stage.staging("rq-3-1.mp4")).unwrap();

    let left = stage.storage.left(Duration::from_secs(86_400)).await;

    let old = Uid::new(RenderId::new(1), Epoch::new(1));
    assert_eq!(left, Ok(vec![(old, local(&stage.staging("rq-1-1.mp4")))]));
}

#[tokio::test]
async fn only_parts_of_ours_that_are_old_are_swept() {
    let stage = Stage::new();
    let day = stage.nas("2026-11-15");
    let other = stage.nas("archive");
    for folder in [&day, &other] {
        fs::create_dir(folder).unwrap();
    }
    let make = |folder: &Path, name: &str, is_old: bool| {
        let file = File::create(folder.join(name)).unwrap();
        if is_old {
            file.set_modified(file.metadata().unwrap().modified().unwrap() - Duration::from_secs(90_000))
                .unwrap();
        }
    };
    make(&day, ".Main_1.mp4.rq-1-1.part", true);
    make(&stage.nas(""), ".check.rq-0-5.part", true);
    for (folder, name, is_old) in [
        (&day, ".Main_2.mp4.rq-2-1.part", false),
        (&day, "Main_1.mp4", true),
        (&day, ".Main_1.mp4.part", true),
        (&other, ".Main_1.mp4.rq-1-1.part", true),
    ] {
        make(folder, name, is_old);
    }

    let swept = stage.storage.sweep(Duration::from_secs(86_400)).await;

    assert_eq!(swept, Ok(2));
    assert_eq!(names(&day), [".Main_1.mp4.part", ".Main_2.mp4.rq-2-1.part", "Main_1.mp4"]);
    assert_eq!(names(&other), [".Main_1.mp4.rq-1-1.part"]);
    assert_eq!(names(&stage.nas("")), ["2026-11-15", "archive"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_publish_at_once_one_wins_and_no_file_is_half() {
    for round in 0..20 {
        let stage = Stage::new();
        let (one, two) =
            (output("Main"), Output { part: ".Main_7.mp4.rq-7-3.part".into(), ..output("Main") });
        let (first, second) = (stage.leave("rq-7-2.mp4", "first"), stage.leave("rq-7-3.mp4", "second"));
        let (first, second) =
            (stage.copy(&first, &one).await.unwrap(), stage.copy(&second, &two).await.unwrap());

        let (first, second) = tokio::join!(stage.publish(&one, &first), stage.publish(&two, &second));

        let text = fs::read_to_string(stage.in_day("Main_7.mp4")).unwrap();
        let winner = if first.is_ok() { "first" } else { "second" };
        assert_eq!(text, winner, "{round}");
        assert_eq!([first, second].iter().filter(|end| **end == Err(Failure::OutputConflict)).count(), 1);
    }
}
