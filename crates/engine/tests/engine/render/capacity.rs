//! No more renders at the farm than there are places and licences.

use super::studio::{Studio, until};
use super::world::Node;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_domain::render::retry_rules::Patience;
use tidemill_domain::render::{Failure, Policy, RenderId, Status};
use tidemill_engine::pool::{PoolOptions, Pools};
use tidemill_engine::render::Licence;
use tidemill_store::pool::Defined;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_worker_has_no_more_jobs_at_the_farm_than_it_has_places,
    a_pool_of_licences_limits_all_workers_together,
];

async fn finish_all(studio: &Studio, ids: &[RenderId]) {
    let finished = async {
        loop {
            let running: Vec<String> = studio.fake.state().jobs.keys().cloned().collect();
            running.iter().for_each(|job| studio.fake.finish(job));
            let mut left = 0;
            for id in ids {
                left += usize::from(studio.record(*id).await.render.status != Status::Completed);
            }
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(super::studio::SOON, finished).await.expect("all are completed");
}

async fn a_worker_has_no_more_jobs_at_the_farm_than_it_has_places(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(studio.order().await);
    }

    let worker = studio.worker().await;
    until(|| studio.fake.submits() == 2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(studio.fake.submits(), 2);
    finish_all(&studio, &ids).await;
    worker.stop().await;

    assert_eq!((studio.fake.submits(), studio.fake.state().running_most), (5, 2));
}

/// Their jobs go on at the farm; what nobody can ask about keeps no place, and what is new gets one.
#[tokio::test]
async fn an_outage_that_fails_every_render_leaves_the_places_to_those_that_follow() {
    let studio = Studio::any().await;
    studio.fake.set_node(Node::Slow);
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(studio.order().await);
    }
    let worker = studio
        .worker_with(|options| {
            let policy = Policy::new(Patience::new(Some(0), None).unwrap());
            options.policy = Policy { lease_for: options.policy.lease_for, ..policy };
            options.farm_pause = Duration::from_millis(500);
        })
        .await;
    let most = Arc::new(AtomicUsize::new(0));
    let (handle, seen) = (worker.handle.clone(), most.clone());
    let watching = tokio::spawn(async move {
        loop {
            seen.fetch_max(handle.health().busy, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    until(|| studio.fake.submits() == 2).await;

    for call in ["submit", "look"] {
        studio.fake.breaks(call, Failure::NexrenderDown);
    }
    for id in ids {
        studio.until_status(id, Status::Failed).await;
    }
    studio.fake.mend();
    studio.fake.set_node(Node::Fast);
    let last = studio.order().await;
    studio.until_status(last, Status::Completed).await;
    watching.abort();
    worker.stop().await;

    assert_eq!((most.load(Ordering::SeqCst), studio.fake.submits()), (2, 3));
}

#[tokio::test]
async fn a_file_that_is_published_slowly_holds_no_place() {
    let studio = Studio::any().await;
    studio.fake.close("copy");
    let first = studio.order().await;
    let worker = studio.worker_with(|options| options.capacity = NonZeroUsize::MIN).await;
    until(|| studio.fake.calls("copy") == 1).await;

    let second = studio.order().await;
    until(|| studio.fake.calls("copy") == 2).await;

    assert_eq!(worker.handle.health().in_flight.len(), 2);
    assert_eq!(worker.handle.health().busy, 0);
    until_reported(&studio, 0).await;
    studio.fake.open("copy");
    studio.until_status(first, Status::Completed).await;
    studio.until_status(second, Status::Completed).await;
    worker.stop().await;
}

/// Waits until the beat of the only worker says that so many places are taken.
async fn until_reported(studio: &Studio, places: u32) {
    let reported = async {
        loop {
            let mut tx = studio.store.read().await.unwrap();
            let workers = tx.renders().workers(Duration::from_secs(60)).await.unwrap();
            tx.rollback().await.unwrap();
            if workers.iter().any(|worker| worker.in_flight == places) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(super::studio::SOON, reported).await.expect("the beat says so");
}

async fn a_pool_of_licences_limits_all_workers_together(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Slow);
    let pool: PoolName = "after-effects".parse().unwrap();
    let mut tx = studio.store.begin().await.unwrap();
    let mut settings = Settings::new(pool.clone(), 1);
    settings.threshold_percent = 100;
    assert_eq!(tx.pools().create(&settings, &Actor::system()).await.unwrap(), Defined::Done);
    tx.commit().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(studio.order().await);
    }

    let mut workers = Vec::new();
    for _ in 0..2 {
        let pools = Pools::start(studio.another_store().await, PoolOptions::default());
        let licence = Licence { pools, pool: pool.clone(), units: NonZeroU32::MIN };
        workers.push(studio.worker_with(|options| options.licence = Some(licence)).await);
    }
    until(|| studio.fake.submits() == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(studio.fake.submits(), 1);
    finish_all(&studio, &ids).await;
    for worker in workers {
        worker.stop().await;
    }

    assert_eq!((studio.fake.submits(), studio.fake.state().running_most), (3, 1));
}

#[tokio::test]
async fn a_pool_that_is_not_there_stops_claims_and_burns_no_attempt() {
    let studio = Studio::any().await;
    let id = studio.order().await;
    let pools = Pools::start(studio.another_store().await, PoolOptions::default());
    let licence = Licence { pools, pool: "nowhere".parse().unwrap(), units: NonZeroU32::MIN };

    studio.fake.breaks("shelf_check", tidemill_domain::render::Failure::NasFailed);
    let worker = studio.worker_with(|options| options.licence = Some(licence)).await;
    worker.until(|health| health.paused.is_some()).await;
    studio.until(id, |record| record.render.counts.attempts == 0).await;

    let paused = worker.handle.health().paused.unwrap();
    assert_eq!(paused.code, tidemill_domain::code::Code::PoolNotFound);
    worker.stop().await;
}
