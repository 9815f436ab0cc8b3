//! Chunk steps beyond the vectors: when a chunk is complete, what is remembered, what survives a failure.

use super::Stand;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Row, Value};
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::step::OFFSET_KEY;
use tidemill_domain::job::{BatchStatus, ExecutionContext, ExitStatus, JobParameters};
use tidemill_domain::time::FakeClock;
use tidemill_engine::item::sql::{Mode, SqlWriter};
use tidemill_engine::item::{ItemsReader, ItemsWriter, ReaderExt};
use tidemill_engine::job::listener::{
    ItemListener, JobListener, JobRun, RetryListener, StepListener, StepRun,
};
use tidemill_engine::job::{
    ChunkScope, Delivery, ItemReader, ItemStream, ItemWriter, Job, JobError, Step, StepScope,
};
use tidemill_engine::testing::JobBench;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    rows_position_and_counters_of_a_chunk_commit_together_and_a_restart_goes_on,
    a_row_that_the_database_refuses_is_found_skipped_and_kept_as_a_reject,
    a_failure_in_the_middle_of_a_scan_is_gone_on_with_behind_what_was_settled,
];

const NONE: &JobParameters = &JobParameters::new();

fn numbers() -> ItemsReader<i64> {
    ItemsReader::new("numbers", 1..=10)
}

pub(super) async fn run_sql(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// Rows of `target`, in order.
pub(super) async fn targets(store: &Store) -> Vec<i64> {
    let mut tx = store.read().await.unwrap();
    let query = "select n from target order by n";
    let rows: Vec<(i64,)> = if let Some(postgres) = tx.postgres() {
        tidemill_store::sqlx::query_as(query).fetch_all(postgres).await.unwrap()
    } else {
        tidemill_store::sqlx::query_as(query).fetch_all(tx.sqlite().unwrap()).await.unwrap()
    };
    rows.into_iter().map(|(n,)| n).collect()
}

pub(super) fn into_target(
    scope: &StepScope,
) -> Result<SqlWriter<impl FnMut(&i64) -> Vec<Value> + Send + use<>>, ItemError> {
    Ok(SqlWriter::new(scope.store(), "target", ["n"], |n: &i64| vec![(*n).into()]))
}

#[tokio::test]
async fn a_chunk_also_commits_by_age_and_by_what_is_in_it() {
    #[derive(Clone)]
    struct Slow(Arc<FakeClock>, i64);
    impl ItemStream for Slow {}
    impl ItemReader for Slow {
        type Item = i64;
        async fn read(&mut self) -> Result<Option<i64>, ItemError> {
            self.0.advance(Duration::from_secs(1));
            self.1 += 1;
            Ok((self.1 <= 6).then_some(self.1))
        }
    }
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let stand = Stand::with_clock(clock.clone()).await;
    let aged = Step::chunk("s", 1000)
        .reader(Slow(clock, 0))
        .writer(ItemsWriter::default())
        .time_limit(Duration::from_secs(2))
        .no_read_ahead();
    let grouped = Step::chunk("s", 1000)
        .reader(numbers())
        .writer(ItemsWriter::default())
        .complete_when(|chunk| chunk.last % 5 == 0 && chunk.items == 5);

    let by_age = stand.bench.run(&Job::new("aged").step(aged.build()), NONE).await.unwrap();
    let by_group = stand.bench.run(&Job::new("grouped").step(grouped.build()), NONE).await.unwrap();

    assert_eq!(by_age.step("s").unwrap().counters.commit, 3, "two of three items and an empty one");
    assert_eq!(by_group.step("s").unwrap().counters.commit, 3, "two of five items and an empty one");
}

async fn rows_position_and_counters_of_a_chunk_commit_together_and_a_restart_goes_on(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, fails) = (&stand.bench, Arc::new(AtomicBool::new(true)));
    run_sql(bench.store(), "create table target (n bigint not null)").await;
    let failing = fails.clone();
    let step = Step::chunk("s", 3)
        .reader(numbers())
        .process(move |n: &i64| {
            let fails = *n == 8 && failing.load(Ordering::SeqCst);
            if fails { Err(ItemError::new(ErrorKind::PROCESS, "not this one")) } else { Ok(Some(*n)) }
        })
        .writer_with(into_target);
    let job = Job::new("going-on").step(step.build());

    let first = bench.run(&job, NONE).await.unwrap();
    assert_eq!((first.end.status, first.end.code), (BatchStatus::Failed, Some(Code::ExecutionFailed)));
    assert_eq!(targets(bench.store()).await, (1..=6).collect::<Vec<_>>());
    assert_eq!(first.context("s").unwrap().get_long("numbers.read.count"), Some(6));
    fails.store(false, Ordering::SeqCst);
    let second = bench.run(&job, NONE).await.unwrap();

    assert!(second.is_completed());
    assert_eq!(targets(bench.store()).await, (1..=10).collect::<Vec<_>>());
    assert_eq!(second.step("s").unwrap().counters.write, 4);
    assert_eq!(second.step("s").unwrap().delivery.as_deref(), Some("exactly-once"));
    assert_eq!(second.context("s").unwrap().get("batch.restart"), Some(&true.into()));
}

