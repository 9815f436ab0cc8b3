//! Chunks that write events: they commit with the chunk, and are gone with it.

use super::Stand;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_engine::item::sql::SqlWriter;
use tidemill_engine::item::{CompositeWriter, ItemsReader, OutboxWriter};
use tidemill_engine::job::{Job, Rejects, Step};
use tidemill_store::Store;
use tidemill_store::outbox::EventFilter;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_chunk_that_fails_leaves_no_event_and_one_that_commits_exactly_its_items,
    an_item_whose_event_is_not_accepted_is_skipped_and_kept_with_the_code,
    several_threads_write_events_in_the_order_of_the_items,
];

const NONE: &JobParameters = &JobParameters::new();

fn numbers() -> ItemsReader<i64> {
    ItemsReader::new("numbers", 1..=10)
}

/// All are of one aggregate, so that their order counts.
fn counted(number: i64) -> Result<NewEvent, ItemError> {
    Ok(NewEvent::new("counter", "one", "counted", "numbers", Payload::Json(number.to_string()))?)
}

/// What the events say, the oldest first.
async fn published(store: &Store) -> Vec<String> {
    let mut tx = store.read().await.unwrap();
    let mut texts = Vec::new();
    for record in tx.outbox().events(&EventFilter::default(), 10_000).await.unwrap().into_iter().rev() {
        match tx.outbox().event(record.id).await.unwrap().unwrap().payload {
            Payload::Json(text) => texts.push(text),
            other => panic!("{other:?}"),
        }
    }
    texts
}

fn texts(numbers: impl IntoIterator<Item = i64>) -> Vec<String> {
    numbers.into_iter().map(|number| number.to_string()).collect()
}

pub(super) async fn count(store: &Store, query: &'static str) -> i64 {
    let mut tx = store.read().await.unwrap();
    match tx.postgres() {
        Some(postgres) => tidemill_store::sqlx::query_scalar(query).fetch_one(postgres).await.unwrap(),
        None => tidemill_store::sqlx::query_scalar(query).fetch_one(tx.sqlite().unwrap()).await.unwrap(),
    }
}

async fn a_chunk_that_fails_leaves_no_event_and_one_that_commits_exactly_its_items(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (store, fails) = (stand.bench.store(), Arc::new(AtomicBool::new(true)));
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table target (n bigint not null primary key)").await.unwrap();
    tx.commit().await.unwrap();
    let failing = fails.clone();
    let step = Step::chunk("s", 3).reader(numbers()).writer_with(move |scope| {
        let failing = failing.clone();
        let events = OutboxWriter::new(|number: &i64| counted(*number));
        // The table comes last: the events of the chunk are written when it refuses a row.
        let rows = SqlWriter::new(scope.store(), "target", ["n"], move |number: &i64| {
            let is_refused = *number == 8 && failing.load(Ordering::SeqCst);
            vec![if is_refused { Value::Null } else { (*number).into() }]
        });
        Ok(CompositeWriter::new().and(events).and(rows))
    });
    let job = Job::new("events").step(step.build());

    let first = stand.bench.run(&job, NONE).await.unwrap();
    let after_failure = published(store).await;
    fails.store(false, Ordering::SeqCst);
    let second = stand.bench.run(&job, NONE).await.unwrap();

    assert_eq!(first.end.status, BatchStatus::Failed);
    assert_eq!(after_failure, texts(1..=6));
    assert!(second.is_completed());
    assert_eq!(published(store).await, texts(1..=10));
    assert_eq!(count(store, "select count(*) from target").await, 10);
    assert_eq!(second.step("s").unwrap().delivery.as_deref(), Some("exactly-once"));
}

async fn an_item_whose_event_is_not_accepted_is_skipped_and_kept_with_the_code(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    let step = Step::chunk("s", 4)
        .reader(numbers())
        .writer(OutboxWriter::new(|number: &i64| {
            let key = if number % 5 == 0 { String::new() } else { number.to_string() };
            let payload = Payload::Json(number.to_string());
            Ok(NewEvent::new("counter", key, "counted", "numbers", payload)?)
        }))
        .skip([ErrorKind::VALIDATION], 5)
        .rejects(Rejects::table());

    let run = stand.bench.run(&Job::new("skipping").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(run.step("s").unwrap().counters.write_skip, 2);
    assert_eq!(published(store).await, texts((1..=10).filter(|number| number % 5 != 0)));
    let kept = "select count(*) from tidemill_reject where kind = 'validation'
                    and error like 'TM1401: the event is not accepted: the aggregate id is %'";
    assert_eq!(count(store, kept).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_skip_the_step_fails_with_the_code_of_the_event() {
    let stand = Stand::on(Scratch::file()).await;
    let step = Step::chunk("s", 4).reader(numbers()).writer(OutboxWriter::new(|number: &i64| {
        let payload = Payload::Json(number.to_string());
        Ok(NewEvent::new("counter", "one", "counted", "no topic", payload)?)
    }));

    let run = stand.bench.run(&Job::new("failing").step(step.build()), NONE).await.unwrap();

    assert_eq!(run.end.status, BatchStatus::Failed);
    let told = &run.end.exit.description;
    assert!(told.contains("TM1401: the event is not accepted: a topic is 1 to 249"), "{told}");
    assert!(published(stand.bench.store()).await.is_empty());
}

/// Chunks are processed at the same time and in any order; events have their numbers in the order of the items.
async fn several_threads_write_events_in_the_order_of_the_items(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let step = Step::chunk("s", 2)
        .reader(ItemsReader::new("numbers", 1..=60_i64))
        .process(|number: &i64| {
            // The first of every three chunks is slow, so that later ones are ready before it.
            if (number / 2) % 3 == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(Some(*number))
        })
        .writer(OutboxWriter::new(|number: &i64| counted(*number)))
        .threads(4);

    let run = stand.bench.run(&Job::new("threads").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(published(stand.bench.store()).await, texts(1..=60));
}
