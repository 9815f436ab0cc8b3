//! Regular checks of nexrender, the NAS, ffprobe and the path map. A worker claims nothing while no render can succeed.

use super::WorkerContext;
use crate::Service;
use std::sync::Arc;
use tidemill_domain::render::Trouble;
use tidemill_domain::render::retry_rules::Remedy;

pub(super) async fn run(worker: Arc<WorkerContext>) {
    let mut service = Service::new("looking at the world", worker.options.check_pause).later();
    while service.is_due().await {
        look(&worker).await;
        service.rest();
    }
}

/// Checks once, and pauses or resumes.
pub(super) async fn look(worker: &WorkerContext) {
    let (farm, storage, inspector) = tokio::join!(
        worker.asking("check", worker.farm.check()),
        worker.storage.check(),
        worker.inspector.check()
    );
    let troubles = [farm.err(), storage.err(), inspector.err()];
    worker.vitals().checked = Some((worker.now(), troubles.clone()));
    let troubles: Vec<Trouble> =
        troubles.into_iter().chain([worker.options.places.check().err()]).flatten().collect();
    // Temporary trouble is left to the rules of each render.
    let lasting = |trouble: &&Trouble| {
        matches!(worker.options.policy.patience.remedy(trouble.failure), Remedy::StopClaiming { .. })
    };
    match troubles.iter().find(lasting) {
        Some(trouble) => worker.pause(trouble.code, &trouble.message),
        // A paused worker resumes only when everything is fine.
        None if troubles.is_empty() => worker.resume(),
        None => {}
    }
}
