//! Nobody wants a render any more, wherever it is.

use super::studio::{Studio, until};
use super::world::Node;
use std::time::Duration;
use tidemill_domain::render::{Failure, Phase, Report, Status};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_job_that_no_node_has_is_taken_out_at_once,
    what_a_node_renders_keeps_its_place_until_it_ends_and_its_file_is_removed,
    a_dashboard_cancels_by_sql,
    a_file_that_is_being_checked_or_copied_is_not_published,
    a_job_that_nexrender_gets_while_its_render_is_cancelled_is_taken_out_again,
    a_job_that_goes_on_after_its_render_was_given_back_is_swept_by_any_worker,
    a_nas_that_does_not_let_a_file_go_keeps_no_place_and_the_file_is_removed_later,
];

async fn a_job_that_no_node_has_is_taken_out_at_once(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Absent);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::WaitingForNode).await;

    studio.cancel(id).await;
    studio.until_status(id, Status::Cancelled).await;

    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    worker.until(|health| health.busy == 0).await;
    worker.stop().await;
}

async fn what_a_node_renders_keeps_its_place_until_it_ends_and_its_file_is_removed(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.cancel(id).await;
    studio.until_status(id, Status::Cancelled).await;
    let looks = studio.fake.calls("look");
    until(|| studio.fake.calls("look") > looks + 3).await;

    assert_eq!(worker.handle.health().busy, 1);
    assert_eq!(studio.fake.state().removed, Vec::<String>::new());
    studio.fake.finish("rq-1-1");
    worker.until(|health| health.busy == 0).await;
    assert_eq!(studio.fake.state().removed, ["rq-1-1"]);
    assert_eq!(studio.fake.state().staged.len(), 0);
    assert_eq!(studio.fake.calls("copy"), 0);
    worker.stop().await;
}

#[tokio::test]
async fn a_job_about_which_the_farm_says_nothing_keeps_no_place() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    studio.cancel(id).await;
    studio.until_status(id, Status::Cancelled).await;

    studio.fake.breaks("look", Failure::NexrenderDown);

    worker.until(|health| health.busy == 0).await;
    studio.fake.mend();
    studio.fake.finish("rq-1-1");
    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_job_that_cannot_be_taken_out_is_tried_less_and_less_often() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    studio.cancel(id).await;
    studio.until_status(id, Status::Cancelled).await;
    studio.fake.state().poison = Some(("rq-1-", Failure::WrongSecret));
    worker.until(|health| health.busy == 0).await;

    studio.clock.advance(Duration::from_secs(500));
    let looks = studio.fake.calls("look");
    tokio::time::sleep(Duration::from_millis(500)).await;

    let more = studio.fake.calls("look") - looks;
    worker.stop().await;
    assert!(more <= 3, "one that was on its way, one here, one of the sweep: {more}");
}

async fn a_dashboard_cancels_by_sql(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.run_sql("update render_queue set status = 'cancelled'").await;
    studio.fake.says("rq-1-1", Report::At { phase: Phase::Rendering, percent: Some(90.0) });
    worker.until(|health| health.in_flight.is_empty()).await;
    studio.fake.finish("rq-1-1");
    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    worker.stop().await;

    assert_eq!(studio.record(id).await.render.status, Status::Cancelled);
    assert_eq!(studio.fake.calls("publish"), 0);
}

async fn a_file_that_is_being_checked_or_copied_is_not_published(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    for call in ["inspect", "copy"] {
        studio.fake.close(call);
        let calls = studio.fake.calls(call);
        let id = studio.order().await;
        let worker = studio.worker().await;
        until(|| studio.fake.calls(call) > calls).await;

        studio.cancel(id).await;
        studio.until_status(id, Status::Cancelled).await;
        worker.until(|health| health.in_flight.is_empty()).await;
        studio.fake.open(call);
        until(|| studio.fake.state().staged.is_empty()).await;
        worker.stop().await;

        assert_eq!(studio.fake.calls("publish"), 0, "{call}");
    }
    assert_eq!(studio.fake.state().finals.len(), 0);
}

async fn a_job_that_nexrender_gets_while_its_render_is_cancelled_is_taken_out_again(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Absent);
    studio.fake.close("submit");
    let id = studio.order().await;
    let worker = studio.worker().await;
    until(|| studio.fake.calls("submit") == 1).await;

    studio.cancel(id).await;
    studio.until_status(id, Status::Cancelled).await;
    studio.fake.open("submit");

    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    worker.stop().await;
    assert_eq!(studio.fake.state().jobs.len(), 0);
}

#[tokio::test]
async fn a_job_that_nexrender_gets_while_its_worker_stops_is_gone_on_with() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    studio.fake.close("submit");
    let id = studio.order().await;
    let worker = studio.worker_with(|options| options.drain_for = super::studio::SOON).await;
    until(|| studio.fake.calls("submit") == 1).await;

    let stopping = tokio::spawn(worker.stop());
    tokio::task::yield_now().await;
    studio.fake.open("submit");
    stopping.await.unwrap();
    studio.fake.finish("rq-1-1");
    let second = studio.worker().await;
    studio.until_status(id, Status::Completed).await;
    second.stop().await;

    assert_eq!(studio.fake.submits(), 1);
}

async fn a_job_that_goes_on_after_its_render_was_given_back_is_swept_by_any_worker(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    first.stop().await;

    studio.cancel(id).await;
    assert_eq!(studio.record(id).await.render.status, Status::Cancelled);
    studio.fake.finish("rq-1-1");
    studio.clock.advance(super::studio::LEASE_AND_MORE);
    let second = studio.worker().await;

    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    until(|| studio.fake.state().staged.is_empty()).await;
    second.stop().await;
}

async fn a_nas_that_does_not_let_a_file_go_keeps_no_place_and_the_file_is_removed_later(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    studio.fake.breaks("discard", Failure::NasFailed);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.cancel(id).await;
    studio.until_status(id, Status::Cancelled).await;
    studio.fake.finish("rq-1-1");

    first.until(|health| health.busy == 0).await;
    assert_eq!(studio.fake.state().removed, ["rq-1-1"]);
    assert_eq!(studio.fake.state().staged.len(), 1);
    first.stop().await;
    studio.fake.mend();
    studio.clock.advance(super::studio::LEASE_AND_MORE);
    let second = studio.worker().await;
    until(|| studio.fake.state().staged.is_empty()).await;
    second.stop().await;
}
