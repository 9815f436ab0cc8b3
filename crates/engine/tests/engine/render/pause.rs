//! What is wrong with the configuration stops the worker and not the renders.

use super::studio::{Studio, until};
use super::world::Node;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::lifecycle::Counts;
use tidemill_domain::render::{Failure, NodePath, Phase, Report, Status};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_worker_whose_secret_is_wrong_claims_nothing_until_it_is_right,
    a_secret_that_becomes_wrong_burns_no_attempt,
    a_full_nas_stops_claims_and_costs_no_render,
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
    studio.fake.close("submit");
    let id = studio.order().await;

    let worker = studio.worker().await;
    until(|| studio.fake.calls("submit") == 1).await;
    for call in ["submit", "farm_check"] {
        studio.fake.breaks(call, Failure::WrongSecret);
    }
    studio.fake.open("submit");
    worker.until(|health| health.paused.is_some()).await;
    let record = studio.until_status(id, Status::Pending).await;

    assert_eq!((record.render.counts.attempts, record.render.counts.submit), (0, 0));
    assert_eq!(record.render.reason.unwrap().code, Code::NexrenderSecretRefused);
    studio.fake.mend();
    studio.clock.advance(Duration::from_secs(30));
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
}

async fn a_full_nas_stops_claims_and_costs_no_render(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.breaks("copy", Failure::NasUnwritable);
    studio.fake.close("copy");
    let id = studio.order().await;
    let worker = studio.worker().await;
    until(|| studio.fake.calls("copy") == 1).await;
    // It fills up while there is something to copy.
    studio.fake.breaks("shelf_check", Failure::NasUnwritable);
    studio.fake.open("copy");
    worker.until(|health| health.paused.is_some()).await;
    let record = studio.until_status(id, Status::Pending).await;
    let another = studio.order().await;
    let checks = studio.fake.calls("shelf_check");
    until(|| studio.fake.calls("shelf_check") > checks + 1).await;

    assert_eq!(worker.handle.health().paused.unwrap().code, Code::NasUnwritable);
    assert_eq!((record.render.counts, record.render.phase), (Counts::default(), Phase::Copying));
    assert_eq!(studio.record(another).await.render.counts.attempts, 0);
    studio.fake.mend();
    for id in [id, another] {
        studio.until_status(id, Status::Completed).await;
    }
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 2);
}

#[tokio::test]
async fn a_node_that_finds_the_nas_full_stops_claims_and_its_render_comes_later() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.breaks("shelf_check", Failure::NasUnwritable);
    let message = "ENOSPC: no space left on device, write".to_owned();
    studio.fake.says("rq-1-1", Report::Failed { failure: Failure::NasUnwritable, message });
    worker.until(|health| health.paused.is_some()).await;
    let record = studio.until_status(id, Status::Pending).await;

    assert_eq!((record.render.counts.render, record.render.job), (0, None));
    studio.fake.set_node(Node::Fast);
    studio.fake.mend();
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 2);
}

#[tokio::test]
async fn a_file_that_alone_cannot_be_copied_fails_its_render_and_stops_nobody() {
    let studio = Studio::any().await;
    studio.fake.breaks("copy", Failure::NasUnwritable);
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until(id, |record| record.render.counts.upload == 1).await;
    worker.stop().await;

    assert_eq!(record.render.reason.unwrap().code, Code::NasFailed);
    assert_eq!((record.render.status, record.render.phase), (Status::Pending, Phase::Copying));
}

#[tokio::test]
async fn a_job_that_alone_is_refused_or_garbled_fails_and_stops_nobody() {
    for failure in [Failure::WrongSecret, Failure::NotNexrender] {
        let studio = Studio::any().await;
        studio.fake.state().poison = Some(("rq-1-", failure));
        let (poison, good) = (studio.order().await, studio.order().await);

        let worker = studio.worker().await;
        studio.until_status(good, Status::Completed).await;
        for failures in 1..=3 {
            let record = studio.until(poison, |record| record.render.counts.submit == failures).await;
            assert_eq!(record.render.status, Status::Pending, "{failure}");
            studio.clock.advance(Duration::from_secs(250));
        }
        let record = studio.until_status(poison, Status::Failed).await;

        assert_eq!(record.render.reason.unwrap().code, Code::RenderUnanswered);
        worker.until(|health| health.busy == 0).await;
        assert_eq!(worker.handle.health().paused, None, "{failure}");
        worker.stop().await;
    }
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
