//! Job files that read and write topics, run by processes that are killed; and what was published to Kafka, verified.

use crate::Stage;
use crate::outbox_kafka::{consume, make_topic, python};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    killed_in_the_middle_a_job_has_every_record_of_its_topic_once,
    killed_in_the_middle_a_job_has_sent_every_row_and_at_most_one_chunk_twice,
];

/// Makes a topic of three partitions, if it is to be, and sends numbers to them in turn.
const SEND: &str = "
import sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
servers, topic, make, first, count = sys.argv[1:]
if make == 'make':
    admin = AdminClient({'bootstrap.servers': servers})
    [made.result(30) for made in admin.create_topics([NewTopic(topic, 3, 1)]).values()]
producer = Producer({'bootstrap.servers': servers})
for n in range(int(first), int(first) + int(count)):
    producer.produce(topic, key=str(n), value='{\"n\": %d}' % n, partition=n % 3)
producer.flush(60)
";

const RECORDS: i64 = 3_000;

const PATIENCE: Duration = Duration::from_secs(180);

fn send(servers: &str, topic: &str, make: &str, first: i64, count: i64) {
    let arguments = ["-c", SEND, servers, topic, make, &first.to_string(), &count.to_string()];
    python(&arguments).expect("is not skipped");
}

fn job(topic: &str) -> String {
    format!(
        "job: load\nparameters: {{ day: {{ type: long, required: true }} }}\nsteps:\n  - name: load\n    chunk: 2\n    \
         read: {{ kafka: {{ topic: {topic} }} }}\n    \
         process: {{ map: {{ n: row.payload.n, part: row.partition, place: row.offset }} }}\n    \
         write: {{ sql: {{ table: loaded, mode: insert }} }}\n"
    )
}

/// How many rows there are, and how many of them differ.
pub(crate) async fn rows(store: &Store) -> (i64, i64) {
    let query = "select count(*), count(distinct n) from loaded";
    let mut tx = store.read().await.unwrap();
    let counted = match tx.postgres() {
        Some(connection) => tidemill_store::sqlx::query_as(query).fetch_one(connection).await,
        None => tidemill_store::sqlx::query_as(query).fetch_one(tx.sqlite().unwrap()).await,
    };
    tx.rollback().await.unwrap();
    counted.unwrap()
}

/// Runs the instance of a day to its end, once the lease of whoever ran it has passed.
fn finish(stage: &Stage, day: &str) {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    loop {
        let ran = stage.run(&["job", "run", "load.yaml", "-p", day]);
        if !ran.stderr.contains("TM1003") {
            ran.succeeds();
            return;
        }
        assert!(clock.monotonic().since(start) < PATIENCE, "nobody has noticed that the process is gone");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The job in a process whose standard error is in a file.
fn start(stage: &Stage, point: Option<&str>) -> Guarded {
    let mut command = stage.command(&["job", "run", "load.yaml", "-p", "day=1"]);
    command.envs(point.map(|point| ("TIDEMILL_CRASH_AT", point)));
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.path("run.log")).unwrap());
    Guarded::spawn(command).unwrap()
}