async fn a_row_that_the_database_refuses_is_found_skipped_and_kept_as_a_reject(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = &stand.bench;
    run_sql(bench.store(), "create table target (n bigint primary key)").await;
    run_sql(bench.store(), "insert into target values (4)").await;
    let step = |mode: Mode| {
        Step::chunk("s", 5)
            .reader(numbers())
            .writer_with(move |scope| {
                let writer = SqlWriter::new(scope.store(), "target", ["n"], |n: &i64| vec![(*n).into()]);
                Ok(writer.mode(mode.clone()))
            })
            .skip([ErrorKind::CONSTRAINT], 5)
            .no_rollback([ErrorKind::CONSTRAINT])
            .rejects(tidemill_engine::job::Rejects::table())
            .build()
    };

    let run = bench.run(&Job::new("refused").step(step(Mode::Copy)), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    let recorded = run.step("s").unwrap();
    assert_eq!((recorded.counters.write, recorded.counters.write_skip), (9, 1));
    assert_eq!(recorded.counters.rollback, 1, "only the one before the scan");
    assert_eq!(targets(bench.store()).await, (1..=10).collect::<Vec<_>>());
    let rejects = bench.store().read().await.unwrap().jobs().rejects(recorded.id, 0, 10).await.unwrap();
    assert_eq!(rejects.len(), 1);
    assert_eq!((rejects[0].phase.as_str(), rejects[0].kind.as_str()), ("write", "constraint"));
    assert_eq!(rejects[0].item.as_deref(), Some("4"));
    run_sql(bench.store(), "delete from target where n > 8").await;
    let upsert = Mode::Upsert { key: vec!["n".into()] };
    let again = bench.run(&Job::new("upserted").step(step(upsert)), NONE).await.unwrap();
    assert_eq!(again.step("s").unwrap().counters.write, 10);
    assert_eq!(targets(bench.store()).await, (1..=10).collect::<Vec<_>>());
}

async fn a_failure_in_the_middle_of_a_scan_is_gone_on_with_behind_what_was_settled(scratch: Scratch) {
    /// Fails on item 3, and fatally on one more while it is told to, which is another one in each run.
    #[derive(Clone)]
    struct Picky(Arc<AtomicUsize>);
    impl ItemStream for Picky {}
    impl ItemWriter<i64> for Picky {
        async fn write(&mut self, items: &[i64], chunk: &mut ChunkScope) -> Result<(), ItemError> {
            for n in items {
                let sql = format!("insert into target values ({n})");
                chunk.tx().await?.execute_for_test(&sql).await?;
                if *n == 3 {
                    return Err(ItemError::new(ErrorKind::WRITE, "three"));
                }
                if *n == self.0.load(Ordering::SeqCst) as i64 && items.len() == 1 {
                    return Err(ItemError::new(ErrorKind::FATAL, "not this one"));
                }
                if *n == 9 {
                    return Err(ItemError::new(ErrorKind::WRITE, "nine"));
                }
            }
            Ok(())
        }
        fn delivery(&self) -> Delivery {
            Delivery::ExactlyOnce
        }
    }
    let stand = Stand::on(scratch).await;
    let (bench, fails) = (&stand.bench, Arc::new(AtomicUsize::new(5)));
    run_sql(bench.store(), "create table target (n bigint not null)").await;
    let failing = fails.clone();
    let step = Step::chunk("s", 6).reader(numbers()).writer(Picky(failing)).skip([ErrorKind::WRITE], 10);
    let job = Job::new("scanning").step(step.build());

    let first = bench.run(&job, NONE).await.unwrap();
    assert_eq!(first.end.status, BatchStatus::Failed);
    assert_eq!(targets(bench.store()).await, [1, 2, 4]);
    assert_eq!(first.context("s").unwrap().get_long(OFFSET_KEY), Some(4));
    // The second run begins behind the four that are settled, scans again, and fails again.
    fails.store(8, Ordering::SeqCst);
    let second = bench.run(&job, NONE).await.unwrap();
    assert_eq!(second.end.status, BatchStatus::Failed);
    assert_eq!(targets(bench.store()).await, [1, 2, 4, 5, 6, 7]);
    assert_eq!(second.context("s").unwrap().get_long(OFFSET_KEY), Some(7));
    fails.store(0, Ordering::SeqCst);
    let third = bench.run(&job, NONE).await.unwrap();

    assert!(third.is_completed(), "{:?}", third.end);
    assert_eq!(targets(bench.store()).await, [1, 2, 4, 5, 6, 7, 8, 10]);
    assert_eq!(third.context("s").unwrap().get_long(OFFSET_KEY), None);
}

#[tokio::test]
async fn transient_errors_are_tried_again_after_a_pause_and_told() {
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);
    impl RetryListener for Recorder {
        fn on_retry(&self, phase: Phase, error: &ItemError) {
            self.0.lock().unwrap().push(format!("{} {error}", phase.as_str()));
        }
    }
    let bench = JobBench::new().await.unwrap();
    let (attempts, told) = (Arc::new(AtomicUsize::new(0)), Recorder::default());
    let counted = attempts.clone();
    let step = Step::chunk("s", 10)
        .reader(numbers())
        .process(move |n: &i64| {
            if *n == 4 && counted.fetch_add(1, Ordering::SeqCst) < 2 {
                return Err(ItemError::new(ErrorKind::TRANSIENT, "busy"));
            }
            Ok(Some(*n))
        })
        .writer(ItemsWriter::default())
        .retry([ErrorKind::TRANSIENT], 3)
        .backoff(Backoff::new(Duration::from_millis(1), 2.0, Duration::from_millis(4), 0.0).unwrap())
        .retry_listener(told.clone());

    let run = bench.run(&Job::new("retrying").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed());
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
    assert_eq!(run.step("s").unwrap().counters.rollback, 2);
    assert_eq!(*told.0.lock().unwrap(), ["process busy", "process busy"]);
}

