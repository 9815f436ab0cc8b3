//! Each item takes effect once at a service that honours the key, whatever happens on the way.

use crate::{endpoint, failure, json, run};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_engine::item::{ClassifierWriter, CompositeWriter, ItemsReader, MappedWriter};
use tidemill_engine::job::{Delivery, Job, Step};
use tidemill_engine::testing::JobBench;
use tidemill_http::{Batch, HttpEndpoint, HttpWriter};
use tidemill_testkit::{HttpService, Received, Reply};

const ITEMS: u64 = 20;

/// Sends the numbers up to 20 in chunks of six, and skips at most three that are not accepted.
fn job(endpoint: HttpEndpoint, batch: Batch) -> Job {
    job_in_chunks(6, endpoint, batch)
}

fn job_in_chunks(size: usize, endpoint: HttpEndpoint, batch: Batch) -> Job {
    let step = Step::chunk("send", size)
        .reader(ItemsReader::new("numbers", 1..=ITEMS))
        .writer_with(move |scope| Ok(HttpWriter::new("service", scope, endpoint.clone()).batch(batch)))
        .skip_all(3);
    Job::new("send").step(step.build())
}

/// What the service has done: the first body of each key. A key must never come with another body.
fn effects(service: &HttpService) -> BTreeMap<String, String> {
    let mut effects = BTreeMap::new();
    for Received { headers, body, .. } in service.received() {
        let key = headers.into_iter().find(|(name, _)| name == "idempotency-key").unwrap().1;
        let first = effects.entry(key).or_insert(body.clone());
        assert_eq!(*first, body, "a key was used for two bodies");
    }
    effects
}

/// The items of all effects, in order.
fn items(service: &HttpService) -> Vec<u64> {
    let mut items: Vec<u64> = effects(service).values().map(|body| json(body).as_u64().unwrap()).collect();
    items.sort_unstable();
    items
}

fn all() -> Vec<u64> {
    (1..=ITEMS).collect()
}

