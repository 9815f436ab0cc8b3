//! What goes wrong, and what is done about it: the rows of the matrix, as a worker meets them.

use super::studio::{LEASE_AND_MORE, Studio, WAIT_AND_MORE, until};
use super::world::Node;
use std::time::Duration;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::{Failure, LocalPath, NodePath, PathMap, Phase, Report, Status};
use tidemill_domain::time::Clock;
use tidemill_engine::render::Places;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_broken_file_is_rendered_anew_and_never_published,
    a_nas_that_fails_costs_only_another_upload,
    a_file_where_nodes_no_longer_leave_files_is_rendered_anew_and_stops_nobody,
];

fn failed(failure: Failure) -> Report {
    Report::Failed { failure, message: "the node says so".into() }
}

#[tokio::test]
async fn a_farm_that_is_down_is_asked_again_later_and_the_attempt_is_counted() {
    let studio = Studio::any().await;
    studio.fake.breaks("submit", Failure::NexrenderDown);
    let id = studio.order().await;
    let worker = studio.worker().await;
    // The check passes, so nothing is waited for after the first failure.
    let record = studio.until(id, |record| record.render.counts.submit == 2).await;

    assert_eq!(record.render.status, Status::Pending);
    let wait = record.render.run_after.since(studio.clock.now());
    assert!(wait > Duration::from_secs(100) && wait <= Duration::from_secs(120), "{wait:?}");
    let checks = studio.fake.calls("farm_check");
    until(|| studio.fake.calls("farm_check") > checks + 2).await;
    assert_eq!(studio.record(id).await.render.run_after, record.render.run_after);
    studio.fake.mend();
    studio.clock.advance(Duration::from_secs(120));
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    // The names of the first attempts are never used again.
    assert_eq!(studio.fake.state().submitted[0].to_string(), "rq-1-3");
}

#[tokio::test]
async fn a_missing_template_fails_at_once_and_an_error_that_may_pass_is_rendered_anew() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let (hopeless, passing) = (studio.order().await, studio.order().await);
    let worker = studio.worker().await;
    studio.until_phase(hopeless, Phase::Rendering).await;
    studio.until_phase(passing, Phase::Rendering).await;

    studio.fake.says(&format!("rq-{hopeless}-1"), failed(Failure::TemplateMissing));
    studio.fake.says(&format!("rq-{passing}-1"), failed(Failure::RenderFailed));

    let record = studio.until_status(hopeless, Status::Failed).await;
    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1524");
    let record = studio.until_status(passing, Status::Pending).await;
    assert_eq!((record.render.counts.render, record.render.job), (1, None));
    until(|| studio.fake.state().removed.len() == 2).await;
    studio.fake.set_node(Node::Fast);
    studio.clock.advance(WAIT_AND_MORE);
    studio.until_status(passing, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 3);
}

async fn a_broken_file_is_rendered_anew_and_never_published(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.state().is_broken = true;
    let id = studio.order().await;
    let worker = studio.worker().await;
    for attempt in 1..=4 {
        studio.until(id, |record| record.render.counts.render == attempt).await;
        studio.clock.advance(WAIT_AND_MORE);
    }
    let record = studio.until_status(id, Status::Failed).await;
    worker.stop().await;

    let reason = record.render.reason.unwrap();
    assert_eq!(reason.code.to_string(), "TM1534");
    assert!(reason.message.contains("a hole in the middle"), "{}", reason.message);
    assert_eq!((studio.fake.submits(), studio.fake.calls("copy")), (4, 0));
    let mut tx = studio.store.read().await.unwrap();
    let attempts = tx.renders().attempts(id).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.report.as_ref().unwrap()["is_good"] == false));
}

async fn a_nas_that_fails_costs_only_another_upload(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.breaks("copy", Failure::NasFailed);
    let id = studio.order().await;
    let worker = studio.worker().await;
    let record = studio.until(id, |record| record.render.counts.upload == 1).await;
    assert_eq!((record.render.status, record.render.phase), (Status::Pending, Phase::Copying));

    studio.fake.mend();
    studio.clock.advance(Duration::from_secs(30));
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    // Whoever has claimed it once more cannot know what has become of the file.
    assert_eq!((studio.fake.submits(), studio.fake.calls("inspect"), studio.fake.calls("copy")), (1, 2, 2));
}

