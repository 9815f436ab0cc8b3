//! The NAS fills up while nodes render: the disk is a small one, and nodes really write to it.
//!
//! A mount belongs to a process, so the test runs itself once more in a namespace of its own, with all that it starts.

use super::site::{Farm, Site, eventually, text};
use crate::Stage;
use crate::pool::json_of;
use crate::serve::Served;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::account::is_root;
use tidemill_testkit::skip;

/// Where the disk is, in the process that sees it.
const DISK: &str = "TIDEMILL_TEST_DISK";

/// Larger than what has to be free after a film was copied.
const BYTES: usize = 20 << 20;

/// With this on the disk, there is room for the films of nodes, but too little is free.
const MOST_OF_IT: usize = BYTES - (2 << 20);

/// The disk, in the process that sees it; none in the one that has started that, and where nobody may mount.
fn disk(test: &str) -> Option<PathBuf> {
    if let Some(disk) = env::var_os(DISK) {
        return Some(disk.into());
    }
    skip::require("mount", can_mount())?;
    let folder = tempfile::tempdir().unwrap();
    // Nodes run under another account when we are root.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test = format!("render_farm::full::{test}");
    let mut command =
        mounting(&format!("mount -t tmpfs -o size={BYTES},mode=777 none \"${DISK}\" && exec \"$@\""));
    if !is_root() {
        // Whoever may mount is root there, and servers would ask for another account.
        command.args(["unshare", "--map-user", &id("-u"), "--map-group", &id("-g")]);
    }
    command.arg(env::current_exe().unwrap()).args(["--exact", &test]).env(DISK, folder.path());
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    None
}

/// A shell that may mount where nobody else sees it. Its arguments follow.
fn mounting(script: &str) -> Command {
    let mut command = Command::new("unshare");
    // As root without more, so that the accounts of servers are what they are elsewhere.
    let whose: &[&str] = if is_root() { &["-m"] } else { &["-r", "-m"] };
    command.args(whose).args(["sh", "-c", script, "sh"]);
    command
}

fn can_mount() -> Option<()> {
    let tried = mounting("mount -t tmpfs none /mnt").output().ok()?;
    tried.status.success().then_some(())
}

fn id(which: &str) -> String {
    let ran = Command::new("id").arg(which).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// A site whose NAS is the disk.
async fn on(disk: &Path) -> Option<Site> {
    for (name, mode) in [("output", 0o755), (".staging", 0o777)] {
        fs::create_dir(disk.join(name)).unwrap();
        fs::set_permissions(disk.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut site = Site::new(Farm::own(2)?).await?;
    site.nas = disk.to_owned();
    Some(site.with("TIDEMILL_RENDER_MOUNT", text(disk)).with("TIDEMILL_RENDER_MOUNT_CHECK", "true"))
}

/// Waits until the alert of what needs a person fires.
async fn until_alarmed(stage: &Stage) {
    let mut alerts = serde_json::Value::Null;
    let fires = eventually(async || {
        alerts = json_of(&stage.run(&["alert", "list", "-o", "json"]));
        let mut all = alerts["items"].as_array().unwrap().iter();
        all.any(|alert| alert["rule"] == "render_needs_somebody" && alert["state"] == "firing").then_some(())
    });
    let fires = fires.await;
    assert!(fires.is_some(), "{alerts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nas_that_is_full_for_nodes_costs_one_more_render_and_keeps_what_is_rendered() {
    let Some(disk) = disk("a_nas_that_is_full_for_nodes_costs_one_more_render_and_keeps_what_is_rendered")
    else {
        return;
    };
    let Some(site) = on(&disk).await else { return };
    // It evaluates alerts, and renders nothing.
    let served_stage = site.stage().with("NEXRENDER_API_URL", "");
    let _served = Served::start(&served_stage, &[]);
    let (kept, unwritten) = (site.order("gate=kept").await, site.order("gate=unwritten").await);
    let worker = site.worker("one");
    for id in [kept, unwritten] {
        site.until_rendered(id, 1).await;
    }

    // One node has room for its film, and the worker has none to publish it.
    fs::write(disk.join("others"), vec![0; MOST_OF_IT]).unwrap();
    site.farm.open_gate("kept");
    let waiting = site.until(kept, "put off", |state| state.error_code.is_some()).await;
    assert_eq!(
        (waiting.status.as_str(), waiting.phase.as_str(), waiting.attempts, waiting.error_code.as_deref()),
        ("pending", "copying", 0, Some("TM1554")),
        "{waiting:?}"
    );
    // The other node has no room at all.
    let more = fs::write(disk.join("more"), vec![0; BYTES]);
    assert_eq!(more.unwrap_err().kind(), ErrorKind::StorageFull);
    site.farm.open_gate("unwritten");
    let failed = site.until(unwritten, "put off", |state| state.error_code.is_some()).await;
    assert_eq!(
        (failed.status.as_str(), failed.error_code.as_deref()),
        ("pending", Some("TM1554")),
        "{failed:?}"
    );
    assert!(failed.error_message.as_ref().unwrap().contains("ENOSPC"), "the node says so: {failed:?}");
    worker.until_logged("claims no more renders").await;
    let third = site.order("").await;
    until_alarmed(&served_stage).await;
    let unclaimed = site.state(third).await;
    assert_eq!((unclaimed.status.as_str(), unclaimed.epoch), ("pending", 0), "{unclaimed:?}");

    for file in ["others", "more"] {
        fs::remove_file(disk.join(file)).unwrap();
    }
    let inventory = site.ended(&[kept, unwritten, third]).await;

    assert_eq!(inventory.statuses(), ["completed"; 3], "{}", worker.log());
    for (id, jobs) in [(kept, 1), (unwritten, 2), (third, 1)] {
        assert_eq!((site.posted(id).len(), site.renders(id).len()), (jobs, jobs), "{inventory:#?}");
    }
    assert!(worker.log().contains("claims renders again"), "{}", worker.log());
    worker.end();
}
