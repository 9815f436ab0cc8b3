//! Ready-made readers and processors. Writers are tested inside the crate, where a chunk can be made for
//! them.

mod compose;
mod csv;
mod excel;
mod fixed_width;
mod items;
mod json_array;
mod json_lines;
mod many_files;
mod refusal;
mod xml;

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;
use tempfile::TempDir;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::job::component::ItemReader;

/// A folder for the files of one test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn pattern(&self, pattern: &str) -> String {
        self.path(pattern).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// As the program `zstd` packs, in several frames.
fn zstd(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let frames = bytes.as_ref().chunks(100).map(|part| zstd::encode_all(part, 1).unwrap());
    frames.collect::<Vec<_>>().concat()
}

fn euc_kr(text: &str) -> Vec<u8> {
    let (bytes, _, has_replaced) = encoding_rs::EUC_KR.encode(text);
    assert!(!has_replaced);
    bytes.into_owned()
}

/// What reading gave: items, and the texts of errors with their places.
type Seen<T> = Vec<Result<T, String>>;

/// Opens a reader after a run that saved this.
async fn open<R: ItemReader>(mut reader: R, saved: &ExecutionContext) -> Result<R, ItemError> {
    reader.open(saved).await?;
    Ok(reader)
}

/// Reads up to `calls` times, or to the end.
async fn read<R: ItemReader>(reader: &mut R, calls: usize) -> Seen<R::Item> {
    let mut seen = Vec::new();
    for _ in 0..calls {
        match reader.read().await {
            Ok(Some(item)) => seen.push(Ok(item)),
            Ok(None) => break,
            Err(error) => {
                assert_ne!(error.kind_in(Phase::Read), ErrorKind::FATAL, "{error}");
                seen.push(Err(error.text()));
            }
        }
    }
    seen
}

/// All that a fresh reader gives.
async fn all<R: ItemReader>(reader: R) -> Seen<R::Item> {
    read(&mut open(reader, &ExecutionContext::new()).await.unwrap(), usize::MAX).await
}

/// What a reader saves, as it comes back from the database.
fn saved<R: ItemReader>(reader: &mut R) -> ExecutionContext {
    let mut context = ExecutionContext::new();
    reader.update(&mut context).unwrap();
    ExecutionContext::from_text(&context.to_text().unwrap()).unwrap()
}

/// Stops after this many reads, and reads the rest with a new reader.
async fn with_restart_after<R: ItemReader>(make: &impl Fn() -> R, calls: usize) -> Seen<R::Item> {
    let mut first = open(make(), &ExecutionContext::new()).await.unwrap();
    let mut seen = read(&mut first, calls).await;
    let context = saved(&mut first);
    first.close(false).await.unwrap();
    let mut second = open(make(), &context).await.unwrap();
    seen.extend(read(&mut second, usize::MAX).await);
    seen
}

/// Checks that a restart at any position changes nothing in what is read. Gives what is read.
async fn check_every_restart<R>(make: impl Fn() -> R) -> Seen<R::Item>
where
    R: ItemReader,
    R::Item: PartialEq + Debug,
{
    let whole = all(make()).await;
    for calls in 0..=whole.len() + 2 {
        assert_eq!(with_restart_after(&make, calls).await, whole, "stopped after {calls} reads");
    }
    whole
}

/// The error of a step that cannot go on.
fn fatal<T>(result: Result<T, ItemError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => {
            assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL, "{error}");
            error.text()
        }
    }
}
