//! Copies from object to object, through failures of the step.

use crate::Lake;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tidemill_domain::item::{ItemError, Row};
use tidemill_engine::item::{BoxReader, BoxWriter, CsvReader, CsvWriter, JsonLinesWriter, Roots};
use tidemill_engine::job::{Job, Step};
use tidemill_engine::testing::{JobBench, TestRun};

const ROWS: i64 = 50;

fn csv(ids: impl IntoIterator<Item = i64>) -> String {
    std::iter::once("id\n".to_owned()).chain(ids.into_iter().map(|id| format!("{id}\n"))).collect()
}

/// Fails at the row whose id is named, until that is -1.
fn job(
    reader: impl Fn() -> BoxReader<Row> + Send + Sync + 'static,
    writer: impl Fn() -> BoxWriter<Row> + Send + Sync + 'static,
    failing: Arc<AtomicI64>,
) -> Job {
    let step = Step::chunk("copy", 8)
        .reader_with(move |_| Ok(reader()))
        .process(move |row: &Row| {
            match row.get::<String>("id")? == failing.load(Ordering::Relaxed).to_string() {
                true => Err(ItemError::fatal("it dies here")),
                false => Ok(Some(row.clone())),
            }
        })
        .writer_with(move |_| Ok(writer()));
    Job::new("copy").step(step.build())
}

async fn run(bench: &JobBench, job: &Job) -> TestRun {
    bench.run(job, &Default::default()).await.unwrap()
}

fn failure(run: &TestRun) -> String {
    assert!(!run.is_completed());
    run.steps().map(|step| step.exit.description.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_appears_whole_after_failures_and_no_other_is_read() {
    let Some(lake) = Lake::new() else { return };
    for (key, ids) in
        [("in/a.csv", 0..20), ("in/b.csv", 20..20), ("in/c.csv", 20..ROWS), ("in/x/d.csv", 90..99)]
    {
        lake.server.put(key, csv(ids).as_bytes()).unwrap();
    }
    let (pattern, target) = (lake.url("in/*.csv").display().to_string(), lake.url("out/all.csv"));
    let (bench, failing) = (JobBench::new().await.unwrap(), Arc::new(AtomicI64::new(0)));
    let job = job(
        move || BoxReader::new(CsvReader::rows_pattern("in", &pattern)),
        move || BoxWriter::new(CsvWriter::rows("out", &target)),
        failing.clone(),
    );

    for death in [0, 13, 20, 49] {
        failing.store(death, Ordering::Relaxed);
        assert!(failure(&run(&bench, &job).await).contains("it dies here"));
        assert_eq!((lake.text("out/all.csv"), lake.left()), (None, 1), "{death}");
    }
    failing.store(-1, Ordering::Relaxed);
    let ran = run(&bench, &job).await;

    assert!(ran.is_completed(), "{}", failure(&ran));
    assert_eq!((lake.text("out/all.csv"), lake.left()), (Some(csv(0..ROWS)), 0));
    assert_eq!(lake.server.uploads().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_large_object_is_sent_in_parts_and_read_in_parts() {
    let Some(lake) = Lake::new() else { return };
    let line = "x".repeat(1000);
    let text: String = (0..20_000).map(|id| format!("{id},{line}\n")).collect();
    lake.server.put("in.csv", format!("id,text\n{text}").as_bytes()).unwrap();
    let (source, target) = (lake.url("in.csv"), lake.url("out.csv"));
    let (bench, failing) = (JobBench::new().await.unwrap(), Arc::new(AtomicI64::new(19_000)));
    let job = job(
        move || BoxReader::new(CsvReader::rows("in", &source)),
        move || BoxWriter::new(CsvWriter::rows("out", &target).sync(false)),
        failing.clone(),
    );

    assert!(!run(&bench, &job).await.is_completed());
    failing.store(-1, Ordering::Relaxed);
    let ran = run(&bench, &job).await;

    assert!(ran.is_completed(), "{}", failure(&ran));
    assert_eq!(lake.text("out.csv"), Some(format!("id,text\n{text}")));
    assert_eq!(
        (lake.server.keys().unwrap(), lake.server.uploads().unwrap().len()),
        (vec!["in.csv".into(), "out.csv".into()], 0)
    );
}

#[tokio::test]
async fn packed_objects_and_refusals() {
    let Some(lake) = Lake::new() else { return };
    lake.server.put("in.csv", csv(0..ROWS).as_bytes()).unwrap();
    let copy = |from: &str, to: &str, roots: Option<Roots>| {
        let (source, target) = (lake.url(from), lake.url(to));
        job(
            move || {
                let reader = CsvReader::rows("in", &source);
                BoxReader::new(match roots.clone() {
                    Some(roots) => reader.within(roots),
                    None => reader,
                })
            },
            move || BoxWriter::new(JsonLinesWriter::rows("out", &target)),
            Arc::new(AtomicI64::new(-1)),
        )
    };
    let run_new = async |job: &Job| run(&JobBench::new().await.unwrap(), job).await;

    assert!(run_new(&copy("in.csv", "out.jsonl.gz", None)).await.is_completed());
    assert_eq!(lake.server.get("out.jsonl.gz").unwrap().unwrap()[..2], [0x1f, 0x8b]);

    let there = failure(&run_new(&copy("in.csv", "out.jsonl.gz", None)).await);
    let missing = failure(&run_new(&copy("none.csv", "new", None)).await);
    let outside = failure(&run_new(&copy("in.csv", "new", Some(Roots::new(["s3://lake/in", "/"])))).await);
    let inside = run_new(&copy("in.csv", "new", Some(Roots::new(["s3://lake"])))).await;

    assert!(there.contains("out.jsonl.gz exists already"), "{there}");
    assert!(missing.contains("s3://lake/none.csv cannot be opened"), "{missing}");
    assert!(outside.contains("lies outside of the folders"), "{outside}");
    assert!(inside.is_completed(), "{}", failure(&inside));
}

#[tokio::test]
async fn no_run_reads_on_in_an_object_that_was_replaced() {
    let Some(lake) = Lake::new() else { return };
    let (source, target) = (lake.url("in.csv"), lake.url("out.csv"));
    let (bench, failing) = (JobBench::new().await.unwrap(), Arc::new(AtomicI64::new(20)));
    let job = job(
        move || BoxReader::new(CsvReader::rows("in", &source)),
        move || BoxWriter::new(CsvWriter::rows("out", &target)),
        failing.clone(),
    );
    lake.server.put("in.csv", csv(0..ROWS).as_bytes()).unwrap();
    assert!(failure(&run(&bench, &job).await).contains("it dies here"));
    failing.store(-1, Ordering::Relaxed);

    lake.server.put("in.csv", csv((0..ROWS).rev()).as_bytes()).unwrap();
    let replaced = failure(&run(&bench, &job).await);
    lake.server.put("in.csv", csv(0..ROWS).as_bytes()).unwrap();
    let put_back = run(&bench, &job).await;

    assert!(
        replaced.contains("s3://lake/in.csv was replaced after the last run stopped in it"),
        "{replaced}"
    );
    assert!(put_back.is_completed(), "{}", failure(&put_back));
    assert_eq!(lake.text("out.csv"), Some(csv(0..ROWS)));
}
