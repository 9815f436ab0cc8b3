//! A film that a person has to see first: it waits, whoever dies meanwhile, and exactly this film is published.

use super::inventory::sha256;
use super::site::{COMPOSITION, Farm, Site, State, data};
use crate::serve::{Served, ask};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// A composition whose films are published at once.
const FREE: &str = "Free";

async fn asking() -> Option<Site> {
    let site = Site::new(Farm::shared()?).await?;
    let mut profile = site.profile(COMPOSITION);
    profile["approval"] = json!("required");
    site.save_profile(profile).await;
    site.know(FREE).await;
    Some(site)
}

pub(super) fn waits(state: &State) -> bool {
    state.status == "pending" && state.phase == "copying" && state.output_sha256.is_some() && !state.is_held
}

fn staged(site: &Site, id: i64, epoch: i64) -> PathBuf {
    site.nas.join(format!(".staging/rq-{id}-{epoch}.mp4"))
}

fn published(site: &Site) -> usize {
    let folders = fs::read_dir(site.nas.join("output")).unwrap();
    let of = |folder: PathBuf| fs::read_dir(folder).map_or(0, |files| files.flatten().count());
    folders.flatten().map(|folder| of(folder.path())).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_film_that_was_shown_is_published_and_only_after_the_approval() {
    let Some(site) = asking().await else { return };
    let stage = site.stage();
    let worker = site.worker_with("one", &[("TIDEMILL_RENDER_CAPACITY", "1")]);
    let id = site.order("").await;
    let waiting = site.until(id, "waiting for approval", waits).await;
    let film = sha256(&staged(&site, id, 1));
    assert_eq!((Some(&film), waiting.attempts), (waiting.output_sha256.as_ref(), 0));

    // The only place is free for others, and nothing of the film is published.
    let other = site.order_data(FREE, &data("")).await;
    site.until(other, "completed", |state| state.status == "completed").await;
    assert_eq!(published(&site), 1);
    let served = Served::start(&stage, &[]);
    let (status, page) = ask(&served.address, "GET", &format!("/render/{id}"), "", "");
    assert!(status == 200 && page.contains("Waits for approval.") && page.contains("<video"), "{page}");
    let clip = format!("/render/{id}/clip");
    let kind = ask(&served.address, "GET", &clip, "range: bytes=4-7\r\n", "");
    assert_eq!(kind, (206, "ftyp".to_owned()));
    drop(served);
    let number = id.to_string();
    stage.run(&["render", "approve", &number, "--revision", "1"]).fails("TM1511", 5);
    let reject = ["render", "reject", number.as_str(), "--reason", "a test", "--revision", "1"];
    stage.run(&reject).fails("TM1511", 5);
    stage.run(&["render", "retry", &number, "--reason", "a test"]).fails("TM1511", 5);
    stage.run(&["render", "approve", &number, "--reason", "names are right"]).succeeds();
    let inventory = site.ended(&[id, other]).await;

    assert_eq!(inventory.statuses(), ["completed"; 2]);
    assert_eq!(inventory.states[&id].output_sha256.as_ref(), Some(&film));
    assert_eq!(
        (site.posted(id).len(), inventory.outcomes[&id].clone()),
        (1, vec!["given_back".into(), "completed".into()])
    );
    stage.run(&["render", "approve", &number]).fails("TM1511", 5);
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_approval_outlives_its_worker_and_a_film_that_is_gone_is_asked_for_again() {
    let Some(site) = asking().await else { return };
    let site = site.with("TIDEMILL_RENDER_LEASE", "7s");
    let stage = site.stage();
    let mut first = site.worker("first");
    let (kept, gone, rejected) = (site.order("").await, site.order("").await, site.order("").await);
    for id in [kept, gone, rejected] {
        site.until(id, "waiting for approval", waits).await;
    }
    let before = site.state(kept).await;

    first.kill();
    let heir = site.worker("heir");
    // The heir takes what can be taken, and leaves these alone.
    let other = site.order_data(FREE, &data("")).await;
    site.until(other, "completed", |state| state.status == "completed").await;
    assert_eq!(site.state(kept).await, before);
    fs::remove_file(staged(&site, gone, 1)).unwrap();
    stage.run(&["render", "approve", &kept.to_string(), &gone.to_string()]).succeeds();
    stage.run(&["render", "reject", &rejected.to_string(), "--reason", "a wrong name"]).succeeds();
    let again = site.until(gone, "waiting again", |state| waits(state) && state.epoch > 2).await;
    assert_eq!(site.renders(gone).len(), 2, "{again:?}");
    stage.run(&["render", "approve", &gone.to_string()]).succeeds();
    let ids = [kept, gone, rejected, other];
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed", "completed", "failed", "completed"]);
    assert_eq!(inventory.states[&kept].output_sha256, before.output_sha256);
    let rejection = &inventory.states[&rejected];
    assert_eq!(rejection.error_code.as_deref(), Some("TM1557"));
    assert_eq!(rejection.error_message.as_deref(), Some("a wrong name"));
    assert!(!staged(&site, rejected, 1).exists());
    heir.end();
}
