//! Files in a real S3 server: whole or not at all, and never over another one.

use crate::clip::local;
use crate::storage::{output, storage};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tidemill_domain::render::{Failure, Trouble};
use tidemill_engine::item::storage as objects;
use tidemill_engine::render::Storage;
use tidemill_engine::render::storage::Content;
use tidemill_nexrender::NasStorage;
use tidemill_objects::Objects;
use tidemill_testkit::moto::{BUCKET, PYTHON, PrivateMoto};
use tidemill_testkit::skip;

const KEY: &str = "main/2026-11-15/Main_7.mp4";

/// A store and a NAS with one copied file. The store is that of the process, so there is one for each test.
struct Archive {
    moto: PrivateMoto,
    root: TempDir,
    storage: NasStorage,
    content: Content,
}

impl Archive {
    async fn with(bytes: &[u8]) -> Option<Self> {
        let python = skip::require("moto", std::env::var_os(PYTHON))?;
        let (moto, root) = (PrivateMoto::start(&python).unwrap(), tempfile::tempdir().unwrap());
        let options = moto.variables().map(|(name, value)| (name.to_ascii_lowercase(), value));
        assert!(!objects::is_installed(), "each test has a process of its own");
        objects::install(Objects::with(options, root.path().join("spool")));
        for name in ["staging", "nas"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let storage = storage(&root.path().join("staging"), &root.path().join("nas"), |_| ());
        let file = root.path().join("staging/rq-7-2.mp4");
        fs::write(&file, bytes).unwrap();
        let content = storage.copy(&local(&file), &output("Main")).await.unwrap();
        Some(Self { moto, root, storage, content })
    }

    fn url() -> String {
        format!("s3://{BUCKET}/{KEY}")
    }

    async fn upload(&self) -> Result<(), Trouble> {
        self.upload_while(|| true).await
    }

    async fn upload_while(
        &self,
        may_go_on: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<(), Trouble> {
        self.storage.upload(&output("Main"), &Self::url(), &self.content, Arc::new(may_go_on)).await
    }

    /// Nothing is there, not even parts of it.
    fn is_empty(&self) -> bool {
        self.moto.keys().unwrap().is_empty() && self.moto.uploads().unwrap().is_empty()
    }

    fn part(&self) -> PathBuf {
        self.root.path().join("nas/2026-11-15/.Main_7.mp4.rq-7-2.part")
    }

    async fn becomes_an_object(&self, bytes: &[u8]) {
        self.upload().await.unwrap();
        let found = self.storage.object(&Self::url()).await.unwrap();
        // Without the part, so it is not sent once more.
        fs::remove_file(self.part()).unwrap();
        self.upload().await.unwrap();

        assert!(self.moto.get(KEY).unwrap().is_some_and(|there| there == bytes));
        assert_eq!(found.as_ref(), Some(&self.content));
        self.storage.discard_object(&Self::url()).await.unwrap();
        self.storage.discard_object(&Self::url()).await.unwrap();
        assert_eq!(self.storage.object(&Self::url()).await.unwrap(), None);
    }
}

/// Sent in several parts.
fn large() -> Vec<u8> {
    (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect()
}

#[tokio::test]
async fn a_small_file_is_uploaded_once_and_found_again() {
    let Some(archive) = Archive::with(b"small").await else { return };
    archive.becomes_an_object(b"small").await;
}

#[tokio::test]
async fn a_large_file_is_uploaded_once_and_found_again() {
    let Some(archive) = Archive::with(&large()).await else { return };
    archive.becomes_an_object(&large()).await;
}

#[tokio::test]
async fn a_part_that_is_not_what_was_copied_becomes_no_object() {
    let Some(archive) = Archive::with(&large()).await else { return };
    let mut wrong = large();
    *wrong.last_mut().unwrap() ^= 1;

    for part in [wrong, b"short".to_vec()] {
        fs::write(archive.part(), part).unwrap();
        let refused = archive.upload().await.unwrap_err();

        assert_eq!(refused.failure, Failure::NasFailed, "{}", refused.message);
        assert!(refused.message.contains("is not what was copied"), "{}", refused.message);
        assert!(archive.is_empty());
    }
    fs::remove_file(archive.part()).unwrap();
    assert_eq!(archive.upload().await.unwrap_err().failure, Failure::NasFailed);
}

#[tokio::test]
async fn whoever_loses_the_render_in_the_middle_completes_no_upload() {
    let Some(archive) = Archive::with(&large()).await else { return };
    let reads = AtomicUsize::new(0);

    // All but the end is read.
    let refused = archive.upload_while(move || reads.fetch_add(1, Ordering::SeqCst) < 3).await.unwrap_err();

    assert!(refused.message.contains("may belong to another worker"), "{}", refused.message);
    assert!(archive.is_empty());
    archive.upload().await.unwrap();
    assert!(archive.moto.get(KEY).unwrap().is_some());
}

#[tokio::test]
async fn another_object_of_this_name_stays_as_it_is() {
    let Some(archive) = Archive::with(b"ours").await else { return };
    archive.moto.put(KEY, b"theirs").unwrap();

    let refused = archive.upload().await.unwrap_err();

    assert_eq!(refused.failure, Failure::OutputConflict);
    assert!(refused.message.contains("has 6 bytes (of another program)"), "{}", refused.message);
    assert_eq!(archive.moto.get(KEY).unwrap().as_deref(), Some(&b"theirs"[..]));
}

#[tokio::test]
async fn a_missing_bucket_is_a_store_that_is_down() {
    let Some(archive) = Archive::with(b"ours").await else { return };

    for url in ["s3://missing/Main_7.mp4", "s3://missing/a/Main_7.mp4"] {
        let down = archive.storage.object(url).await.unwrap_err();
        assert_eq!(down.failure, Failure::TargetDown);
        assert!(down.message.contains("there is no bucket s3://missing"), "{}", down.message);
    }
}

#[tokio::test]
async fn a_program_without_object_stores_says_so() {
    let root = tempfile::tempdir().unwrap();
    let storage = storage(root.path(), root.path(), |_| ());

    let down = storage.object("s3://films/a.mp4").await.unwrap_err();

    assert_eq!(down.failure, Failure::TargetDown);
    assert!(down.message.contains("built without object stores"), "{}", down.message);
}
