//! Steps that Spring Batch has begun, and contexts that nobody can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::context::spring::ITEMS_KEY;
use tidemill_domain::job::track::items_behind;
use tidemill_domain::job::{BatchStatus, ExecutionContext, JobParameters};
use tidemill_engine::item::{ItemsReader, ItemsWriter};
use tidemill_engine::job::{ItemReader, ItemStream, Job, Step};
use tidemill_engine::testing::JobBench;

const NONE: &JobParameters = &JobParameters::new();

/// Fails at the first item, while it is told so.
fn job<R: ItemReader<Item = i64> + Clone>(
    reader: R,
    fails: &Arc<AtomicBool>,
    written: &ItemsWriter<i64>,
) -> Job {
    let failing = fails.clone();
    let step = Step::chunk("s", 5)
        .reader(reader)
        .process(move |n: &i64| match failing.load(Ordering::SeqCst) {
            true => Err(ItemError::new(ErrorKind::PROCESS, "x")),
            false => Ok(Some(*n)),
        })
        .writer(written.clone());
    Job::new("begun").step(step.build())
}

/// Puts a context in the place of those that are stored.
async fn store_context(bench: &JobBench, text: &str) {
    let mut tx = bench.store().begin().await.unwrap();
    let sql = format!("update batch_step_execution_context set short_context = '{text}'");
    tx.execute_for_test(&sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// The context of a chunk step of Spring Batch that has read two items.
fn begun() -> String {
    let mut context = ExecutionContext::new();
    let package = "org.springframework.batch.core.step";
    context.put("batch.stepType", format!("{package}.tasklet.TaskletStep"));
    context.put("batch.taskletType", format!("{package}.item.ChunkOrientedTasklet"));
    context.put("FlatFileItemReader.read.count", 2);
    context.to_text().unwrap()
}

#[tokio::test]
async fn a_step_that_spring_batch_has_begun_goes_on_after_its_items() {
    let bench = JobBench::new().await.unwrap();
    let (fails, written) = (Arc::new(AtomicBool::new(true)), ItemsWriter::default());
    let job = job(ItemsReader::new("numbers", 1..=10), &fails, &written);
    bench.run(&job, NONE).await.unwrap();
    store_context(&bench, &begun()).await;

    // The first run after Spring Batch commits nothing, and the second one begins at the same item.
    let first = bench.run(&job, NONE).await.unwrap();
    fails.store(false, Ordering::SeqCst);
    let second = bench.run(&job, NONE).await.unwrap();

    assert_eq!(items_behind(first.context("s").unwrap()), Some(2));
    assert!(second.is_completed(), "{:?}", second.end);
    assert_eq!(written.items(), [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(second.context("s").unwrap().get(ITEMS_KEY), None);
    assert_eq!(second.context("s").unwrap().get_long("numbers.read.count"), Some(11));
}

#[tokio::test]
async fn a_reader_without_a_fixed_order_does_not_continue_spring_batch() {
    #[derive(Clone)]
    struct Shuffled(ItemsReader<i64>);
    impl ItemStream for Shuffled {}
    impl ItemReader for Shuffled {
        type Item = i64;

        async fn read(&mut self) -> Result<Option<i64>, ItemError> {
            self.0.read().await
        }
    }
    let bench = JobBench::new().await.unwrap();
    let (fails, written) = (Arc::new(AtomicBool::new(true)), ItemsWriter::default());
    let job = job(Shuffled(ItemsReader::new("numbers", 1..=10)), &fails, &written);
    bench.run(&job, NONE).await.unwrap();
    store_context(&bench, &begun()).await;
    fails.store(false, Ordering::SeqCst);

    let run = bench.run(&job, NONE).await.unwrap();

    assert_eq!(run.end.status, BatchStatus::Failed);
    assert!(run.end.exit.description.contains("another order"), "{:?}", run.end);
    assert_eq!(written.items(), [0_i64; 0]);
}

#[tokio::test]
async fn a_step_that_somebody_else_has_begun_in_another_form_fails_with_the_reason() {
    let bench = JobBench::new().await.unwrap();
    let (fails, written) = (Arc::new(AtomicBool::new(true)), ItemsWriter::default());
    let job = job(ItemsReader::new("numbers", 1..=10), &fails, &written);
    bench.run(&job, NONE).await.unwrap();
    store_context(&bench, "rO0ABXNyABFqYXZh").await;
    fails.store(false, Ordering::SeqCst);

    let run = bench.run(&job, NONE).await.unwrap();

    assert_eq!(run.end.status, BatchStatus::Failed);
    assert!(run.end.exit.description.contains("Java"), "{:?}", run.end);
}
