//! Chunks that are committed in one round trip, with their rows and events.

use super::Stand;
use super::chunk::{into_target, run_sql, targets};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::JobParameters;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_domain::time::FakeClock;
use tidemill_engine::item::{CompositeWriter, ItemsReader, OutboxWriter};
use tidemill_engine::job::{Job, Step};
use tidemill_engine::testing::JobBench;
use tidemill_store::outbox::EventFilter;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions};
use tidemill_testkit::CommitProxy;

tidemill_store::on_both![rows_that_could_not_be_committed_with_their_chunk_are_written_once_more,];

const NONE: &JobParameters = &JobParameters::new();

/// Outputs are kept between attempts, so the writer must get them again.
async fn rows_that_could_not_be_committed_with_their_chunk_are_written_once_more(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = &stand.bench;
    run_sql(bench.store(), "create table target (n bigint primary key check (n <> 14))").await;
    let step = Step::chunk("s", 3)
        .reader(ItemsReader::new("numbers", 1..=10))
        .process(|n: &i64| Ok((*n != 5).then_some(n * 2)))
        .writer_with(into_target)
        .processor_non_transactional()
        .skip([ErrorKind::CONSTRAINT], 5);

    let run = bench.run(&Job::new("kept").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(targets(bench.store()).await, [2, 4, 6, 8, 12, 16, 18, 20]);
    let counters = run.step("s").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.write_skip, counters.filter), (10, 8, 1, 1));
    // As in Spring Batch, the call that finds the end counts.
    assert_eq!(run.context("s").unwrap().get_long("numbers.read.count"), Some(11));
}

/// Counted on the wire: what a run costs beside its chunks does not depend on their number.
#[tokio::test]
async fn each_chunk_of_a_table_and_the_outbox_costs_one_round_trip() {
    let Some(scratch) = Scratch::postgres_with_schema().await else { return };
    let wire = CommitProxy::in_front_of(scratch.url()).unwrap();
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let options = StoreOptions { clock: Some(clock.clone()), max_connections: 2, ..StoreOptions::default() };
    let store = Store::open(wire.url().parse().unwrap(), &options).await.unwrap();
    let bench = JobBench::with_lease(store, clock, crate::TTL).await.unwrap();
    run_sql(bench.store(), "create table target (n bigint not null)").await;
    let mut costs = Vec::new();

    // Events come last: their wake-ups may be sent after the run has ended.
    for (chunks, has_events) in [(1_i64, false), (20, false), (60, false), (60, true)] {
        let step =
            Step::chunk("s", 1).reader(ItemsReader::new("numbers", 1..=chunks)).writer_with(move |scope| {
                let writer = CompositeWriter::new().and(into_target(scope)?);
                Ok(if has_events { writer.and(OutboxWriter::new(event_of)) } else { writer })
            });
        let before = wire.statements();
        let parameters = JobParameters::new().with("n", i64::from(before));
        let run = bench.run(&Job::new("wire").step(step.build()), &parameters).await.unwrap();
        assert_eq!(run.step("s").unwrap().counters.write, chunks.unsigned_abs());
        costs.push(wire.statements() - before);
    }

    // A connection that is opened in between costs a few.
    assert!((40..=45).contains(&(costs[2] - costs[1])), "{costs:?}");
    // A wake-up of the relays costs three more per chunk, or less if chunks share it. A transaction per chunk would add four to
    // each.
    assert!(costs[3] - costs[2] <= 3 * 60 + 5, "{costs:?}");
    assert_eq!(targets(bench.store()).await.len(), 141);
    let mut tx = bench.store().read().await.unwrap();
    assert_eq!(tx.outbox().events(&EventFilter::default(), 1000).await.unwrap().len(), 60);
}

fn event_of(number: &i64) -> Result<NewEvent, ItemError> {
    Ok(NewEvent::new("number", "one", "counted", "numbers", Payload::Json(number.to_string()))?)
}
