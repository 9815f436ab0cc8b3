//! Chunk steps with several threads: what is done at the same time, what stays in order, and how they end.

mod contention;
mod same;

use super::Stand;
use super::gate::{Gate, kept, stand};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_engine::item::{AsyncProcessor, ItemsReader, ItemsWriter};
use tidemill_engine::job::{
    ChunkScope, ItemProcessor, ItemReader, ItemStream, ItemWriter, Job, JobError, Step,
};
use tidemill_engine::testing::JobBench;
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;
use tokio::sync::{Barrier, watch};

tidemill_store::on_both![
    where_the_database_has_many_writers_chunks_are_written_at_the_same_time,
    a_stop_keeps_what_has_committed_and_a_restart_goes_on_behind_it,
];

const NONE: &JobParameters = &JobParameters::new();

/// Long enough for what must not happen to happen.
const WHILE: Duration = Duration::from_millis(200);

/// Waits until this is so, which has to be in time.
async fn until(is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::SOON, looking).await.expect("it comes to pass");
}

async fn run_in_time(bench: &JobBench, job: &Job) -> tidemill_engine::testing::TestRun {
    tokio::time::timeout(crate::SOON, bench.run(job, NONE)).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn chunks_are_processed_at_the_same_time_and_written_in_order() {
    let bench = JobBench::new().await.unwrap();
    let (written, meeting) = (ItemsWriter::default(), Arc::new(Barrier::new(4)));
    let step = Step::chunk("s", 2)
        .reader(ItemsReader::new("numbers", 1..=40))
        .process(AsyncProcessor(move |n: &i64| {
            let (n, meeting) = (*n, meeting.clone());
            async move {
                // The first item of each of four chunks waits for the others; then some are quicker.
                if n % 2 == 1 {
                    meeting.wait().await;
                }
                tokio::time::sleep(Duration::from_millis((n * 7 % 5) as u64)).await;
                Ok(Some(n))
            }
        }))
        .writer(written.clone())
        .threads(4);

    let run = run_in_time(&bench, &Job::new("meeting").step(step.build())).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(written.items(), Vec::from_iter(1..=40));
}

/// A writer that says what is done with it.
#[derive(Clone, Default)]
struct Counted {
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    writing: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// How many have to meet before one goes on.
    meeting: usize,
}

impl ItemStream for Counted {
    async fn open(&mut self, _: &tidemill_domain::job::ExecutionContext) -> Result<(), ItemError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn close(&mut self, _: bool) -> Result<(), ItemError> {
        self.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl ItemWriter<i64> for Counted {
    async fn write(&mut self, _: &[i64], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        chunk.tx().await?;
        let now = self.writing.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        until(|| self.most.load(Ordering::SeqCst) >= self.meeting).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.writing.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn is_concurrent(&self) -> bool {
        true
    }
}

async fn where_the_database_has_many_writers_chunks_are_written_at_the_same_time(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (most, writers) = match stand.bench.store().dialect() {
        Dialect::Postgres => (4, 5),
        Dialect::Sqlite => (1, 1),
    };
    let writer = Counted { meeting: most, ..Counted::default() };
    let step =
        Step::chunk("s", 1).reader(ItemsReader::new("numbers", 1..=20)).writer(writer.clone()).threads(4);

    let run = run_in_time(&stand.bench, &Job::new("written").step(step.build())).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(writer.most.load(Ordering::SeqCst), most);
    assert_eq!(writer.opened.load(Ordering::SeqCst), writers, "one for each, and one for what is in hand");
    assert_eq!(writer.closed.load(Ordering::SeqCst), writers);
}

#[tokio::test]
async fn while_a_chunk_hangs_only_so_many_are_read() {
    #[derive(Clone)]
    struct Counting(i64, Arc<AtomicUsize>);
    impl ItemStream for Counting {}
    impl ItemReader for Counting {
        type Item = i64;
        async fn read(&mut self) -> Result<Option<i64>, ItemError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0 += 1;
            Ok((self.0 <= 1000).then_some(self.0))
        }
    }
    let bench = JobBench::new().await.unwrap();
    let (reads, gate) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(false));
    let (counted, opened) = (reads.clone(), gate.clone());
    let step = Step::chunk("s", 10)
        .reader(Counting(0, counted))
        .process(AsyncProcessor(move |n: &i64| {
            let (n, mut open) = (*n, opened.subscribe());
            async move {
                if n == 25 {
                    let _never_closed = open.wait_for(|is_open| *is_open).await;
                }
                Ok(Some(n))
            }
        }))
        .writer(ItemsWriter::default())
        .threads(4);
    let launcher = bench.launcher(&Job::new("hanging").step(step.build())).unwrap();
    let running = launcher.launch("hanging", NONE, &Actor::system()).await.unwrap();

    // Two chunks have committed, four are in hand of the threads, and one is read ahead.
    until(|| reads.load(Ordering::SeqCst) >= 70).await;
    tokio::time::sleep(WHILE).await;

    assert_eq!(reads.load(Ordering::SeqCst), 70);
    gate.send_replace(true);
    let run = bench.look(running.ended().await.unwrap()).await.unwrap();
    assert_eq!((run.end.status, run.step("s").unwrap().counters.write), (BatchStatus::Completed, 1000));
}

async fn a_stop_keeps_what_has_committed_and_a_restart_goes_on_behind_it(scratch: Scratch) {
    let stand = stand(scratch).await;
    let gate = Gate::closed();
    let job = gate.threaded_job(4);
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("gated", NONE, &Actor::system()).await.unwrap();
    gate.reached().await;
    let store = stand.bench.store();
    while kept(store).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    launcher.stop_all(Duration::from_secs(10)).await;

    let stopped = stand.bench.look(running.ended().await.unwrap()).await.unwrap();
    assert_eq!(stopped.end.status, BatchStatus::Stopped);
    let counters = stopped.step("numbers").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.commit, counters.rollback), (10, 10, 1, 0));
    assert_eq!(kept(store).await, Vec::from_iter(1..=10), "the third chunk was prepared, and is not there");
    gate.open();
    let finished = run_in_time(&stand.bench, &job).await;
    assert!(finished.is_completed());
    assert_eq!(kept(store).await, Vec::from_iter(1..=30));
}

