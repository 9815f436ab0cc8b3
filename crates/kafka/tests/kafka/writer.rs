//! A topic as the target of a step: no record is lost, and what is repeated is at most the chunk that failed.

use super::broker::{consume, shared, topic};
use super::mock::{cluster, messages};
use rdkafka::message::{Message, OwnedMessage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::{BatchStatus, ExecutionContext, JobParameters};
use tidemill_engine::item::{CompositeWriter, ItemsReader};
use tidemill_engine::job::{ChunkScope, ItemStream, ItemWriter, Job, Step};
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_kafka::{KafkaMessage, KafkaOptions, KafkaWriter};

/// The payloads that have arrived.
fn arrived(servers: &str) -> Vec<String> {
    let payload = |message: &OwnedMessage| String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
    messages(servers).iter().map(payload).collect()
}

fn message(number: &i64) -> Result<KafkaMessage, ItemError> {
    let text = number.to_string().into_bytes();
    let headers = vec![("number".to_owned(), number.to_string())];
    Ok(KafkaMessage { key: Some(text.clone()), payload: (*number != 3).then_some(text), headers })
}

fn options(servers: &str) -> KafkaOptions {
    KafkaOptions::new(servers)
}

/// Fails at a chunk with a number, while it is told to, after the writer before it.
struct Failing {
    at: i64,
    is_failing: Arc<AtomicBool>,
}

impl ItemStream for Failing {
    async fn open(&mut self, _: &ExecutionContext) -> Result<(), ItemError> {
        Ok(())
    }
}

impl ItemWriter<i64> for Failing {
    async fn write(&mut self, items: &[i64], _: &mut ChunkScope) -> Result<(), ItemError> {
        match items.contains(&self.at) && self.is_failing.load(Ordering::Relaxed) {
            true => Err(ItemError::new(ErrorKind::WRITE, "told to fail")),
            false => Ok(()),
        }
    }
}

async fn run(bench: &JobBench, job: &Job) -> TestRun {
    bench.run(job, &JobParameters::new()).await.unwrap()
}

fn text(run: &TestRun) -> &str {
    &run.step("send").unwrap().exit.description
}

#[tokio::test]
async fn a_chunk_has_arrived_before_it_commits_and_a_restart_repeats_only_what_has_not_committed() {
    let (_cluster, servers) = cluster(1);
    let (is_failing, options) = (Arc::new(AtomicBool::new(true)), options(&servers));
    let fails = is_failing.clone();
    let step = Step::chunk("send", 2).reader(ItemsReader::new("numbers", [10, 11, 12, 13, 14])).writer_with(
        move |_| {
            let writer = KafkaWriter::new(&options, "orders", message);
            Ok(CompositeWriter::new().and(writer).and(Failing { at: 13, is_failing: fails.clone() }))
        },
    );
    let (job, bench) = (Job::new("send").step(step.build()), JobBench::new().await.unwrap());

    let failed = run(&bench, &job).await;
    let before = arrived(&servers);
    is_failing.store(false, Ordering::Relaxed);
    let restarted = run(&bench, &job).await;

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(before, ["10", "11", "12", "13"]);
    assert!(restarted.is_completed(), "{}", text(&restarted));
    assert_eq!(restarted.step("send").unwrap().delivery.as_deref(), Some("at-least-once"));
    assert_eq!(arrived(&servers), ["10", "11", "12", "13", "12", "13", "14"]);
}

#[tokio::test]
async fn a_record_that_is_too_long_can_be_skipped() {
    let (_cluster, servers) = cluster(1);
    let mut options = options(&servers);
    options.client = "message.max.bytes=2000".parse().unwrap();
    let step = Step::chunk("send", 3)
        .reader(ItemsReader::new("lengths", [10_i64, 5_000, 20, 30]))
        .writer_with(move |_| {
            Ok(KafkaWriter::new(&options, "orders", |length: &i64| {
                let payload = "x".repeat(usize::try_from(*length).unwrap()).into_bytes();
                Ok(KafkaMessage { payload: Some(payload), ..KafkaMessage::default() })
            }))
        })
        .skip([ErrorKind::WRITE], 1);
    let (job, bench) = (Job::new("send").step(step.build()), JobBench::new().await.unwrap());

    let run = run(&bench, &job).await;

    assert!(run.is_completed(), "{}", text(&run));
    assert_eq!(run.step("send").unwrap().counters.write_skip, 1);
    let mut lengths: Vec<usize> = arrived(&servers).iter().map(String::len).collect();
    lengths.dedup();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [10, 20, 30]);
}

#[tokio::test]
async fn brokers_that_do_not_answer_are_told() {
    let options = options("127.0.0.1:1");
    let step = Step::chunk("send", 3).reader(ItemsReader::new("numbers", [1_i64])).writer_with(move |_| {
        Ok(KafkaWriter::new(&options, "orders", message).patience(Duration::from_secs(1)))
    });
    let (job, bench) = (Job::new("send").step(step.build()), JobBench::new().await.unwrap());

    let run = run(&bench, &job).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    assert!(text(&run).contains("bootstrap_servers"), "{}", text(&run));
    assert_eq!(run.step("send").unwrap().counters.read, 0);
}

#[tokio::test]
async fn records_have_their_keys_and_headers_for_another_client() {
    let Some(servers) = shared() else { return };
    let name = topic(&servers, 3, &[]).await;
    let (options, target) = (options(&servers), name.clone());
    let step = Step::chunk("send", 2)
        .reader(ItemsReader::new("numbers", 1..=5_i64))
        .writer_with(move |_| Ok(KafkaWriter::new(&options, &*target, message)));
    let (job, bench) = (Job::new("send").step(step.build()), JobBench::new().await.unwrap());

    let run = run(&bench, &job).await;

    assert!(run.is_completed(), "{}", text(&run));
    let mut reads = consume(&servers, &name, &[]);
    reads.sort_by(|one, other| one.key.cmp(&other.key));
    let keys: Vec<&str> = reads.iter().map(|read| read.key.as_str()).collect();
    assert_eq!(keys, ["1", "2", "3", "4", "5"]);
    assert!(reads.iter().all(|read| read.header("number") == read.key));
    let tombstones: Vec<&str> =
        reads.iter().filter(|read| read.value.is_none()).map(|read| read.key.as_str()).collect();
    assert_eq!(tombstones, ["3"]);
}

#[tokio::test]
async fn a_topic_that_is_not_there_ends_the_step_before_it_reads() {
    let Some(servers) = shared() else { return };
    let options = options(&servers);
    let step = Step::chunk("send", 2)
        .reader(ItemsReader::new("numbers", 1..=5_i64))
        .writer_with(move |_| Ok(KafkaWriter::new(&options, "no-such-topic", message)));
    let (job, bench) = (Job::new("send").step(step.build()), JobBench::new().await.unwrap());

    let run = run(&bench, &job).await;

    assert!(text(&run).contains("no-such-topic") && text(&run).contains("may write to it"), "{}", text(&run));
    assert_eq!(run.step("send").unwrap().counters.read, 0);
}