#[tokio::test]
async fn a_panic_fails_the_step_and_not_the_program() {
    let bench = JobBench::new().await.unwrap();
    let step = Step::chunk("s", 4)
        .reader(numbers())
        .process(|n: &i64| if *n == 6 { panic!("the author's fault") } else { Ok(Some(*n)) })
        .writer(ItemsWriter::default());

    let run = bench.run(&Job::new("panicking").step(step.build()), NONE).await.unwrap();

    assert_eq!(run.end.status, BatchStatus::Failed);
    let step = run.step("s").unwrap();
    assert!(step.exit.description.contains("the author's fault"), "{}", step.exit.description);
    assert_eq!(step.counters.write, 4, "what was committed stands");
}

#[tokio::test]
async fn a_context_that_is_too_large_fails_the_step_with_its_code() {
    #[derive(Clone)]
    struct Hoarder;
    impl ItemStream for Hoarder {
        fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
            context.put("all", "x".repeat(70_000));
            Ok(())
        }
    }
    impl ItemWriter<i64> for Hoarder {
        async fn write(&mut self, _: &[i64], _: &mut ChunkScope) -> Result<(), ItemError> {
            Ok(())
        }
    }
    let bench = JobBench::new().await.unwrap();
    let step = Step::chunk("s", 4).reader(numbers()).writer(Hoarder);

    let run = bench.run(&Job::new("hoarding").step(step.build()), NONE).await.unwrap();

    assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(Code::ContextTooLarge)));
    assert_eq!(run.step("s").unwrap().counters.commit, 0);
}

