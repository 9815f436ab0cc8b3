//! What happens to jobs and pools, as events of the outbox.

use super::{events, numbers};
use crate::Bench;
use crate::job::{ann, day, end, launch, request};
use crate::pool::{acquire, adw, ask, create, give_back, release};
use std::time::Duration;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::outbox::{LifecycleEvents, Payload};
use tidemill_store::pool::PoolCache;
use tidemill_store::{Init, Store, StoreOptions};

crate::on_both![
    the_course_of_an_execution_is_told,
    what_operators_and_crashes_do_to_executions_is_told,
    what_happens_in_a_pool_is_told,
    a_rolled_back_transition_leaves_no_event,
    what_is_off_is_not_told,
];

/// The same database, by a store that tells.
async fn lifecycle_events(bench: Bench, lifecycle_events: LifecycleEvents) -> Bench {
    let options =
        StoreOptions { clock: Some(bench.clock.clone()), lifecycle_events, ..StoreOptions::default() };
    let store = Store::open(bench.scratch.url().parse().unwrap(), &options).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    Bench { store, ..bench }
}

/// The types of all events, the oldest first.
async fn told(bench: &Bench) -> Vec<String> {
    events(bench).await.into_iter().map(|event| event.event_type).collect()
}

async fn the_course_of_an_execution_is_told(bench: Bench) {
    let bench = lifecycle_events(bench, LifecycleEvents::new("ops").unwrap().of_jobs()).await;
    let one = bench.process(1).await;

    let launched = launch(&bench, &day("secret-day"), one).await;
    assert!(end(&bench, &launched, BatchStatus::Completed).await);

    let events = events(&bench).await;
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["job.execution.launched", "job.execution.started", "job.execution.completed"]);
    let last = events.last().unwrap();
    assert_eq!((last.topic.as_str(), last.aggregate.kind.as_str()), ("ops", "job_execution"));
    assert_eq!(last.aggregate.id, launched.execution.to_string());
    let Payload::Json(text) = &last.payload else { panic!("{last:?}") };
    let payload: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!((&payload["job"], &payload["status"]), (&"load".into(), &"COMPLETED".into()));
    assert_eq!(payload["execution"], launched.execution.get());
    assert_eq!(payload["instance"], launched.instance.get());
    assert_eq!(payload["at"], bench.now().to_string());
    let has_parameter = |event: &tidemill_domain::outbox::StoredEvent| matches!(&event.payload, Payload::Json(text) if text.contains("secret-day"));
    assert!(!events.iter().any(has_parameter));
}

async fn what_operators_and_crashes_do_to_executions_is_told(bench: Bench) {
    let bench = lifecycle_events(bench, LifecycleEvents::default().of_jobs()).await;
    let one = bench.process(1).await;
    let stopped = launch(&bench, &day("1"), one).await;
    let mut tx = bench.begin().await;
    let _done = tx.jobs().request_stop(stopped.execution, &ann(), Some("why")).await.unwrap();
    let _nothing_new = tx.jobs().request_stop(stopped.execution, &ann(), Some("why")).await.unwrap();
    tx.commit().await.unwrap();
    assert!(end(&bench, &stopped, BatchStatus::Stopped).await);
    let mut tx = bench.begin().await;
    let _done = tx.jobs().abandon_execution(stopped.execution, &ann(), "why").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        told(&bench).await[2..],
        ["job.execution.stopping", "job.execution.stopped", "job.execution.abandoned"]
    );

    let (recovered, lost) = (launch(&bench, &day("2"), one).await, launch(&bench, &day("3"), one).await);
    bench.advance(Duration::from_secs(60));
    let mut tx = bench.begin().await;
    let _done = tx.jobs().recover_execution(recovered.execution, &ann(), "why").await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;
    tx.processes().expire(10).await.unwrap();
    tx.leases().expire(10).await.unwrap();
    let orphans = tx.jobs().recover_orphans(10).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].execution, lost.execution);
    assert_eq!(told(&bench).await[9..], ["job.execution.recovered", "job.execution.lost"]);
}

async fn what_happens_in_a_pool_is_told(bench: Bench) {
    let bench = lifecycle_events(bench, LifecycleEvents::default().of_pools()).await;
    let mut cache = PoolCache::default();
    create(&bench, 10).await;

    ask(&bench, &mut cache, acquire("a", 6)).await;
    ask(&bench, &mut cache, acquire("b", 6)).await;
    give_back(&bench, &mut cache, release("a")).await;
    ask(&bench, &mut cache, acquire("b", 6)).await;
    give_back(&bench, &mut cache, release("b")).await;
    let mut tx = bench.begin().await;
    tx.pools().remove(&adw(), &ann(), None).await.unwrap();
    tx.commit().await.unwrap();

    let types = told(&bench).await;
    assert_eq!(types.first().map(String::as_str), Some("pool.configured"));
    assert_eq!(types.last().map(String::as_str), Some("pool.removed"));
    let count = |wanted: &str| types.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("pool.granted"), count("pool.released")), (2, 2), "{types:?}");
    let b_waited = types.iter().rposition(|kind| kind == "pool.queued").unwrap();
    let a_released = types.iter().position(|kind| kind == "pool.released").unwrap();
    assert!(b_waited < a_released, "{types:?}");
    let all = events(&bench).await;
    assert!(all.iter().all(|event| event.aggregate.to_string() == "pool/ADW"));
    assert!(all.iter().all(|event| event.topic == "tidemill.events"));
}

async fn a_rolled_back_transition_leaves_no_event(bench: Bench) {
    let bench = lifecycle_events(bench, LifecycleEvents::default().of_jobs().of_pools()).await;
    let one = bench.process(1).await;

    let (parameters, actor) = (day("1"), ann());
    let mut tx = bench.begin().await;
    assert!(tx.jobs().launch(&request(&parameters, one, &actor)).await.unwrap().is_ok());
    tx.pools().create(&tidemill_domain::pool::Settings::new(adw(), 5), &actor).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(events(&bench).await, []);
    assert_eq!(numbers(&bench.store, "select count(*) from batch_job_execution").await, [0]);
}

async fn what_is_off_is_not_told(bench: Bench) {
    let one = bench.process(1).await;
    create(&bench, 10).await;
    launch(&bench, &day("1"), one).await;
    assert_eq!(events(&bench).await, []);

    let bench = lifecycle_events(bench, LifecycleEvents::default().of_pools()).await;
    let launched = launch(&bench, &day("2"), one).await;
    assert!(end(&bench, &launched, BatchStatus::Failed).await);
    assert_eq!(events(&bench).await, []);

    let bench = lifecycle_events(bench, LifecycleEvents::default().of_jobs()).await;
    ask(&bench, &mut PoolCache::default(), acquire("a", 6)).await;
    assert_eq!(events(&bench).await, []);
}
