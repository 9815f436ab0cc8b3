//! The NAS is gone, full or read-only while a render is on its way: nothing is written elsewhere, nothing is rendered again,
//! and the file is published by itself once there is room.
//!
//! The disk is a small one of its own, mounted where only the worker sees it.

use super::crew::Worker;
use super::inventory::Look;
use super::site::{Farm, Site, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tidemill_testkit::skip;

/// Larger than what has to be free after a film was copied.
const DISK: &str =
    "mount -t tmpfs -o size=20m none \"$TIDEMILL_RENDER_MOUNT\" && mkdir \"$TIDEMILL_RENDER_MOUNT/output\"";

/// A site whose files are published on a disk that can be taken away.
struct Docked {
    site: Site,
    worker: Worker,
    /// Where the disk is mounted, and where nodes leave their files.
    folder: TempDir,
    id: i64,
}

impl Docked {
    /// With one render that waits at the gate; none where nobody may mount.
    async fn new(gate: &str) -> Option<Self> {
        skip::require("mount", can_mount())?;
        let site = Site::new(Farm::shared()?).await?;
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("", 0o755), ("disk", 0o755), ("staging", 0o777)] {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let site = site
            .with("TIDEMILL_RENDER_MOUNT", text(&folder.path().join("disk")))
            .with("TIDEMILL_RENDER_MOUNT_CHECK", "true")
            .with("TIDEMILL_RENDER_STAGING_FOLDER", text(&folder.path().join("staging")));
        let id = site.order(&format!("gate={gate}")).await;
        let stage = site.stage().with("WORKER_ID", "docked");
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", &format!("{DISK} && exec \"$0\" \"$@\""), crate::BINARY]);
        let worker = Worker::start_as(stage, "docked", command);
        site.until_rendered(id, 1).await;
        Some(Self { site, worker, folder, id })
    }

    /// Does something where the disk is seen.
    fn inside(&self, script: &str) {
        let pid = self.worker.pid().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--preserve-credentials", "-U", "-m", "-t", &pid, "sh", "-ec", script]);
        let ran = command.env("TIDEMILL_RENDER_MOUNT", self.disk()).output().unwrap();
        assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// It ends well. The disk is copied out of where it is seen, so that everything else is checked as always.
    async fn completed(self) {
        let (id, site) = (self.id, &self.site);
        site.until(id, "completed", |state| state.status == "completed").await;
        site.until_left(&[]).await;
        let copy = self.folder.path().join("copy");
        fs::create_dir(&copy).unwrap();
        self.inside(&format!("cp -a \"$TIDEMILL_RENDER_MOUNT/output/.\" {}", text(&copy)));
        let inventory = site
            .ended_at(&[id], Look { shown: &self.disk().join("output"), found: &copy, retried: None })
            .await;
        assert_eq!(site.renders(id), [format!("rq-{id}-1")], "{inventory:#?}");
        assert_eq!(
            fs::read_dir(self.disk()).unwrap().count(),
            0,
            "something was written to the disk of this host"
        );
        assert_eq!(fs::read_dir(self.folder.path().join("staging")).unwrap().count(), 0);
        self.worker.end();
    }
}

fn can_mount() -> Option<()> {
    let tried =
        Command::new("unshare").args(["-r", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output().ok()?;
    tried.status.success().then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nas_that_is_unmounted_is_waited_for() {
    let Some(docked) = Docked::new("unmounted").await else { return };

    docked.inside("umount \"$TIDEMILL_RENDER_MOUNT\"");
    docked.site.farm.open_gate("unmounted");
    docked.worker.until_logged("TM1537").await;
    let waiting = docked.site.until(docked.id, "given back", |state| state.status == "pending").await;
    docked.inside(DISK);

    assert_eq!((waiting.attempts, waiting.error_code.as_deref()), (0, Some("TM1537")), "{waiting:?}");
    docked.completed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nas_that_is_full_is_waited_for_without_another_render() {
    let Some(docked) = Docked::new("full").await else { return };

    docked.inside("head -c 10000000 /dev/zero > \"$TIDEMILL_RENDER_MOUNT/others\"");
    docked.site.farm.open_gate("full");
    let waiting = docked.site.until(docked.id, "put off", |state| state.error_code.is_some()).await;
    docked.inside("rm \"$TIDEMILL_RENDER_MOUNT/others\"");

    assert_eq!(
        (waiting.status.as_str(), waiting.error_code.as_deref()),
        ("pending", Some("TM1554")),
        "{waiting:?}"
    );
    docked.completed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nas_that_is_read_only_is_waited_for_without_another_render() {
    let Some(docked) = Docked::new("read-only").await else { return };

    docked.inside("mount -o remount,ro \"$TIDEMILL_RENDER_MOUNT\"");
    docked.site.farm.open_gate("read-only");
    docked.worker.until_logged("claims no more renders").await;
    let waiting = docked.site.until(docked.id, "given back", |state| state.status == "pending").await;
    docked.inside("mount -o remount,rw \"$TIDEMILL_RENDER_MOUNT\"");

    assert_eq!((waiting.attempts, waiting.error_code.as_deref()), (0, Some("TM1554")), "{waiting:?}");
    docked.completed().await;
}