#[tokio::test]
async fn listeners_hear_of_everything_and_can_set_the_exit_code() {
    #[derive(Clone, Default)]
    struct Ears(Arc<Mutex<Vec<String>>>);
    impl Ears {
        fn hear(&self, text: impl Into<String>) {
            self.0.lock().unwrap().push(text.into());
        }
    }
    impl JobListener for Ears {
        fn before_job(&self, run: &JobRun) {
            self.hear(format!("before {} {}", run.job, run.status));
        }
        fn after_job(&self, run: &JobRun) {
            self.hear(format!("after {} {}", run.status, run.exit.code));
        }
    }
    impl StepListener for Ears {
        fn before_step(&self, _: &StepScope, context: &mut ExecutionContext) {
            context.put("greeting", "hello");
        }
        fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
            let greeting = run.context.get_text("greeting").unwrap_or_default().to_owned();
            self.hear(format!("step {} {greeting}", run.counters.write));
            run.job_context.put("written", run.counters.write);
            Some(ExitStatus::new("COMPLETED WITH LISTENERS"))
        }
    }
    impl ItemListener<i64, i64> for Ears {
        fn after_process(&self, item: &i64, output: Option<&i64>) {
            self.hear(format!("p{item}{}", if output.is_some() { "" } else { " filtered" }));
        }
        fn after_write(&self, items: &[i64]) {
            self.hear(format!("w{items:?}"));
        }
    }
    let (bench, ears) = (JobBench::new().await.unwrap(), Ears::default());
    let step = Step::chunk("s", 10)
        .reader(ItemsReader::new("texts", ["1", "2", "3"]).map(|text: &str| Ok(text.parse::<i64>()?)))
        .process(|n: &i64| Ok((n % 2 == 1).then_some(*n)))
        .writer(ItemsWriter::default())
        .item_listener(ears.clone());
    let job = Job::new("heard").step(step.build().listener(ears.clone())).listener(ears.clone());

    let run = bench.run(&job, NONE).await.unwrap();

    let heard = ears.0.lock().unwrap().join(", ");
    assert_eq!(
        heard,
        "before heard STARTED, p1, p2 filtered, p3, w[1, 3], step 2 hello, after COMPLETED COMPLETED WITH LISTENERS"
    );
    assert_eq!(run.step("s").unwrap().counters.filter, 1);
    let mut tx = bench.store().read().await.unwrap();
    let context = tx.jobs().job_context(run.end.execution).await.unwrap().unwrap();
    assert!(format!("{context:?}").contains("written"), "{context:?}");
}

#[tokio::test]
async fn what_cannot_run_is_refused_when_it_is_registered() {
    let bench = JobBench::new().await.unwrap();
    let step = |size| Step::chunk("s", size).reader(numbers()).writer(ItemsWriter::<i64>::default());
    let no_rollback = step(1).no_rollback([ErrorKind::WRITE]).build();
    for (job, reason) in [
        (Job::new("empty"), "no step"),
        (Job::new("bad name").step(step(1).build()), "character"),
        (Job::new("zero").step(step(0).build()), "chunk size"),
        (Job::new("twice").step(step(1).build()).step(step(1).build()), "two steps"),
        (Job::new("lossy").step(no_rollback), "skippable"),
    ] {
        let refused = bench.run(&job, NONE).await.unwrap_err();
        assert!(matches!(&refused, JobError::BadDefinition { why, .. } if why.contains(reason)), "{refused}");
        assert_eq!(refused.code(), Code::BadJobDefinition);
    }
}