#[tokio::test]
async fn what_is_prepared_ends_with_its_step() {
    /// Never comes to an end by itself.
    struct Endless(Arc<AtomicUsize>);
    impl ItemProcessor<i64> for Endless {
        type Output = i64;
        async fn process(&mut self, _: &i64) -> Result<Option<i64>, ItemError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }
    impl Drop for Endless {
        fn drop(&mut self) {
            self.0.fetch_add(100, Ordering::SeqCst);
        }
    }
    let (bench, seen) = (JobBench::new().await.unwrap(), Arc::new(AtomicUsize::new(0)));
    let sink = seen.clone();
    let step = Step::chunk("s", 1)
        .reader(ItemsReader::new("numbers", 1..=20))
        .process_with(move |_| Ok(Endless(sink.clone())))
        .writer(ItemsWriter::default())
        .threads(4);
    let launcher = bench.launcher(&Job::new("endless").step(step.build())).unwrap();
    let running = launcher.launch("endless", NONE, &Actor::system()).await.unwrap();
    until(|| seen.load(Ordering::SeqCst) == 4).await;

    launcher.stop_all(Duration::ZERO).await;

    let ended = running.ended().await.unwrap();
    assert_eq!(ended.status, BatchStatus::Stopped);
    until(|| seen.load(Ordering::SeqCst) == 504).await;
}

#[tokio::test]
async fn a_panic_ahead_fails_the_step_at_its_turn_with_its_text() {
    let bench = JobBench::new().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = order.clone();
    let step = Step::chunk("s", 4)
        .reader(ItemsReader::new("numbers", 1..=30))
        .process(AsyncProcessor(move |n: &i64| {
            let (n, order) = (*n, noted.clone());
            async move {
                if n == 2 {
                    // Chunks behind this one have their panic first.
                    until(|| order.lock().unwrap().contains(&9)).await;
                }
                order.lock().unwrap().push(n);
                if n == 9 { panic!("the author's fault") } else { Ok(Some(n)) }
            }
        }))
        .writer(ItemsWriter::default())
        .threads(4);

    let run = run_in_time(&bench, &Job::new("panicking").step(step.build())).await;

    let step = run.step("s").unwrap();
    assert_eq!(
        (run.end.status, step.counters.write),
        (BatchStatus::Failed, 8),
        "what was before it is there"
    );
    assert!(step.exit.description.contains("the author's fault"), "{}", step.exit.description);
}

#[tokio::test]
async fn a_number_of_threads_that_makes_no_sense_is_refused() {
    let bench = JobBench::new().await.unwrap();
    let step = |threads| {
        Step::chunk("s", 1)
            .reader(ItemsReader::new("numbers", 1..=3))
            .writer(ItemsWriter::<i64>::default())
            .threads(threads)
    };
    for (step, reason) in
        [(step(0), "threads is 0"), (step(65), "65 threads"), (step(2).no_read_ahead(), "no_read_ahead")]
    {
        let refused = bench.run(&Job::new("odd").step(step.build()), NONE).await.unwrap_err();
        assert!(matches!(&refused, JobError::BadDefinition { why, .. } if why.contains(reason)), "{refused}");
    }
    let fine = step(64).skip([ErrorKind::READ], 1).build();
    assert!(bench.run(&Job::new("many").step(fine), NONE).await.unwrap().is_completed());
}
