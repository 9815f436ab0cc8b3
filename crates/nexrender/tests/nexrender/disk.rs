//! Publishing on a disk that is full, read-only or gone: a small one, mounted where only the test sees it.
//!
//! A mount belongs to a process, so each of these tests runs itself once more in a namespace of its own.

use crate::clip::local;
use crate::storage::{output, storage};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};
use tidemill_domain::render::Failure;
use tidemill_engine::render::Storage;
use tidemill_nexrender::{Mount, NasStorage};
use tidemill_testkit::skip;

/// Where the disk is, in the process that sees it.
const DISK: &str = "TIDEMILL_TEST_DISK";

/// The disk, in the process that sees it; none in the one that has started that, and where nobody may mount.
fn disk(test: &str, options: &str) -> Option<PathBuf> {
    if let Some(disk) = env::var_os(DISK) {
        return Some(disk.into());
    }
    skip::require("mount", can_mount())?;
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o {options} none \"${DISK}\" && exec \"$0\" --exact disk::{test}");
    let mut command = Command::new("unshare");
    command.args(["-r", "-m", "sh", "-c", &script]).arg(env::current_exe().unwrap());
    let ran = command.env(DISK, folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    None
}

fn can_mount() -> Option<()> {
    let tried =
        Command::new("unshare").args(["-r", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output().ok()?;
    tried.status.success().then_some(())
}

fn run(program: &str, arguments: &[&str], disk: &Path) {
    assert!(Command::new(program).args(arguments).arg(disk).status().unwrap().success());
}

/// A shelf on the disk, with a file of a node beside it.
fn mounted(disk: &Path, bytes: usize) -> (NasStorage, tempfile::TempDir, PathBuf) {
    let staging = tempfile::tempdir().unwrap();
    let file = staging.path().join("rq-7-2.mp4");
    fs::write(&file, vec![7; bytes]).unwrap();
    let storage = storage(staging.path(), disk, |options| options.output.mount = Mount::At(local(disk)));
    (storage, staging, file)
}

#[tokio::test]
async fn a_full_nas_may_have_room_later() {
    let Some(disk) = disk("a_full_nas_may_have_room_later", "size=1m,nr_inodes=4") else { return };
    let (storage, _staging, large) = mounted(&disk, 2 << 20);
    let (other, _staging, small) = mounted(&disk, 1_000);

    let too_large = storage.copy(&local(&large), &output("Main")).await.unwrap_err();
    // The disk and the folder of the day are two of four, and no number of bytes says that there are no more.
    let others = [disk.join("third"), disk.join("fourth")];
    others.iter().for_each(|other| fs::write(other, "x").unwrap());
    let no_inode = other.copy(&local(&small), &output("Main")).await.unwrap_err();
    others.iter().for_each(|other| fs::remove_file(other).unwrap());
    let content = other.copy(&local(&small), &output("Main")).await.unwrap();
    let published = other.publish(&output("Main"), &content).await;
    // There is room for one byte, but not for what waits.
    let (checked, of_other) = (storage.check().await, other.check().await);

    assert_eq!((too_large.failure, no_inode.failure), (Failure::NasUnwritable, Failure::NasUnwritable));
    assert_eq!(checked.map_err(|trouble| trouble.failure), Err(Failure::NasUnwritable));
    assert_eq!(of_other, Ok(()));
    assert!(too_large.message.contains("bytes free"), "{}", too_large.message);
    assert!(no_inode.message.contains("No space left on device"), "{}", no_inode.message);
    assert!(published.is_ok(), "{published:?}");
}

#[tokio::test]
async fn a_nas_that_is_read_only_takes_nothing() {
    let Some(disk) = disk("a_nas_that_is_read_only_takes_nothing", "size=1m") else { return };
    let (storage, _staging, file) = mounted(&disk, 1_000);
    assert_eq!(storage.check().await, Ok(()));
    let content = storage.copy(&local(&file), &output("Main")).await.unwrap();

    run("mount", &["-o", "remount,ro"], &disk);
    let (checked, copied) = (storage.check().await, storage.copy(&local(&file), &output("Main")).await);
    let published = storage.publish(&output("Main"), &content).await;

    assert_eq!(checked.unwrap_err().failure, Failure::NasUnwritable);
    assert_eq!(copied.unwrap_err().failure, Failure::NasUnwritable);
    assert_eq!(published.unwrap_err().failure, Failure::NasUnwritable);
}

/// A shelf whose nodes write to the disk, and that publishes elsewhere.
fn staged_on(disk: &Path) -> (NasStorage, tempfile::TempDir) {
    let nas = tempfile::tempdir().unwrap();
    let storage = storage(disk, nas.path(), |options| {
        options.staging.mount = Mount::At(local(disk));
        options.free_bytes_min = 64 << 10;
    });
    (storage, nas)
}

#[tokio::test]
async fn a_volume_of_nodes_that_is_full_is_noticed() {
    let Some(disk) = disk("a_volume_of_nodes_that_is_full_is_noticed", "size=1m") else { return };
    let (storage, _nas) = staged_on(&disk);
    let films = disk.join("films");

    // There is room for a byte, but not for a film.
    fs::write(&films, vec![7; 1_000 << 10]).unwrap();
    let full = storage.check().await.unwrap_err();
    fs::remove_file(films).unwrap();

    assert_eq!(full.failure, Failure::NasUnwritable);
    assert!(full.message.contains(&disk.display().to_string()), "{}", full.message);
    assert_eq!(storage.check().await, Ok(()));
}

#[tokio::test]
async fn a_volume_of_nodes_that_is_read_only_is_noticed_and_parts_of_checks_are_swept_there() {
    let test = "a_volume_of_nodes_that_is_read_only_is_noticed_and_parts_of_checks_are_swept_there";
    let Some(disk) = disk(test, "size=1m") else { return };
    let (storage, _nas) = staged_on(&disk);
    assert_eq!(storage.check().await, Ok(()));
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "the check leaves nothing behind");
    fs::write(disk.join(".check.rq-0-5.part"), "x").unwrap();
    assert_eq!(storage.sweep(Duration::ZERO).await, Ok(1));

    run("mount", &["-o", "remount,ro"], &disk);

    assert_eq!(storage.check().await.unwrap_err().failure, Failure::NasUnwritable);
}

#[tokio::test]
async fn a_nas_that_went_away_is_missed() {
    let Some(disk) = disk("a_nas_that_went_away_is_missed", "size=1m") else { return };
    let (storage, _staging, file) = mounted(&disk, 1_000);
    let content = storage.copy(&local(&file), &output("Main")).await.unwrap();

    run("umount", &[], &disk);
    let published = storage.publish(&output("Main"), &content).await;

    assert_eq!(published.unwrap_err().failure, Failure::NasNotMounted);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "something was written to the disk of this host");
}