#[tokio::test]
async fn every_item_is_sent_with_its_own_key() {
    let service = HttpService::start(|_, _| Reply::new(201, "")).unwrap();
    let bench = JobBench::new().await.unwrap();

    let endpoint = endpoint(&service, "/in").header("x-tenant", "t");
    let ran = run(&bench, &job(endpoint, Batch::Each)).await;

    assert!(ran.is_completed());
    assert_eq!(ran.step("send").unwrap().delivery.as_deref(), Some(Delivery::AtLeastOnce.as_str()));
    assert_eq!((items(&service), service.received().len()), (all(), ITEMS as usize));
    let first = &service.received()[0];
    assert_eq!((first.method.as_str(), first.header("x-tenant")), ("POST", Some("t")));
    assert_eq!(first.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_repeated_request_has_the_same_key() {
    let service = HttpService::start(|_, before| match before {
        3 => Reply::new(503, ""),
        4 => Reply::new(429, "").with("retry-after", "0"),
        6 => Reply::new(201, "half of an answer").cut(),
        _ => Reply::new(201, ""),
    })
    .unwrap();
    let bench = JobBench::new().await.unwrap();

    let ran = run(&bench, &job(endpoint(&service, "/in"), Batch::Each)).await;

    assert!(ran.is_completed());
    assert_eq!(
        (items(&service), service.received().len()),
        (all(), ITEMS as usize + 2),
        "201 is a success, whatever follows"
    );
}

/// Fails in the second chunk, whose first items were sent, and goes on when the service is well again.
async fn effects_after_a_restart(batch: Batch) -> HttpService {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = is_broken.clone();
    let service = HttpService::start(move |request, _| {
        let is_hit = request.body == "9" || request.body.starts_with("[7,");
        let status = if is_hit && broken.load(Ordering::SeqCst) { 403 } else { 200 };
        Reply::new(status, "")
    })
    .unwrap();
    let bench = JobBench::new().await.unwrap();
    let job = job(endpoint(&service, "/in"), batch);

    let failed = run(&bench, &job).await;
    is_broken.store(false, Ordering::SeqCst);
    let ran = run(&bench, &job).await;

    assert!(failure(&failed).contains("answered 403"));
    assert!(ran.is_completed());
    service
}

#[tokio::test]
async fn a_restart_sends_the_keys_of_the_run_before() {
    let service = effects_after_a_restart(Batch::Each).await;

    assert_eq!(items(&service), all());
    // 7 and 8 were sent before the failure, and once more.
    assert_eq!(service.received().len(), ITEMS as usize + 3);
}

#[tokio::test]
async fn the_key_of_an_item_does_not_depend_on_the_size_of_chunks() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = is_broken.clone();
    let service = HttpService::start(move |request, _| {
        let is_hit = request.body == "12" && broken.load(Ordering::SeqCst);
        Reply::new(if is_hit { 403 } else { 200 }, "")
    })
    .unwrap();
    let bench = JobBench::new().await.unwrap();

    let failed = run(&bench, &job(endpoint(&service, "/in"), Batch::Each)).await;
    is_broken.store(false, Ordering::SeqCst);
    let ran = run(&bench, &job_in_chunks(4, endpoint(&service, "/in"), Batch::Each)).await;

    assert!(failure(&failed).contains("answered 403") && ran.is_completed());
    // 7 to 12 were sent twice, in other chunks.
    assert_eq!((items(&service), service.received().len()), (all(), ITEMS as usize + 6));
}

#[tokio::test]
async fn a_chunk_is_one_request_with_one_key() {
    let service = effects_after_a_restart(Batch::Chunk).await;

    let bodies: BTreeSet<String> = effects(&service).into_values().collect();
    let chunk = |first: u64, last: u64| json!((first..=last).collect::<Vec<_>>()).to_string();
    assert_eq!(bodies, BTreeSet::from([chunk(1, 6), chunk(7, 12), chunk(13, 18), chunk(19, 20)]));
    assert_eq!(service.received().len(), 5);
}

#[tokio::test]
async fn an_item_that_is_not_accepted_is_skipped_and_no_key_is_used_for_another() {
    let service = HttpService::start(|request, _| {
        let is_refused = ["9", "10"].contains(&request.body.as_str());
        Reply::new(if is_refused { 422 } else { 200 }, "")
    })
    .unwrap();
    let bench = JobBench::new().await.unwrap();

    let ran = run(&bench, &job(endpoint(&service, "/in"), Batch::Each)).await;

    assert!(ran.is_completed());
    assert_eq!(ran.step("send").unwrap().counters.write_skip, 2);
    // Those that were refused had keys too, and nobody else got them.
    assert_eq!(items(&service), all());
}

#[tokio::test]
async fn writers_of_one_step_never_share_a_key() {
    let service = HttpService::start(|_, _| Reply::new(201, "")).unwrap();
    let bench = JobBench::new().await.unwrap();
    let endpoint = endpoint(&service, "/in");
    let step =
        Step::chunk("send", 6).reader(ItemsReader::new("numbers", 1..=ITEMS)).writer_with(move |scope| {
            let writer = |name: &str| HttpWriter::new(name, scope, endpoint.clone());
            let hundreds = MappedWriter::new(writer("hundreds"), |number: &u64| Ok(number + 100));
            let choice =
                ClassifierWriter::new(|number: &u64| number % 2).on(0, writer("even")).on(1, writer("odd"));
            Ok(CompositeWriter::new().and(choice).and(hundreds))
        });

    let ran = run(&bench, &Job::new("send").step(step.build())).await;

    assert!(ran.is_completed());
    assert_eq!(items(&service), all().into_iter().chain(101..=100 + ITEMS).collect::<Vec<_>>());
}

#[tokio::test]
async fn two_instances_never_share_a_key() {
    let service = HttpService::start(|_, _| Reply::new(200, "")).unwrap();

    for _ in 0..2 {
        // Another database, in which the instance has the same number; and another time.
        let bench = JobBench::new().await.unwrap();
        bench.clock().advance(std::time::Duration::from_secs(service.received().len() as u64));
        run(&bench, &job(endpoint(&service, "/in"), Batch::Each)).await;
    }

    assert_eq!(effects(&service).len(), 2 * ITEMS as usize);
}
