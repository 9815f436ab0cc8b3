//! Two queues, each with its database, its nexrender and its output folder, on one NAS: their rows have the same numbers, and
//! their nodes leave files in the same folder.

use super::approval::waits;
use super::inventory::{Look, files, sha256};
use super::site::{COMPOSITION, Farm, Site, eventually, make_old, text};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The output folder of the second queue.
const OTHER: &str = "other";

/// Where films wait for a person, so that the files of both queues lie there at once.
async fn queues() -> Option<[Site; 2]> {
    let first = Site::new(Farm::own(1)?).await?;
    let mut second = Site::new(Farm::own(1)?).await?;
    fs::create_dir(first.nas.join(OTHER)).unwrap();
    second.nas.clone_from(&first.nas);
    let second =
        second.with("TIDEMILL_RENDER_MOUNT", text(&first.nas)).with("TIDEMILL_RENDER_OUTPUT_FOLDER", OTHER);
    for site in [&first, &second] {
        // As a migration chooses it.
        site.execute("update render_revision set queue = default").await;
        site.execute("alter table render_queue alter column id restart with 7").await;
        let mut profile = site.profile(COMPOSITION);
        profile["approval"] = json!("required");
        site.save_profile(profile).await;
    }
    Some([first, second])
}

/// Where the node leaves the file of a job of this queue.
async fn staged(site: &Site, job: &str) -> PathBuf {
    let queue = site.store.read().await.unwrap().renders().queue().await.unwrap();
    assert!(!queue.is_empty());
    site.nas.join(format!(".staging/{job}.{queue}.mp4"))
}

async fn until_gone(file: &Path) {
    let gone = eventually(async || (!file.exists()).then_some(())).await;
    assert!(gone.is_some(), "{} stays", file.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_queues_with_the_same_numbers_take_nothing_from_each_other() {
    let Some([first, second]) = queues().await else { return };
    let sites = [&first, &second];
    let worker = first.worker("of-the-first");
    let other = second.worker("of-the-second");
    let id = first.order("").await;
    // Another film, which is told by its content.
    assert_eq!(second.order("black").await, id);

    let (mut films, mut sums) = (BTreeSet::new(), Vec::new());
    for site in sites {
        let waiting = site.until(id, "waiting for approval", waits).await;
        assert_eq!(site.posted(id), [format!("rq-{id}-1")]);
        let film = staged(site, &format!("rq-{id}-1")).await;
        assert_eq!(waiting.output_sha256, Some(sha256(&film)));
        sums.push(waiting.output_sha256);
        films.insert(film);
    }
    // Workers that try whether they can write there leave something for a moment.
    let are_alone = eventually(async || (files(&first.nas.join(".staging")) == films).then_some(())).await;
    assert!(are_alone.is_some() && films.len() == 2 && sums[0] != sums[1], "{films:?} {sums:?}");

    // Files of jobs that nobody needs, of both: a worker that starts removes those of its own queue only.
    other.end();
    let left = [staged(&first, &format!("rq-{id}-9")).await, staged(&second, &format!("rq-{id}-9")).await];
    for file in &left {
        fs::write(file, "late").unwrap();
        make_old(file);
    }
    let next = first.worker("next-of-the-first");
    until_gone(&left[0]).await;
    approve(&first, id).await;
    assert!(left[1].exists(), "the first queue has removed a file of the second");
    let other = second.worker("next-of-the-second");
    until_gone(&left[1]).await;
    approve(&second, id).await;

    for (site, (folder, sum)) in sites.into_iter().zip(["output", OTHER].into_iter().zip(sums)) {
        let output = &site.nas.join(folder);
        let inventory = site.ended_at(&[id], Look { shown: output, found: output, retried: None }).await;
        let state = &inventory.states[&id];
        assert_eq!((state.status.as_str(), &state.output_sha256), ("completed", &sum));
        assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1), "{inventory:#?}");
    }
    for worker in [worker, next, other] {
        worker.end();
    }
}

/// Approves the film that waits, and waits until it is published and nothing else of it is left.
async fn approve(site: &Site, id: i64) {
    site.stage().run(&["render", "approve", &id.to_string()]).succeeds();
    site.until(id, "completed", |state| state.status == "completed").await;
    site.until_left(&[]).await;
}