#[tokio::test]
async fn rows_without_a_type_pass_through() {
    let bench = JobBench::new().await.unwrap();
    let written = ItemsWriter::<Row>::default();
    let columns: Arc<[String]> = ["n".to_owned()].into();
    let step = Step::chunk("s", 2)
        .reader(ItemsReader::new(
            "rows",
            (1..=3).map(move |n: i64| Row::new(columns.clone(), vec![n.into()])),
        ))
        .writer(written.clone());

    let run = bench.run(&Job::new("rows").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed());
    assert_eq!(written.items().iter().map(|row| row.get::<i64>("n").unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(run.step("s").unwrap().delivery.as_deref(), Some("at-least-once"));
}

#[tokio::test]
async fn a_listener_that_panics_or_a_decision_that_fails_leaves_its_reason() {
    struct Nervous;
    impl JobListener for Nervous {
        fn before_job(&self, _: &JobRun) {
            panic!("the listener's fault");
        }
    }
    let bench = JobBench::new().await.unwrap();
    let step = || Step::chunk("s", 5).reader(numbers()).writer(ItemsWriter::default()).build();
    let nervous = Job::new("nervous").step(step()).listener(Nervous);
    let undecided = Job::new("undecided")
        .step(step())
        .decision("which", |_| Err(ItemError::new(ErrorKind::PROCESS, "no idea")))
        .on("which", "*", Target::End(None));

    let panicked = bench.run(&nervous, NONE).await.unwrap();
    let failed = bench.run(&undecided, NONE).await.unwrap();

    assert_eq!(panicked.end.status, BatchStatus::Failed);
    assert!(panicked.end.exit.description.contains("the listener's fault"), "{:?}", panicked.end);
    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert!(failed.end.exit.description.contains("no idea"), "{:?}", failed.end);
}

#[tokio::test]
async fn what_the_job_shall_remember_must_fit_or_the_step_fails() {
    struct Talkative;
    impl StepListener for Talkative {
        fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
            run.job_context.put("all", "x".repeat(70_000));
            None
        }
    }
    let bench = JobBench::new().await.unwrap();
    let step = Step::chunk("s", 5).reader(numbers()).writer(ItemsWriter::default()).build();

    let run = bench.run(&Job::new("talkative").step(step.listener(Talkative)), NONE).await.unwrap();

    assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(Code::ContextTooLarge)));
    assert_eq!(run.step("s").unwrap().status, BatchStatus::Failed);
}

#[tokio::test]
async fn the_clock_of_a_bench_can_be_moved_by_days() {
    let bench = JobBench::new().await.unwrap();
    let step = Step::chunk("s", 5).reader(numbers()).writer(ItemsWriter::default()).build();
    let job = Job::new("daily").step(step);

    for day in 1..=3_i64 {
        assert!(bench.run(&job, &JobParameters::new().with("day", day)).await.unwrap().is_completed());
        bench.clock().advance(Duration::from_secs(24 * 3600));
    }
}

#[tokio::test]
async fn a_scan_is_no_retry() {
    #[derive(Clone, Default)]
    struct Recorder(Arc<AtomicUsize>);
    impl RetryListener for Recorder {
        fn on_retry(&self, _: Phase, _: &ItemError) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    #[derive(Clone)]
    struct Choosy;
    impl ItemStream for Choosy {}
    impl ItemWriter<i64> for Choosy {
        async fn write(&mut self, items: &[i64], _: &mut ChunkScope) -> Result<(), ItemError> {
            if items.contains(&4) { Err(ItemError::new(ErrorKind::WRITE, "four")) } else { Ok(()) }
        }
    }
    let (bench, told) = (JobBench::new().await.unwrap(), Recorder::default());
    let long = Duration::from_secs(3600);
    let step = Step::chunk("s", 10)
        .reader(numbers())
        .writer(Choosy)
        .skip([ErrorKind::WRITE], 1)
        .backoff(Backoff::new(long, 1.0, long, 0.0).unwrap())
        .retry_listener(told.clone());

    let run = bench.run(&Job::new("choosy").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed());
    assert_eq!(told.0.load(Ordering::SeqCst), 0);
}
