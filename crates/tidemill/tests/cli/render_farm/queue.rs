//! Many renders, several workers, several nodes: everything once.

use super::site::{Farm, Site};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_renders_on_two_workers_are_given_and_rendered_once_each() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("TIDEMILL_RENDER_CAPACITY", "4");
    let workers = ["one", "two"].map(|name| site.worker(name));
    let mut ids = Vec::new();

    for _ in 0..20 {
        ids.push(site.order("").await);
    }
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed"; 20]);
    for id in &ids {
        let job = vec![format!("rq-{id}-1")];
        assert_eq!((site.posted(*id), site.renders(*id)), (job.clone(), job));
    }
    let names: BTreeSet<_> = inventory.states.values().map(|state| state.worker_name.clone()).collect();
    assert_eq!(names.len(), 2, "both work: {names:?}");
    let contents: BTreeSet<_> = inventory.states.values().map(|state| state.output_sha256.clone()).collect();
    assert_eq!(contents.len(), 20, "nobody has the file of somebody else");
    for worker in workers {
        worker.end();
    }
}
