//! Workers come, vanish, are stopped and come back; a render is rendered once and published once.

use super::studio::{LEASE_AND_MORE, Running, SOON, Studio, options, until};
use super::world::Node;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tidemill_domain::render::{Failure, Phase, Status};
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::render::Worker;
use tidemill_store::scratch::Scratch;
use tokio::sync::watch;

tidemill_store::on_both![
    a_worker_that_was_killed_is_replaced_and_its_job_adopted,
    a_worker_that_was_killed_while_publishing_leaves_a_file_that_is_found,
    a_worker_that_stops_gives_back_what_it_has_and_the_job_goes_on,
    a_file_that_comes_with_a_claim_is_checked_before_it_is_published,
    who_lost_a_render_publishes_nothing,
    a_ghost_that_wakes_up_writes_nothing,
    a_file_that_came_too_late_is_removed_and_one_of_another_queue_stays,
    a_job_of_another_queue_is_neither_adopted_nor_removed,
    two_workers_share_the_queue_and_render_everything_once,
];

async fn a_worker_that_was_killed_is_replaced_and_its_job_adopted(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    first.kill().await;
    studio.clock.advance(LEASE_AND_MORE);
    let second = studio.worker_with(|options| options.name = "two".into()).await;
    studio.until(id, |record| record.worker_name.as_deref() == Some("two")).await;
    studio.fake.finish("rq-1-1");
    let record = studio.until_status(id, Status::Completed).await;
    second.stop().await;

    assert_eq!(studio.fake.submits(), 1);
    assert_eq!((record.render.counts.attempts, record.render.counts.recoveries), (2, 1));
    assert_eq!(studio.fake.state().finals.len(), 1);
}

async fn a_worker_that_was_killed_while_publishing_leaves_a_file_that_is_found(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.close("publish");
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Publishing).await;
    until(|| studio.fake.calls("publish") == 1).await;

    first.kill().await;
    // The file had its final name just before the end.
    {
        let mut state = studio.fake.state();
        let bytes = state.parts.pop_first().unwrap().1;
        state.finals.insert("2026-11-15/Mini_1.mp4".into(), bytes);
    }
    studio.fake.open("publish");
    studio.clock.advance(LEASE_AND_MORE);
    let second = studio.worker().await;
    studio.until_status(id, Status::Completed).await;
    second.stop().await;

    assert_eq!((studio.fake.submits(), studio.fake.calls("copy"), studio.fake.calls("publish")), (1, 1, 1));
}

async fn a_worker_that_stops_gives_back_what_it_has_and_the_job_goes_on(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;

    first.stop().await;

    let record = studio.record(id).await;
    assert_eq!((record.render.status, record.render.counts.attempts), (Status::Pending, 0));
    assert_eq!(studio.fake.state().removed, Vec::<String>::new());
    studio.fake.finish("rq-1-1");
    let second = studio.worker().await;
    studio.until_status(id, Status::Completed).await;
    second.stop().await;
    assert_eq!(studio.fake.submits(), 1);
}

#[tokio::test]
async fn a_worker_that_stops_publishes_what_it_was_about_to() {
    let studio = Studio::any().await;
    studio.fake.close("publish");
    let id = studio.order().await;
    let worker = studio.worker_with(|options| options.drain_for = SOON).await;
    until(|| studio.fake.calls("publish") == 1).await;

    let stopping = tokio::spawn(worker.stop());
    tokio::task::yield_now().await;
    studio.fake.open("publish");
    stopping.await.unwrap();

    assert_eq!(studio.record(id).await.render.status, Status::Completed);
}

#[tokio::test]
async fn a_worker_that_stops_does_not_wait_for_a_nas_that_hangs() {
    let studio = Studio::any().await;
    studio.fake.close("copy");
    let id = studio.order().await;
    let worker = studio.worker().await;
    until(|| studio.fake.calls("copy") == 1).await;

    worker.stop().await;

    let record = studio.record(id).await;
    assert_eq!((record.render.status, record.render.phase), (Status::Pending, Phase::Copying));
}

/// Whatever an earlier worker has found out about it: nobody knows what has happened to the file since.
async fn a_file_that_comes_with_a_claim_is_checked_before_it_is_published(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.close("copy");
    let id = studio.order().await;
    let first = studio.worker().await;
    until(|| studio.fake.calls("copy") == 1).await;
    first.stop().await;
    assert_eq!(studio.record(id).await.render.phase, Phase::Copying);

    // A node that was thought dead writes to it, and what it writes is no good.
    studio.fake.state().staged.insert("/staging/rq-1-1.mp4".into(), b"half".to_vec());
    studio.fake.state().is_broken = true;
    studio.fake.open("copy");
    let second = studio.worker().await;
    let record = studio.until(id, |record| record.render.counts.render == 1).await;
    second.stop().await;

    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1534");
    assert_eq!((studio.fake.calls("inspect"), studio.fake.state().finals.len()), (2, 0));
}

