//! A topic as the items of a step: each record once, however often the step fails, and to a fixed end.

use super::broker::{shared, topic};
use super::produce::{Ending, delete_before, grow, send, send_in_transactions, send_raw};
use rdkafka::message::{Header, OwnedHeaders};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::item::ItemsWriter;
use tidemill_engine::job::{Job, Step};
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_engine::{SystemClock, job::StepScope};
use tidemill_kafka::{From, Isolation, KafkaOptions, KafkaReader, KafkaRecord, RowFormat};
use tidemill_store::job::ExecutionChanged;

/// A job that reads the numbers of a topic, and fails at one of them.
struct Site {
    bench: JobBench,
    written: ItemsWriter<i64>,
    /// None of the numbers is below zero.
    failing: Arc<AtomicI64>,
    job: Job,
}

type Reader = KafkaReader<KafkaRecord>;

fn number(record: &KafkaRecord) -> i64 {
    std::str::from_utf8(record.payload.as_ref().unwrap()).unwrap().parse().unwrap()
}

impl Site {
    async fn new(
        servers: &str,
        topic: &str,
        shape: impl Fn(Reader, &StepScope) -> Reader + Send + Sync + 'static,
    ) -> Self {
        let (written, failing) = (ItemsWriter::default(), Arc::new(AtomicI64::new(-1)));
        let (sink, fails, options) = (written.clone(), failing.clone(), KafkaOptions::new(servers));
        let topic = topic.to_owned();
        let step = Step::chunk("load", 10)
            .reader_with(move |scope| Ok(shape(KafkaReader::new("read", &options, topic.as_str()), scope)))
            .process(move |record: &KafkaRecord| {
                if number(record) == fails.load(Ordering::Relaxed) {
                    return Err(ItemError::new(ErrorKind::PROCESS, "told to fail"));
                }
                Ok(Some(number(record)))
            })
            .writer(sink);
        let bench = JobBench::new().await.unwrap();
        Self { bench, written, failing, job: Job::new("load").step(step.build()) }
    }

    /// Runs the instance of a day, failing at a number.
    async fn run(&self, day: i64, failing: i64) -> TestRun {
        self.failing.store(failing, Ordering::Relaxed);
        self.bench.run(&self.job, &JobParameters::new().with("day", day)).await.unwrap()
    }

    /// The numbers that were written, sorted. Between partitions there is no order.
    fn numbers(&self) -> Vec<i64> {
        let mut numbers = self.written.items();
        numbers.sort_unstable();
        numbers
    }
}

fn of_day(reader: Reader, _: &StepScope) -> Reader {
    reader
}

fn continuing(reader: Reader, scope: &StepScope) -> Reader {
    reader.continuing(scope)
}

fn text(run: &TestRun) -> &str {
    &run.step("load").unwrap().exit.description
}

#[tokio::test]
async fn a_restart_goes_on_behind_the_last_chunk_and_ends_where_the_first_run_would_have() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 3, &[]).await;
    for partition in 0..3 {
        send(&servers, &name, partition, (0..25).map(|n| i64::from(partition) * 100 + n));
    }
    let site = Site::new(&servers, &name, of_day).await;

    let failed = site.run(1, 113).await;
    let before = site.numbers();
    send(&servers, &name, 1, 900..950);
    grow(&servers, &name, 4).await;
    send(&servers, &name, 3, 950..960);
    let restarted = site.run(1, -1).await;

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(before, (0..25).chain(100..105).collect::<Vec<_>>());
    assert!(restarted.is_completed(), "{}", text(&restarted));
    let all: Vec<i64> = (0..25).chain(100..125).chain(200..225).collect();
    assert_eq!(site.numbers(), all);
    let offsets = restarted.context("load").unwrap().get("read.offsets").unwrap();
    assert_eq!(*offsets, json!({ "0": [25, 25], "1": [25, 25], "2": [25, 25] }));
    assert_eq!(restarted.step("load").unwrap().total_items, Some(75));
}

#[tokio::test]
async fn the_next_instance_goes_on_where_the_last_one_ended_and_reads_new_partitions_whole() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    send(&servers, &name, 0, 0..15);
    let site = Site::new(&servers, &name, continuing).await;

    assert!(site.run(1, -1).await.is_completed());
    send(&servers, &name, 0, 15..20);
    grow(&servers, &name, 2).await;
    send(&servers, &name, 1, 20..23);
    let second = site.run(2, -1).await;
    let third = site.run(3, -1).await;

    assert!(second.is_completed() && third.is_completed(), "{}", text(&second));
    assert_eq!(site.numbers(), (0..23).collect::<Vec<_>>());
    assert_eq!(third.step("load").unwrap().counters.read, 0);
}

