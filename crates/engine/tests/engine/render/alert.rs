//! The signals of renders, and what a worker says of itself.

use super::studio::{LEASE_AND_MORE, Studio, WAIT_AND_MORE, until};
use super::world::Node;
use std::time::Duration;
use tidemill_domain::render::{Failure, Phase, Report, Status};
use tidemill_domain::time::Clock;
use tidemill_engine::alert::{default_rules, signal};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_queue_that_nobody_uses_alarms_nobody,
    renders_that_wait_without_a_worker_are_seen,
    how_renders_went_is_seen,
    what_comes_too_late_and_what_no_node_takes_is_seen,
];

/// What a signal says; none when it says nothing.
async fn seen(studio: &Studio, name: &str) -> Option<f64> {
    let signals = signal::known(studio.clock.clone());
    let signal = signals.iter().find(|signal| signal.name() == name).unwrap();
    signal.observe(&studio.store).await.unwrap().first().map(|seen| seen.value)
}

async fn a_queue_that_nobody_uses_alarms_nobody(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    for rule in default_rules() {
        let name = rule.signal().to_owned();
        if name.starts_with("render_") {
            let value = seen(&studio, &name).await;
            assert!(
                value.is_none_or(|value| !matches!(
                    rule.condition().read(value),
                    tidemill_domain::alert::Reading::Breached(_)
                )),
                "{name}: {value:?}"
            );
        }
    }
}

async fn renders_that_wait_without_a_worker_are_seen(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    for _ in 0..11 {
        studio.order().await;
    }

    assert_eq!(seen(&studio, "render_pending").await, Some(11.0));
    assert_eq!(seen(&studio, "render_workers").await, Some(0.0));
}

async fn how_renders_went_is_seen(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let (good, bad) = (studio.order().await, studio.order().await);
    let worker = studio.worker().await;
    studio.until_phase(good, Phase::Rendering).await;
    studio.until_phase(bad, Phase::Rendering).await;
    studio.clock.advance(Duration::from_secs(30));
    studio.fake.finish(&format!("rq-{good}-1"));
    let hopeless = Report::Failed { failure: Failure::TemplateMissing, message: "gone".into() };
    studio.fake.says(&format!("rq-{bad}-1"), hopeless);
    studio.until_status(good, Status::Completed).await;
    studio.until_status(bad, Status::Failed).await;
    until(|| studio.fake.state().removed.len() == 2).await;

    assert_eq!(seen(&studio, "render_success_percent").await, Some(50.0));
    assert_eq!(seen(&studio, "render_seconds").await, Some(30.0));
    assert_eq!(seen(&studio, "render_failures").await, Some(1.0));
    assert_eq!(seen(&studio, "render_workers").await, Some(1.0));
    assert!(seen(&studio, "render_nexrender_seconds").await.is_some_and(|seconds| seconds < 30.0));
    // A farm that is simply not there refuses at once, which is no quick answer.
    studio.fake.breaks("farm_check", Failure::NexrenderDown);
    let down = async {
        while seen(&studio, "render_nexrender_seconds").await.is_none_or(|seconds| seconds < 30.0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::studio::SOON, down).await.expect("a farm that is down is not told of");
    worker.stop().await;
    assert_eq!(seen(&studio, "render_workers").await, None);
    studio.clock.advance(Duration::from_secs(3_600));
    assert_eq!(seen(&studio, "render_failures").await, Some(0.0));
}

async fn what_comes_too_late_and_what_no_node_takes_is_seen(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Absent);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::WaitingForNode).await;

    studio.clock.advance(Duration::from_secs(40));

    assert_eq!(seen(&studio, "render_node_wait_seconds").await, Some(40.0));
    assert_eq!(seen(&studio, "render_late").await, Some(0.0));
    let now = studio.clock.now();
    studio.run_sql(&deadline(&studio, now.as_micros())).await;
    assert_eq!(seen(&studio, "render_late").await, Some(1.0));
    worker.stop().await;
}

fn deadline(studio: &Studio, micros: i64) -> String {
    let instant = match studio.store.dialect() {
        tidemill_store::url::Dialect::Sqlite => micros.to_string(),
        tidemill_store::url::Dialect::Postgres => format!("to_timestamp({micros} / 1000000.0)"),
    };
    format!("update render_queue set deadline = {instant}")
}

#[tokio::test]
async fn workers_that_vanish_one_after_the_other_are_seen() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    for recoveries in 0..=4 {
        let worker = studio.worker().await;
        studio.until(id, |record| record.render.counts.recoveries == recoveries).await;
        assert_eq!(seen(&studio, "render_failures").await, Some(0.0), "{recoveries}");
        studio.clock.advance(WAIT_AND_MORE);
        studio.until_phase(id, Phase::Rendering).await;
        let expected = if recoveries > 3 { 1.0 } else { 0.0 };
        assert_eq!(seen(&studio, "render_recovering").await, Some(expected), "{recoveries}");
        worker.kill().await;
        studio.clock.advance(LEASE_AND_MORE);
    }

    assert_eq!(studio.fake.submits(), 1);
}

#[tokio::test]
async fn a_worker_says_how_it_is() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    worker.until(|health| health.in_flight.first().is_some_and(|one| one.phase == Phase::Rendering)).await;

    let health = worker.handle.health();

    assert_eq!((health.worker.as_str(), health.capacity, health.busy), ("one", 2, 1));
    assert_eq!(health.in_flight[0].id, id);
    assert_eq!(health.problems(), Vec::<String>::new());
    studio.fake.breaks("inspector_check", Failure::Unexpected);
    worker.until(|health| health.inspector.trouble.is_some()).await;
    assert_eq!(worker.handle.health().problems().len(), 1);
    studio.fake.mend();
    studio.fake.finish("rq-1-1");
    studio.until_status(id, Status::Completed).await;
    worker.until(|health| health.completed == 1).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_looks_at_once_when_somebody_says_so() {
    let studio = Studio::any().await;
    let day = Duration::from_secs(24 * 3600);
    let worker = studio
        .worker_with(|options| {
            options.polling =
                tidemill_domain::render::polling::Polling { busy: day, default: day, idle: day };
        })
        .await;
    worker.until(|health| health.last_poll_age.is_some()).await;
    // By somebody else's connection, of which this process hears nothing on SQLite.
    let id = studio.order().await;

    worker.handle.poll();

    studio.until_status(id, Status::Completed).await;
    worker.stop().await;
}
