//! The words by which a step says what it tolerates, seen in what a run does. What each rule means in detail, the vectors
//! of Spring Batch say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_engine::item::{ItemsReader, ItemsWriter};
use tidemill_engine::job::{ChunkScope, Delivery, ItemStream, ItemWriter, Job, Step};
use tidemill_engine::testing::JobBench;

const NONE: &JobParameters = &JobParameters::new();

fn numbers() -> ItemsReader<i64> {
    ItemsReader::new("numbers", 1..=10)
}

/// Refuses the first chunk that it gets, once.
#[derive(Clone)]
struct Reluctant(Arc<AtomicUsize>);

impl ItemStream for Reluctant {}

impl ItemWriter<i64> for Reluctant {
    async fn write(&mut self, _: &[i64], _: &mut ChunkScope) -> Result<(), ItemError> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(ItemError::new(ErrorKind::TRANSIENT, "not yet")),
            _ => Ok(()),
        }
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }
}

#[tokio::test]
async fn what_is_never_skipped_fails_the_step_although_all_else_is_skipped() {
    let bench = JobBench::new().await.unwrap();
    let refusing = |number: i64, kind: ErrorKind| {
        Step::chunk("s", 5)
            .reader(numbers())
            .process(
                move |n: &i64| {
                    if *n == number { Err(ItemError::new(kind.clone(), "no")) } else { Ok(Some(*n)) }
                },
            )
            .writer(ItemsWriter::default())
            .skip_all(3)
            .no_skip([ErrorKind::VALIDATION])
            .build()
    };

    let skipped = bench.run(&Job::new("skipped").step(refusing(7, ErrorKind::PROCESS)), NONE).await.unwrap();
    let failed = bench.run(&Job::new("failed").step(refusing(7, ErrorKind::VALIDATION)), NONE).await.unwrap();

    assert!(skipped.is_completed(), "{:?}", skipped.end);
    assert_eq!(skipped.step("s").unwrap().counters.process_skip, 1);
    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(
        (failed.step("s").unwrap().counters.write, failed.step("s").unwrap().counters.process_skip),
        (5, 0)
    );
}

#[tokio::test]
async fn a_processor_without_a_part_in_the_transaction_is_asked_once_for_each_item() {
    for (is_transactional, expected) in [(true, 20), (false, 10)] {
        let bench = JobBench::new().await.unwrap();
        let (asked, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = asked.clone();
        let step = Step::chunk("s", 10)
            .reader(numbers())
            .process(move |n: &i64| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, ItemError>(Some(*n))
            })
            .writer(Reluctant(written))
            .retry([ErrorKind::TRANSIENT], 2);
        let step = if is_transactional { step } else { step.processor_non_transactional() };

        let run = bench.run(&Job::new("asked").step(step.build()), NONE).await.unwrap();

        assert!(run.is_completed(), "{:?}", run.end);
        assert_eq!(asked.load(Ordering::SeqCst), expected, "transactional: {is_transactional}");
    }
}

#[tokio::test]
async fn a_step_that_tolerates_nothing_yet_repeats_its_chunk_before_it_fails() {
    let bench = JobBench::new().await.unwrap();
    let step = || {
        Step::chunk("s", 5)
            .reader(numbers())
            .process(|n: &i64| match n {
                7 => Err(ItemError::new(ErrorKind::PROCESS, "seven")),
                _ => Ok(Some(*n)),
            })
            .writer(ItemsWriter::default())
    };

    let plain = bench.run(&Job::new("plain").step(step().build()), NONE).await.unwrap();
    let tolerant =
        bench.run(&Job::new("tolerant").step(step().fault_tolerant().build()), NONE).await.unwrap();

    for (run, rollbacks) in [(plain, 1), (tolerant, 2)] {
        assert_eq!(run.end.status, BatchStatus::Failed);
        let counters = run.step("s").unwrap().counters;
        assert_eq!((counters.write, counters.rollback), (5, rollbacks));
    }
}
