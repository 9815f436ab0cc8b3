//! A worker that was frozen for longer than its lease comes back: somebody else has ended its render, and nothing changes
//! any more, in no row and in no file.

use super::crew::Worker;
use super::inventory::files;
use super::site::{COMPOSITION, Farm, Site, State};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tidemill_testkit::PrivateNexrender;

/// Where workers are frozen with the file of a node, once each.
const LATE: [&str; 4] =
    ["render_before_validation", "render_copied", "render_before_publishing", "render_published"];

const LEASE: (&str, &str) = ("TIDEMILL_RENDER_LEASE", "20s");

/// Only the fence of its render stops it: it would give itself up as a process, otherwise.
const PROCESS: (&str, &str) = ("TIDEMILL_PROCESS_LEASE", "10m");

/// All rows, and all files with what would tell that one was written anew.
async fn world(site: &Site, ids: &[i64]) -> (Vec<State>, BTreeMap<PathBuf, (u64, u64, i64)>) {
    let mut states = Vec::new();
    for id in ids {
        states.push(site.state(*id).await);
    }
    let of = |path: PathBuf| {
        let found = fs::metadata(&path).unwrap();
        (path, (found.ino(), found.len(), found.mtime_nsec()))
    };
    (states, files(&site.nas.join("output")).into_iter().map(of).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_back_after_its_lease_changes_nothing() {
    let Some(farm) = Farm::own(2) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with(LEASE.0, LEASE.1).with(PROCESS.0, PROCESS.1);
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(site.order("gate=all").await);
    }
    let ghost = |point: &str| {
        site.worker_with(point, &[("TIDEMILL_RENDER_CAPACITY", "1"), ("TIDEMILL_FREEZE_AT", point)])
    };
    // Nobody has room for a second one as long as the gate is closed. The one that is frozen first comes last, so that its
    // render is nobody's but the heir's.
    let mut ghosts: Vec<Worker> = LATE.into_iter().map(ghost).collect();
    let mut by_hand = ghost("nowhere");
    site.until_busy(5).await;
    ghosts.push(ghost("render_posted"));
    site.until_busy(6).await;
    by_hand.freeze();
    ghosts.push(by_hand);
    site.farm.open_gate("all");
    for ghost in &ghosts {
        ghost.until_frozen().await;
    }

    let heir = site.worker("heir");
    let inventory = site.ended(&ids).await;
    let before = world(&site, &ids).await;
    for ghost in &mut ghosts {
        ghost.thaw();
    }
    for ghost in &ghosts {
        ghost.until_logged("is no longer ours").await;
    }
    for ghost in ghosts {
        ghost.end();
    }

    assert_eq!(inventory.statuses(), ["completed"; 6], "{inventory:#?}");
    for outcomes in inventory.outcomes.values() {
        // One whose ghost was frozen early may have had another ghost since.
        let (last, before) = outcomes.split_last().unwrap();
        assert!(
            last == "completed" && !before.is_empty() && before.iter().all(|one| one == "lost"),
            "{inventory:#?}"
        );
    }
    for id in &ids {
        assert_eq!((site.posted(*id).len(), site.renders(*id).len()), (1, 1), "{inventory:#?}");
    }
    assert_eq!(world(&site, &ids).await, before);
    site.ended(&ids).await;
    heir.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_back_when_the_render_has_failed_publishes_nothing() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with(LEASE.0, LEASE.1).with(PROCESS.0, PROCESS.1);
    let id = site.order("").await;
    site.execute(&format!("update render_queue set broadcast_date = '2026-11-16' where id = {id}")).await;
    let mut ghost = site.worker_with("ghost", &[("TIDEMILL_FREEZE_AT", "render_before_publishing")]);
    ghost.until_frozen().await;
    // Somebody else's file has the final name, until the render has failed.
    let theirs = site.nas.join(format!("output/2026-11-16/{COMPOSITION}_{id}.mp4"));
    fs::write(&theirs, "theirs").unwrap();
    let heir = site.worker("heir");
    let failed = site.until(id, "failed", |state| state.status == "failed").await;
    fs::remove_file(&theirs).unwrap();
    site.until_left(&[]).await;

    ghost.thaw();
    ghost.until_logged("is no longer ours").await;
    ghost.end();

    assert_eq!(failed.error_code.as_deref(), Some("TM1538"), "{failed:?}");
    assert!(!theirs.exists(), "a render that has failed has a file");
    assert_eq!(site.state(id).await, failed);
    heir.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_back_does_not_give_back_the_licence_of_the_next_one() {
    let Some(farm) = Farm::own(2) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site =
        site.with(LEASE.0, LEASE.1).with(PROCESS.0, PROCESS.1).with("TIDEMILL_RENDER_POOL", "after-effects");
    let stage = site.stage();
    stage.run(&["pool", "create", "after-effects", "--max", "1", "--threshold", "100"]).succeeds();
    let first = site.order("gate=licence").await;
    let mut ghost = site.worker("ghost");
    site.until_rendered(first, 1).await;
    ghost.freeze();
    let heir = site.worker("heir");
    let adopted = |state: &State| state.epoch == 2 && state.phase == "rendering";
    site.until(first, "adopted", adopted).await;
    let second = site.order("").await;

    ghost.thaw();
    ghost.until_logged("is no longer ours").await;
    // Both workers are awake, and one of them would have the only licence for the second render if it were free.
    site.until(second, "waiting for a licence", |state| state.epoch > 0).await;
    let status = stage.run(&["pool", "holders", "after-effects", "-o", "json"]);
    assert!(status.succeeds().stdout.contains(&format!("rq-{first}-2")), "{status:#?}");
    site.farm.open_gate("licence");
    let inventory = site.ended(&[first, second]).await;

    assert_eq!(inventory.statuses(), ["completed"; 2]);
    assert_eq!(inventory.outcomes[&first], ["lost", "completed"]);
    let order: Vec<String> = site.farm.ask(PrivateNexrender::renders);
    assert_eq!(order.len(), 2, "{order:?}");
    ghost.end();
    heir.end();
}