async fn a_file_where_nodes_no_longer_leave_files_is_rendered_anew_and_stops_nobody(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.breaks("copy", Failure::NasFailed);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until(id, |record| record.render.counts.upload == 1).await;
    first.stop().await;
    studio.fake.mend();
    studio.clock.advance(WAIT_AND_MORE);

    let second = studio.worker_with(|options| options.places = moved(&options.places)).await;
    let record = studio.until(id, |record| record.render.counts.render == 1).await;

    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1534");
    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    second.until(|health| health.in_flight.is_empty() && health.paused.is_none()).await;
    studio.clock.advance(WAIT_AND_MORE);
    studio.until_status(id, Status::Completed).await;
    second.until(|health| health.busy == 0).await;
    second.stop().await;
    assert_eq!(studio.fake.submits(), 2);
    studio.clock.advance(LEASE_AND_MORE);
    let mut tx = studio.store.begin().await.unwrap();
    let left = tx.renders().take_leftovers(10, WAIT_AND_MORE).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(left.iter().map(|one| one.epoch.get()).filter(|epoch| *epoch == 1).count(), 0);
}

/// The same folder, under another name for nodes.
fn moved(places: &Places) -> Places {
    let staging = NodePath::parse("\\\\NEW\\broadcast\\.staging").unwrap();
    let line = PathLine { node: staging.clone(), local: LocalPath::parse("/staging").unwrap() };
    Places { staging, paths: PathMap::new(vec![line]).unwrap(), ..places.clone() }
}

#[tokio::test]
async fn a_file_that_was_exchanged_after_it_was_checked_is_checked_once_more() {
    for is_good in [true, false] {
        let studio = Studio::any().await;
        studio.fake.close("copy");
        let id = studio.order().await;
        let worker = studio.worker().await;
        until(|| studio.fake.calls("copy") == 1).await;

        studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"another film".to_vec());
        studio.fake.state().is_broken = !is_good;
        studio.fake.open("copy");

        if is_good {
            studio.until_status(id, Status::Completed).await;
            let finals: Vec<_> = studio.fake.state().finals.values().cloned().collect();
            assert_eq!(finals, [b"another film".to_vec()]);
        } else {
            let record = studio.until(id, |record| record.render.counts.render == 1).await;
            assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1534");
        }
        worker.stop().await;
        assert_eq!(studio.fake.calls("inspect"), 2, "{is_good}");
    }
}

#[tokio::test]
async fn another_file_with_the_final_name_stays_as_it_is() {
    let studio = Studio::any().await;
    studio.fake.breaks("publish", Failure::OutputConflict);
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until_status(id, Status::Failed).await;
    until(|| !studio.fake.state().removed.is_empty()).await;
    worker.stop().await;

    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1538");
    assert_eq!(studio.fake.state().staged.len(), 1, "somebody may want to publish it by hand");
}

#[tokio::test]
async fn a_job_that_stalls_after_its_file_was_written_is_published_without_a_second_render() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker_with(|options| options.clocks.stall_timeout = Duration::from_secs(20)).await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"whole".to_vec());
    studio.clock.advance(Duration::from_secs(21));

    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 1);
}

#[tokio::test]
async fn a_job_that_stalls_is_taken_out_and_rendered_anew() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker_with(|options| options.clocks.stall_timeout = Duration::from_secs(20)).await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.clock.advance(Duration::from_secs(21));
    let record = studio.until_status(id, Status::Pending).await;

    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1529");
    // Its node is dead, so its place is not waited for.
    until(|| studio.fake.state().removed == ["rq-1-1"]).await;
    worker.until(|health| health.busy == 0).await;
    studio.fake.set_node(Node::Fast);
    studio.clock.advance(WAIT_AND_MORE);
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 2);
}

#[tokio::test]
async fn a_farm_that_has_lost_a_job_gets_a_new_one() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.set_node(Node::Fast);
    studio.fake.state().jobs.clear();
    studio.until(id, |record| record.render.counts.submit == 1).await;
    studio.clock.advance(Duration::from_secs(10));

    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 2);
}

#[tokio::test]
async fn a_farm_that_once_says_that_it_has_no_such_job_gets_no_second_one() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.state().blips = 1;
    let looks = studio.fake.calls("look");
    until(|| studio.fake.calls("look") > looks + 2).await;
    first.stop().await;
    // Whoever adopts the job hears it at first, too.
    studio.fake.state().blips = 1;
    let second = studio.worker_with(|options| options.name = "two".into()).await;
    studio.until(id, |record| record.worker_name.as_deref() == Some("two")).await;
    studio.fake.finish("rq-1-1");
    let record = studio.until_status(id, Status::Completed).await;
    second.stop().await;

    assert_eq!((studio.fake.submits(), record.render.counts.submit), (1, 0));
}

#[tokio::test]
async fn a_farm_that_is_silent_for_a_moment_costs_nothing() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker_with(|options| options.farm_grace = Duration::from_secs(5)).await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.breaks("look", Failure::NexrenderDown);
    let looks = studio.fake.calls("look");
    until(|| studio.fake.calls("look") > looks + 3).await;
    studio.fake.mend();
    studio.fake.finish("rq-1-1");

    let record = studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!((record.render.counts.submit, record.render.counts.attempts), (0, 1));
}