async fn site(database: &Scratch, servers: &str, topic: &str) -> (Stage, Store) {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(
        "create table loaded (n bigint not null, part bigint not null, place bigint not null)",
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let stage = Stage::on(database.url())
        .with("KAFKA_BOOTSTRAP_SERVERS", servers)
        .with("TIDEMILL_PROCESS_LEASE", "10m");
    fs::write(stage.path("load.yaml"), job(topic)).unwrap();
    (stage, store)
}

async fn killed_in_the_middle_a_job_has_every_record_of_its_topic_once(database: Scratch) {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let topic = format!("load-{}", std::process::id());
    send(&servers, &topic, "make", 0, RECORDS);
    let (stage, store) = site(&database, &servers, &topic).await;

    // By its own hand, between a commit and whatever would follow; then from outside.
    let mut dying = start(&stage, Some("chunk_after_read:500"));
    let died = dying.wait_deadline(PATIENCE).expect("it dies");
    stage.lapse(dying.pid());
    let after_crash = rows(&store).await;
    send(&servers, &topic, "more", RECORDS, 100);
    let mut running = start(&stage, None);
    while rows(&store).await == after_crash {
        let ended = running.wait_deadline(Duration::from_millis(2));
        assert!(ended.is_none(), "{}", fs::read_to_string(stage.path("run.log")).unwrap());
    }
    running.signal(Signal::KILL).unwrap();
    running.wait_deadline(PATIENCE).expect("nobody outlives it");
    stage.lapse(running.pid());
    let after_kill = rows(&store).await;
    finish(&stage, "day=1");
    let after_day = rows(&store).await;
    finish(&stage, "day=2");

    assert_eq!(died.signal(), Some(6));
    assert!(after_crash.0 > 0 && after_crash.0 < RECORDS, "{after_crash:?}");
    assert!(after_kill.0 > after_crash.0 && after_kill.0 < RECORDS, "{after_kill:?}");
    assert_eq!(after_day, (RECORDS, RECORDS), "on {}", database.url());
    assert_eq!(rows(&store).await, (RECORDS + 100, RECORDS + 100));
}

async fn killed_in_the_middle_a_job_has_sent_every_row_and_at_most_one_chunk_twice(database: Scratch) {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    for (number, point) in
        ["chunk_after_write:3", "chunk_before_commit:3", "chunk_after_commit:3"].iter().enumerate()
    {
        let kind = if database.url().starts_with("postgres") { "pg" } else { "lite" };
        let topic = format!("sent-{kind}-{number}-{}", std::process::id());
        make_topic(&servers, &topic, 3).expect("is not skipped");
        let stage = Stage::on(database.url())
            .with("KAFKA_BOOTSTRAP_SERVERS", &servers)
            .with("TIDEMILL_PROCESS_LEASE", "10m")
            .with("TIDEMILL_DATABASE_INIT", "always");
        let lines: String = (0..50).map(|n| format!("{n}\n")).collect();
        fs::write(stage.path("in.csv"), format!("n\n{lines}")).unwrap();
        let job = format!(
            "job: load{number}\nparameters: {{ day: {{ type: long, required: true }} }}\nsteps:\n  - name: send\n    \
             chunk: 10\n    read: {{ csv: {{ path: in.csv }} }}\n    \
             write: {{ kafka: {{ topic: {topic}, key: row.n, headers: {{ day: parameters.day }} }} }}\n"
        );
        fs::write(stage.path("load.yaml"), job).unwrap();

        let mut dying = start(&stage, Some(point));
        let died = dying.wait_deadline(PATIENCE).expect("it dies");
        stage.lapse(dying.pid());
        finish(&stage, "day=1");

        assert_eq!(died.signal(), Some(6), "{}", fs::read_to_string(stage.path("run.log")).unwrap());
        let read = consume(&servers, &topic, &[]).expect("is not skipped");
        let mut received: Vec<(i64, serde_json::Value)> = Vec::new();
        for line in read.lines() {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            let key = message["key"].as_str().unwrap().parse().unwrap();
            received.push((key, message["headers"].clone()));
        }
        let distinct: BTreeSet<i64> = received.iter().map(|(key, _)| *key).collect();
        assert_eq!(distinct, (0..50).collect(), "{point}");
        assert!(
            received.iter().all(|(_, headers)| *headers == serde_json::json!([["day", "1"]])),
            "{received:?}"
        );
        let is_repeated = !point.starts_with("chunk_after_commit");
        assert_eq!(received.len(), if is_repeated { 60 } else { 50 }, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_the_topics_is_compared_with_the_table() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let database = Scratch::file();
    let store = database.store(None).await.unwrap();
    let stage = Stage::on(database.url()).with("KAFKA_BOOTSTRAP_SERVERS", &servers);
    let topic = format!("verify-{}", std::process::id());
    // Three records of somebody else.
    send(&servers, &topic, "make", 0, 3);
    for n in 0..5 {
        let aggregate = format!("order-{}", n % 2);
        let add = ["outbox", "add", "--aggregate-type", "order", "--aggregate-id", &aggregate];
        stage
            .run(&[&add[..], &["--event-type", "paid", "--topic", &topic, "--tombstone"]].concat())
            .succeeds();
    }
    let mut relay = Guarded::spawn(stage.command(&["relay", "--sink", "kafka"])).unwrap();
    let verify = ["outbox", "verify", "--sink", "kafka"];
    let mut clean = stage.run(&verify);
    let clock = SystemClock::new();
    let start = clock.monotonic();
    while !clean.stdout.contains("5 records of 5 events") && clock.monotonic().since(start) < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        clean = stage.run(&verify);
    }
    relay.signal(Signal::TERM).unwrap();
    relay.wait_deadline(PATIENCE).expect("it ends");
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(&format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic) values ('order', 'x', 'paid', '{topic}')"
    ))
    .await
    .unwrap();
    tx.execute_for_test("update tidemill_outbox set floor_id = 6").await.unwrap();
    tx.commit().await.unwrap();

    let unclean = stage.run(&[&verify[..], &["-o", "json"]].concat());

    assert!(clean.succeeds().stdout.contains("0 lost, 0 reordered, 0 duplicated"), "{clean:#?}");
    assert!(clean.stdout.contains("3 foreign"), "{clean:#?}");
    assert_eq!(unclean.code, Some(1), "{unclean:#?}");
    let answer: serde_json::Value = serde_json::from_str(&unclean.stdout).unwrap();
    assert_eq!((&answer["lost"]["first"][0]["id"], &answer["foreign"]), (&6.into(), &3.into()));
}

#[test]
fn sinks_that_cannot_be_verified_together_are_refused() {
    let stage = Stage::new().with("TIDEMILL_DATABASE_INIT", "always");

    for arguments in [
        &["--sink", "kafka:a:1", "--sink", "file:a"][..],
        &["--sink", "kafka:a:1", "--sink", "kafka:b:1"],
        &["--sink", "file:a", "--topic", "orders"],
    ] {
        stage.run(&[&["outbox", "verify"], arguments].concat()).fails("TM1402", 2);
    }
    stage.run(&["outbox", "verify", "--sink", "kafka"]).fails("TM1421", 2);
}

#[test]
fn a_job_file_that_reads_a_topic_needs_brokers() {
    let stage = Stage::new().with("TIDEMILL_DATABASE_INIT", "always");
    fs::write(stage.path("load.yaml"), job("orders")).unwrap();

    let refused = stage.run(&["job", "run", "load.yaml", "-p", "day=1"]);

    refused.fails("TM1020", 2);
    assert!(refused.stderr.contains("KAFKA_BOOTSTRAP_SERVERS"), "{refused:#?}");
}
