//! A database that stands still: shorter than a lease, which costs nothing, and longer than one, which costs no film.

use super::site::{Farm, Site, eventually};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;

/// Only the leases of renders end: a process gives itself up otherwise.
const PROCESS: (&str, &str) = ("TIDEMILL_PROCESS_LEASE", "10m");

/// It is renewed every 10 s, and a renewal without an answer fails after 5 s. So a busy machine has about as long again
/// before the lease ends.
const LONG: (&str, &str) = ("TIDEMILL_RENDER_LEASE", "40s");

/// The default.
const LEASE: Duration = Duration::from_secs(7);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_frozen_for_less_than_a_lease_takes_no_render_from_its_worker() {
    let Some(farm) = Farm::shared() else { return };
    let Some((mut server, site)) = Site::with_server(farm).await else { return };
    let site = site.with(PROCESS.0, PROCESS.1).with(LONG.0, LONG.1);
    let id = site.order("gate=short").await;
    let first = site.worker("first");
    site.until_rendered(id, 1).await;
    // It would take the render as soon as the lease has ended.
    let other = site.worker("other");
    other.until_logged("works with").await;

    server.pause().unwrap();
    first.until_logged("renewing the leases of renders failed").await;
    server.resume().unwrap();
    first.until_logged("renewing the leases of renders works again").await;
    site.farm.open_gate("short");
    let inventory = site.ended(&[id]).await;

    let state = &inventory.states[&id];
    assert_eq!((state.status.as_str(), state.epoch), ("completed", 1), "{}", first.log());
    assert_eq!(inventory.outcomes[&id], ["completed"]);
    assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1));
    first.end();
    other.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_frozen_for_longer_than_a_lease_costs_no_film() {
    let Some(farm) = Farm::shared() else { return };
    let Some((mut server, site)) = Site::with_server(farm).await else { return };
    let site = site.with(PROCESS.0, PROCESS.1);
    // The node ends one of them while nobody can write that down, and the other one later.
    let ids = [site.order("gate=meanwhile-frozen").await, site.order("gate=later-frozen").await];
    let first = site.worker_with("first", &[("TIDEMILL_RENDER_LEASE", "")]);
    for id in ids {
        site.until(id, "rendering", |state| state.phase == "rendering").await;
    }
    let other = site.worker("other");
    other.until_logged("works with").await;

    server.pause().unwrap();
    let clock = SystemClock::new();
    let frozen = clock.monotonic();
    site.farm.open_gate("meanwhile-frozen");
    let is_over = eventually(async || (clock.monotonic().since(frozen) > LEASE).then_some(()));
    assert!(is_over.await.is_some());
    server.resume().unwrap();
    for id in ids {
        site.until(id, "taken over", |state| state.epoch > 1 || state.has_ended()).await;
    }
    site.farm.open_gate("later-frozen");
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed"; 2], "{}", first.log());
    for id in ids {
        // On a busy machine, the short lease may end once more.
        let (last, before) = inventory.outcomes[&id].split_last().unwrap();
        assert_eq!(last, "completed");
        assert!(!before.is_empty() && before.iter().all(|one| one == "lost"), "{inventory:#?}");
        assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1), "{inventory:#?}");
    }
    first.until_logged("is no longer ours").await;
    first.end();
    other.end();
}