async fn who_lost_a_render_publishes_nothing(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.close("copy");
    let id = studio.order().await;
    let worker = studio.worker().await;
    until(|| studio.fake.calls("copy") == 1).await;

    // Somebody else has it, who does nothing.
    studio
        .run_sql(
            "update render_queue set epoch = epoch + 1, revision = revision + 1,
                     worker_id = '00000000-0000-0000-0000-000000000009'",
        )
        .await;
    worker.until(|health| health.in_flight.is_empty()).await;
    studio.fake.open("copy");
    let before = studio.record(id).await;
    worker.kill().await;

    assert_eq!(studio.record(id).await.revision, before.revision);
    assert_eq!(studio.fake.calls("publish"), 0);
}

/// A worker that freezes altogether, as by SIGSTOP, and does not notice that time has passed.
async fn a_ghost_that_wakes_up_writes_nothing(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let id = studio.order().await;
    let fake = studio.fake.freezing();
    let (stop, stopped) = watch::channel(false);
    let own_clock: Arc<dyn Clock> = Arc::new(FakeClock::at(studio.clock.now()));
    let store = studio.another_store().await;
    let world = fake.backends();
    let ghost = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Nothing else of it is under way when it freezes: an open transaction would hold up everybody on SQLite.
        let mut options = options("ghost");
        options.capacity = NonZeroUsize::MIN;
        (options.renew_pause, options.reap_pause, options.check_pause) = (SOON, SOON, SOON);
        let worker = Worker::new(store, own_clock, world, options);
        runtime.block_on(worker.run(stopped));
    });
    until(|| studio.fake.calls("copy") == 1).await;

    studio.clock.advance(LEASE_AND_MORE);
    let second = studio.worker_with(|options| options.name = "two".into()).await;
    let before = studio.until_status(id, Status::Completed).await;
    let published = studio.fake.calls("publish");
    let settled = studio.record(id).await.revision;
    fake.thaw();
    stop.send_replace(true);
    tokio::task::spawn_blocking(move || ghost.join().unwrap()).await.unwrap();
    second.stop().await;

    assert_eq!(before.worker_name.as_deref(), Some("two"));
    assert_eq!(studio.record(id).await.revision, settled);
    assert_eq!((studio.fake.calls("publish"), studio.fake.submits()), (published, 1));
}

async fn a_file_that_came_too_late_is_removed_and_one_of_another_queue_stays(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_status(id, Status::Completed).await;
    first.stop().await;
    for job in ["rq-1-7", "rq-99-1"] {
        studio.fake.state().staged.insert(format!("/staging/{job}.mp4"), b"late".to_vec());
    }

    let second = studio.worker().await;
    until(|| studio.fake.state().staged.len() == 1).await;
    second.stop().await;

    assert!(studio.fake.state().staged.contains_key("/staging/rq-99-1.mp4"));
}

async fn a_job_of_another_queue_is_neither_adopted_nor_removed(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let id = studio.order().await;
    let first = studio.worker().await;
    studio.until_phase(id, Phase::Rendering).await;
    first.kill().await;
    // What has the name now leaves its file elsewhere.
    studio.fake.finish("rq-1-1");
    studio.fake.state().staged.clear();
    studio.fake.state().outputs.insert("rq-1-1".into(), "//OTHER/broadcast/.staging/rq-1-1.mp4".into());
    studio.fake.set_node(Node::Fast);

    studio.clock.advance(LEASE_AND_MORE);
    let second = studio.worker().await;
    studio.until_status(id, Status::Completed).await;
    second.stop().await;

    assert_eq!(studio.fake.submits(), 2);
    assert!(!studio.fake.state().removed.contains(&"rq-1-1".to_owned()));
}

#[tokio::test]
async fn a_name_that_another_queue_has_fails_the_render_and_leaves_the_job() {
    let studio = Studio::any().await;
    studio.fake.breaks("submit", Failure::NameTaken);
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until_status(id, Status::Failed).await;
    worker.until(|health| health.busy == 0).await;
    worker.stop().await;

    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1544");
    assert_eq!((record.render.job, studio.fake.calls("remove")), (None, 0));
}

async fn two_workers_share_the_queue_and_render_everything_once(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(studio.order().await);
    }

    let workers: Vec<Running> = vec![studio.worker().await, studio.worker().await];
    for id in ids {
        studio.until_status(id, Status::Completed).await;
    }
    for worker in workers {
        worker.stop().await;
    }

    let state = studio.fake.state();
    assert_eq!((state.submitted.len(), state.finals.len()), (12, 12));
}
