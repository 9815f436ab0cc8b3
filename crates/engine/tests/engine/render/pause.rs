//! What is wrong with the configuration stops the worker and not the renders.

use super::studio::{Studio, until};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::{Failure, NodePath, Status};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_worker_whose_secret_is_wrong_claims_nothing_until_it_is_right,
    a_secret_that_becomes_wrong_burns_no_attempt,
];

async fn a_worker_whose_secret_is_wrong_claims_nothing_until_it_is_right(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.breaks("farm_check", Failure::WrongSecret);
    let id = studio.order().await;

    let worker = studio.worker().await;
    worker.until(|health| health.paused.is_some()).await;
    let checks = studio.fake.calls("farm_check");
    until(|| studio.fake.calls("farm_check") > checks + 3).await;

    let health = worker.handle.health();
    assert_eq!(health.paused.as_ref().unwrap().code, Code::NexrenderSecretRefused);
    assert!(!health.is_healthy());
    assert_eq!(studio.record(id).await.render.counts.attempts, 0);
    studio.fake.mend();
    studio.until_status(id, Status::Completed).await;
    worker.until(|health| health.is_healthy()).await;
    worker.stop().await;
}

async fn a_secret_that_becomes_wrong_burns_no_attempt(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.breaks("submit", Failure::WrongSecret);
    // A farm that is not well keeps the worker from going on at once.
    studio.fake.breaks("shelf_check", Failure::NasFailed);
    let id = studio.order().await;

    let worker = studio.worker().await;
    worker.until(|health| health.paused.is_some()).await;
    let record = studio.until_status(id, Status::Pending).await;

    assert_eq!((record.render.counts.attempts, record.render.counts.submit), (0, 0));
    assert_eq!(record.render.reason.unwrap().code, Code::NexrenderSecretRefused);
    studio.fake.mend();
    studio.clock.advance(Duration::from_secs(30));
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_nas_that_is_not_mounted_stops_claims() {
    let studio = Studio::any().await;
    studio.fake.breaks("shelf_check", Failure::NasNotMounted);
    let id = studio.order().await;

    let worker = studio.worker().await;
    worker.until(|health| health.paused.is_some()).await;

    assert_eq!(studio.record(id).await.render.status, Status::Pending);
    assert_eq!(worker.handle.health().storage.trouble.unwrap().failure, Failure::NasNotMounted);
    worker.stop().await;
}

#[tokio::test]
async fn a_folder_that_is_not_mapped_stops_claims() {
    let studio = Studio::any().await;
    let id = studio.order().await;

    let worker =
        studio.worker_with(|options| options.places.staging = NodePath::parse("E:\\out").unwrap()).await;
    worker.until(|health| health.paused.is_some()).await;

    assert_eq!(worker.handle.health().paused.unwrap().code, Code::PathNotMapped);
    assert_eq!(studio.record(id).await.render.counts.attempts, 0);
    worker.stop().await;
}
