//! Our worker dies in each phase: another takes over in time, and nothing is rendered again that is rendering or finished.

use super::crew::Worker;
use super::site::{Farm, Site};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;

/// Where workers die before a node has anything to do, two of them in a transaction.
const EARLY: [&str; 4] = ["render_claimed", "render_saved", "render_after_work", "render_posted"];

/// Where they die with the file of a node, the last one when all that is left is to tidy up.
const LATE: [&str; 5] = [
    "render_before_validation",
    "render_copied",
    "render_before_publishing",
    "render_published",
    "render_dropping",
];

/// In seconds: longer than a busy machine lets a worker wait.
const LEASE: f64 = 20.0;

/// What is taken over is taken over within this time after the end of the lease. Five seconds are promised, and a busy
/// machine takes longer; whoever looks too seldom is later. That the pause between looks keeps to the five seconds is
/// tested in `reaper.rs` of the engine.
const GRACE: f64 = 40.0;

/// What is promised with the default lease. With a lease of a minute it took fifty seconds.
const ADOPTED_WITHIN: Duration = Duration::from_secs(10);

/// For a busy machine, where a process may stand still for most of it.
const MARGIN: Duration = Duration::from_secs(15);

/// A worker with room for one render, which dies at a point.
fn doomed(site: &Site, point: &&str) -> Worker {
    site.worker_with(point, &[("TIDEMILL_RENDER_CAPACITY", "1"), ("TIDEMILL_CRASH_AT", point)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_in_any_phase_is_replaced_and_nothing_is_rendered_twice() {
    let Some(farm) = Farm::own(2) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("TIDEMILL_RENDER_LEASE", "20s");
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(site.order("gate=all").await);
    }

    // Nobody has room for a second one as long as the gate is closed.
    let mut late: Vec<Worker> = LATE.iter().map(|point| doomed(&site, point)).collect();
    let mut by_hand = site.worker_with("by_hand", &[("TIDEMILL_RENDER_CAPACITY", "1")]);
    site.until_busy(6).await;
    let mut early: Vec<Worker> = EARLY.iter().map(|point| doomed(&site, point)).collect();
    let mut deaths = Vec::new();
    for (worker, point) in early.iter_mut().zip(EARLY) {
        worker.has_crashed();
        deaths.push((point, site.now().await));
    }
    let heir = site.worker("heir");
    by_hand.kill();
    deaths.push(("by_hand", site.now().await));
    site.farm.open_gate("all");
    for (worker, point) in late.iter_mut().zip(LATE) {
        worker.has_crashed();
        deaths.push((point, site.now().await));
    }
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed"; 10], "{inventory:#?}");
    for id in &ids {
        assert_eq!((site.posted(*id).len(), site.renders(*id).len()), (1, 1), "{inventory:#?}");
    }
    let mut took = Vec::new();
    for (name, died) in deaths {
        took.extend(site.taken_over(name).await.into_iter().map(|(id, taken)| (name, id, taken - died)));
    }
    assert!(took.len() >= 7 && took.iter().all(|(.., took)| *took <= LEASE + GRACE), "{took:?}");
    heir.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_default_lease_a_worker_that_is_killed_is_replaced_soon() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("TIDEMILL_RENDER_LEASE", "");
    let id = site.order("gate=soon").await;
    let mut first = site.worker("first");
    site.until_rendered(id, 1).await;
    let heir = site.worker("heir");
    heir.until_logged("works with").await;

    first.kill();
    let clock = SystemClock::new();
    let died = clock.monotonic();
    site.until(id, "adopted", |state| state.worker_name.as_deref() == Some("heir")).await;
    let took = clock.monotonic().since(died);
    site.farm.open_gate("soon");
    let inventory = site.ended(&[id]).await;

    assert!(took < ADOPTED_WITHIN + MARGIN, "{took:?}");
    assert_eq!(inventory.statuses(), ["completed"]);
    assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1), "{inventory:#?}");
    heir.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_asked_to_stop_leaves_its_job_to_the_next_one() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let id = site.order("gate=stop").await;
    let first = site.worker("first");
    site.until_rendered(id, 1).await;

    first.end();
    let waiting = site.state(id).await;
    site.farm.open_gate("stop");
    let second = site.worker("second");
    let inventory = site.ended(&[id]).await;

    assert_eq!((waiting.status.as_str(), waiting.attempts, waiting.epoch), ("pending", 0, 1));
    assert_eq!(inventory.outcomes[&id], ["given_back", "completed"]);
    assert_eq!(site.renders(id), [format!("rq-{id}-1")]);
    second.end();
}
