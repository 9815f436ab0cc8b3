//! nexrender is away and comes back: nothing waits longer than that, and what was rendered meanwhile is found.

use super::studio::{Studio, until};
use super::world::Node;
use std::time::Duration;
use tidemill_domain::render::clock::Clocks;
use tidemill_domain::render::{Failure, Phase, Status};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_render_that_waits_for_a_farm_goes_on_when_the_farm_is_back,
    a_film_that_was_finished_while_the_farm_was_away_is_found_first,
];

fn is_away(studio: &Studio) {
    for call in ["farm_check", "submit", "look"] {
        studio.fake.breaks(call, Failure::NexrenderDown);
    }
}

async fn a_render_that_waits_for_a_farm_goes_on_when_the_farm_is_back(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    is_away(&studio);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until(id, |record| record.render.counts.submit == 1).await;
    let checks = studio.fake.calls("farm_check");
    until(|| studio.fake.calls("farm_check") > checks).await;

    studio.fake.mend();

    // The clock of the wait stands still.
    let record = studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!((record.render.counts.attempts, studio.fake.submits()), (2, 1));
}

/// It was back before a check could see that it was away.
#[tokio::test]
async fn a_farm_that_breaks_once_and_passes_its_checks_costs_no_wait() {
    let studio = Studio::any().await;
    studio.fake.breaks_once("submit", Failure::NexrenderDown);
    let submitted = studio.order().await;
    let first = studio.worker().await;
    // The clock of the wait stands still.
    let record = studio.until_status(submitted, Status::Completed).await;
    assert_eq!((record.render.counts.submit, record.render.counts.attempts), (1, 2));
    until(|| studio.fake.state().removed.len() == 1).await;

    studio.fake.set_node(Node::Slow);
    let adopted = studio.order().await;
    studio.until_phase(adopted, Phase::Rendering).await;
    first.stop().await;
    studio.fake.breaks_once("look", Failure::NexrenderDown);
    let second = studio.worker().await;
    studio.until(adopted, |record| record.render.counts.submit == 1).await;
    studio.fake.finish(&format!("rq-{adopted}-1"));

    studio.until_status(adopted, Status::Completed).await;
    second.stop().await;
    assert_eq!(studio.fake.submits(), 2);
}

/// Its node could not report the end, so the farm never hears of it.
async fn a_film_that_was_finished_while_the_farm_was_away_is_found_first(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    is_away(&studio);
    studio.until(id, |record| record.render.counts.submit == 1).await;

    studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"whole".to_vec());
    studio.fake.mend();

    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 1);
}

/// The farm was away between two polls, when the node reported the end: no call has failed.
#[tokio::test]
async fn a_film_whose_end_the_farm_missed_between_two_polls_is_found_soon() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker_with(|options| options.clocks = Clocks::default()).await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"whole".to_vec());
    studio.clock.advance(Duration::from_secs(11));

    let record = studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!((record.render.counts.attempts, studio.fake.submits()), (1, 1));
}

#[tokio::test]
async fn a_film_of_a_quiet_job_is_decoded_again_only_when_it_has_changed() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    studio.fake.state().is_broken = true;
    studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"half".to_vec());
    studio.clock.advance(Duration::from_secs(11));
    until(|| studio.fake.calls("inspect") == 1).await;
    let settled = studio.fake.calls("settled");
    until(|| studio.fake.calls("settled") > settled + 3).await;
    assert_eq!(studio.fake.calls("inspect"), 1);
    {
        let mut state = studio.fake.state();
        state.is_broken = false;
        state.staged.insert("/staging/rq-1-1.mp4".into(), b"whole".to_vec());
    }

    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 1);
}

#[tokio::test]
async fn a_film_that_is_not_whole_yet_is_waited_for() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    first.stop().await;
    studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"half".to_vec());
    studio.fake.state().is_broken = true;

    let second = studio.worker().await;
    until(|| studio.fake.calls("inspect") == 1).await;
    studio.until_phase(id, Phase::Rendering).await;
    studio.fake.state().is_broken = false;
    studio.fake.finish("rq-1-1");
    let record = studio.until_status(id, Status::Completed).await;
    second.stop().await;

    assert_eq!((record.render.counts.render, studio.fake.submits()), (0, 1));
}