#[tokio::test]
async fn an_instance_waits_for_an_earlier_one_that_can_be_restarted() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    send(&servers, &name, 0, 0..25);
    let site = Site::new(&servers, &name, continuing).await;

    let failed = site.run(1, 17).await;
    let refused = site.run(2, -1).await;
    let restarted = site.run(1, -1).await;
    send(&servers, &name, 0, 25..30);
    let second = site.run(2, -1).await;

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(refused.end.code, Some(Code::EarlierRunOpen));
    assert!(text(&refused).contains(&format!("job restart {}", failed.end.execution)), "{}", text(&refused));
    assert!(restarted.is_completed() && second.is_completed(), "{}", text(&second));
    assert_eq!(site.numbers(), (0..30).collect::<Vec<_>>());
}

#[tokio::test]
async fn behind_an_instance_that_was_given_up_the_next_one_goes_on_after_its_last_chunk() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    send(&servers, &name, 0, 0..25);
    let site = Site::new(&servers, &name, continuing).await;
    let failed = site.run(1, 17).await;

    let mut tx = site.bench.store().begin().await.unwrap();
    let given_up =
        tx.jobs().abandon_execution(failed.end.execution, &Actor::system(), "unwanted").await.unwrap();
    tx.commit().await.unwrap();
    let second = site.run(2, -1).await;

    assert!(matches!(given_up, ExecutionChanged::Done { .. }), "{given_up:?}");
    assert!(second.is_completed(), "{}", text(&second));
    assert_eq!(site.numbers(), (0..25).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_offset_that_is_gone_is_an_error_and_never_passed_over() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    send(&servers, &name, 0, 0..50);
    let site = Site::new(&servers, &name, continuing).await;

    site.run(1, 25).await;
    delete_before(&servers, &name, 0, 30).await;
    let restarted = site.run(1, -1).await;

    assert_eq!(restarted.end.code, Some(Code::OffsetGone));
    assert!(text(&restarted).contains("from offset 20 on, and has 30 to 50"), "{}", text(&restarted));
    assert_eq!(site.numbers(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn records_that_go_while_a_run_reads_others_are_an_error_too() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 2, &[]).await;
    // More than is read ahead, so that the second partition is not begun yet when the first record is processed.
    send(&servers, &name, 0, 0..6000);
    send(&servers, &name, 1, 6000..6010);
    let (options, read, address) = (KafkaOptions::new(&servers), name.clone(), servers.clone());
    let step = Step::chunk("load", 1000)
        .reader_with(move |_| Ok(KafkaReader::new("read", &options, read.as_str())))
        .process(move |record: &KafkaRecord| {
            if number(record) == 0 {
                let (servers, topic) = (address.clone(), record.topic.clone());
                let deleting = std::thread::spawn(move || {
                    let runtime = tokio::runtime::Runtime::new().unwrap();
                    runtime.block_on(delete_before(&servers, &topic, 1, 5));
                });
                deleting.join().unwrap();
            }
            Ok(Some(number(record)))
        })
        .writer(ItemsWriter::default());
    let job = Job::new("load").step(step.build());

    let run = JobBench::new().await.unwrap().run(&job, &JobParameters::new()).await.unwrap();

    assert_eq!(run.end.code, Some(Code::OffsetGone), "{}", text(&run));
    assert!(text(&run).contains("from offset 0 on, and has 5 to 10"), "{}", text(&run));
    // What was read before stands, and a restart would go on there.
    let offsets = run.context("load").unwrap().get("read.offsets").unwrap();
    assert_eq!((&offsets["0"], &offsets["1"]), (&json!([6000, 6000]), &json!([0, 10])));
}

#[tokio::test]
async fn aborted_transactions_are_not_read_unless_asked_for() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    let transactions: [(&[i64], Ending); 4] =
        [(&[1, 2], Ending::Commit), (&[3, 4], Ending::Abort), (&[5], Ending::Commit), (&[6], Ending::Abort)];
    send_in_transactions(&servers, &name, &transactions);
    let committed = Site::new(&servers, &name, continuing).await;
    let all = Site::new(&servers, &name, |reader, _| reader.isolation(Isolation::ReadUncommitted)).await;

    let (first, other) = (committed.run(1, -1).await, all.run(1, -1).await);
    send(&servers, &name, 0, [7]);
    let second = committed.run(2, -1).await;

    assert!(first.is_completed() && other.is_completed(), "{} {}", text(&first), text(&other));
    assert!(second.is_completed(), "{}", text(&second));
    assert_eq!(committed.numbers(), [1, 2, 5, 7]);
    assert_eq!(all.numbers(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_first_run_begins_where_it_is_told() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 1, &[]).await;
    let at = |millis: i64| {
        move |record: rdkafka::producer::BaseRecord<'static, [u8], [u8]>| record.timestamp(millis)
    };
    let name: &'static str = Box::leak(name.into_boxed_str());
    for (n, millis) in [(b"1", 1_000_000), (b"2", 2_000_000), (b"3", 3_000_000)] {
        send_raw(&servers, name, |record| at(millis)(record).payload(n));
    }
    let since = From::Since(Timestamp::from_micros(2_000_000_000));
    let middle = Site::new(&servers, name, move |reader, _| reader.from(since)).await;
    let latest = Site::new(&servers, name, |reader, scope| reader.from(From::Latest).continuing(scope)).await;

    assert!(middle.run(1, -1).await.is_completed() && latest.run(1, -1).await.is_completed());
    send(&servers, name, 0, [4]);
    assert!(latest.run(2, -1).await.is_completed());

    assert_eq!(middle.numbers(), [2, 3]);
    assert_eq!(latest.numbers(), [4]);
}

#[tokio::test]
async fn rows_have_what_a_record_says_and_what_is_no_json_can_be_skipped() {
    let Some(servers) = shared() else { return };
    let name: &'static str = Box::leak(topic(&servers, 1, &[]).await.into_boxed_str());
    let headers = || OwnedHeaders::new().insert(Header { key: "trace", value: Some("t1") });
    send_raw(&servers, name, |record| {
        record.key(b"k1").payload(b"{\"n\":1}").timestamp(1_000).headers(headers())
    });
    send_raw(&servers, name, |record| record.key(b"k2").payload(b"{oops").timestamp(1_000));
    send_raw(&servers, name, |record| record.key(b"k3").timestamp(1_000));
    let written: ItemsWriter<Row> = ItemsWriter::default();
    let (sink, options) = (written.clone(), KafkaOptions::new(&servers));
    let step = Step::chunk("load", 10)
        .reader_with(move |_| Ok(KafkaReader::rows("read", &options, name, RowFormat::default())))
        .writer(sink)
        .skip([ErrorKind::PARSE], 1);
    let job = Job::new("rows").step(step.build());

    let run = JobBench::new().await.unwrap().run(&job, &JobParameters::new()).await.unwrap();

    assert!(run.is_completed(), "{}", text(&run));
    assert_eq!(run.step("load").unwrap().counters.read_skip, 1);
    let rows: Vec<serde_json::Value> = written.items().iter().map(Row::to_json).collect();
    let row = |key: &str, payload, headers, offset: i64| {
        json!({
            "key": key, "payload": payload, "headers": headers, "topic": name, "partition": 0,
            "offset": offset, "timestamp": "1970-01-01T00:00:01.000000Z",
        })
    };
    let expected =
        [row("k1", json!({ "n": 1 }), json!({ "trace": "t1" }), 0), row("k3", json!(null), json!({}), 2)];
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_told() {
    let Some(servers) = shared() else { return };
    let site = Site::new(&servers, "no-such-topic", of_day).await;

    let run = site.run(1, -1).await;

    assert_eq!(run.end.code, Some(Code::TopicUnreadable));
    assert!(text(&run).contains("no-such-topic"), "{}", text(&run));
}

#[tokio::test]
async fn brokers_that_do_not_answer_are_told_and_a_stop_does_not_wait_for_them() {
    let servers = "127.0.0.1:1";
    let hasty = Site::new(servers, "orders", |reader, _| reader.patience(Duration::from_secs(1))).await;
    let patient = Site::new(servers, "orders", |reader, _| reader.patience(Duration::from_secs(600))).await;

    let clock = SystemClock::new();
    let began = clock.monotonic();
    let failed = hasty.run(1, -1).await;
    let launcher = patient.bench.launcher(&patient.job).unwrap();
    let running = launcher.launch("load", &JobParameters::new(), &Actor::system()).await.unwrap();
    let waited = clock.monotonic().since(began);
    let began = clock.monotonic();
    launcher.stop_all(Duration::from_secs(600)).await;
    let stopped = running.ended().await.unwrap();
    let stopping = clock.monotonic().since(began);

    assert_eq!(failed.end.code, Some(Code::KafkaUnreachable));
    assert!(text(&failed).contains("bootstrap_servers"), "{}", text(&failed));
    assert_eq!(stopped.status, BatchStatus::Stopped);
    let most = Duration::from_secs(60);
    assert!(waited < most && stopping < most, "{waited:?}, and {stopping:?} for the stop");
}
