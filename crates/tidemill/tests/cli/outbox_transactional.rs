//! Relays as processes that publish to Kafka in transactions, and are killed: whoever reads what was committed sees each
//! event once.

use crate::Stage;
use crate::outbox_kafka::{consume, make_topic};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![a_relay_that_dies_at_any_point_doubles_nothing];

const PATIENCE: Duration = Duration::from_secs(240);

/// A transaction may take three fifths of it, which has to do for a busy broker. Who is dead loses it at once.
const LEASE: &str = "20s";

const BATCH: usize = 100;

/// How many partitions a topic has here.
const PARTITIONS: u32 = 4;

/// A database, a topic, and relays between them.
struct Stand {
    stage: Stage,
    store: Store,
    servers: String,
    topic: String,
    /// How many events were written.
    written: usize,
    hired: usize,
}

impl Stand {
    async fn new(name: &str, scratch: &Scratch, servers: &str) -> Self {
        let topic = format!("{name}-{}-{:?}", std::process::id(), scratch_kind(scratch));
        make_topic(servers, &topic, PARTITIONS);
        let stage = Stage::on(scratch.url())
            .with("KAFKA_BOOTSTRAP_SERVERS", servers)
            .with("TIDEMILL_OUTBOX_KAFKA_TRANSACTIONAL", "true")
            .with("TIDEMILL_OUTBOX_KAFKA_TRANSACTIONAL_ID", &topic)
            .with("TIDEMILL_OUTBOX_BASE_BACKOFF", "200ms")
            // A process that is stopped for a while is to come back, not to end.
            .with("TIDEMILL_PROCESS_LEASE", "10m");
        let store = scratch.store(None).await.unwrap();
        Self { stage, store, servers: servers.to_owned(), topic, written: 0, hired: 0 }
    }

    fn relay(&mut self, point: Option<&str>) -> Guarded {
        self.hired += 1;
        let (log, batch) = (format!("relay-{}.log", self.hired), BATCH.to_string());
        let arguments = ["relay", "--sink", "kafka", "--batch", &batch, "--lease", LEASE];
        let mut command = self.stage.command(&arguments);
        command.envs(point.map(|point| ("TIDEMILL_CRASH_AT", point)));
        command.stdout(Stdio::null()).stderr(File::create(self.stage.path(&log)).unwrap());
        Guarded::spawn(command).unwrap()
    }

    /// Writes events of 40 aggregates, in one transaction.
    async fn write(&mut self, count: usize) {
        let topic = self.topic.clone();
        self.write_to(count, &topic).await;
    }

    async fn write_to(&mut self, count: usize, topic: &str) {
        let row = |n: usize| format!("('thing', 'thing-{}', 'thing.moved', '{topic}', '{{}}')", n % 40);
        let rows: Vec<String> = (self.written..self.written + count).map(row).collect();
        let sql = format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload) values {}",
            rows.join(", ")
        );
        let mut tx = self.store.begin().await.unwrap();
        tx.execute_for_test(&sql).await.unwrap();
        tx.commit().await.unwrap();
        self.written += count;
    }

    /// Waits until all events are read and none has failed.
    async fn until_published(&self) {
        let published = async {
            loop {
                let mut tx = self.store.read().await.unwrap();
                let places = tx.outbox().places().await.unwrap();
                let read: i64 = places.iter().map(|place| place.seq.get()).sum();
                let slots: Vec<_> = places.iter().map(|place| place.slot).collect();
                let blocked = tx.outbox().blocked(&slots).await.unwrap();
                tx.commit().await.unwrap();
                if read >= i64::try_from(self.written).unwrap() && blocked.is_empty() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, published).await.is_err() {
            let logs = (1..=self.hired)
                .map(|n| std::fs::read_to_string(self.stage.path(&format!("relay-{n}.log"))).unwrap());
            panic!("not all events are published: {}", logs.collect::<Vec<_>>().join("\n---\n"));
        }
    }

    /// Waits until the others have given up a relay.
    async fn until_given_up(&self, pid: u32) {
        let given_up = async {
            loop {
                let mut tx = self.store.read().await.unwrap();
                let live = tx.outbox().relays().await.unwrap();
                tx.rollback().await.unwrap();
                if live.iter().all(|detail| detail.relay.pid != pid) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, given_up)
            .await
            .expect("somebody who finds that its lease has run out");
    }

    /// That each event is there once and in order, for whoever reads what was committed.
    fn judge(&self, told: &str) {
        let read = consume(&self.servers, &self.topic, &["isolation.level=read_committed"]).unwrap();
        let mut reads: Vec<(i64, i64, String, i64)> = read
            .lines()
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let headers = line["headers"].as_array().unwrap();
                let id = headers.iter().find(|header| header[0] == "tidemill-event-id").unwrap();
                let id = id[1].as_str().unwrap().parse().unwrap();
                let key = line["key"].as_str().unwrap().to_owned();
                (line["partition"].as_i64().unwrap(), line["offset"].as_i64().unwrap(), key, id)
            })
            .collect();
        reads.sort_unstable_by_key(|(partition, offset, ..)| (*partition, *offset));
        let mut last: HashMap<&str, i64> = HashMap::new();
        for (.., key, id) in &reads {
            let before = last.insert(key, *id).unwrap_or_default();
            assert!(before < *id, "{told}: {id} came after {before} of {key}");
        }
        let ids: HashSet<i64> = reads.iter().map(|(.., id)| *id).collect();
        assert_eq!((reads.len(), ids.len()), (self.written, self.written), "{told}");
    }
}

fn scratch_kind(scratch: &Scratch) -> usize {
    usize::from(scratch.url().starts_with("postgres"))
}

fn end(mut relay: Guarded) {
    relay.signal(Signal::TERM).unwrap();
    let ended = relay.wait_deadline(PATIENCE).expect("an end");
    assert!(ended.success(), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_are_killed_or_stopped_under_load_lose_double_and_reorder_nothing() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let Some(scratch) = Scratch::postgres().await else { return };
    let mut stand = Stand::new("killed", &scratch, &servers).await;
    let mut crew = vec![stand.relay(None), stand.relay(None)];
    let mut ghost = None;

    for round in 0..6 {
        for _ in 0..60 {
            stand.write(20).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let mut taken_out = crew.remove(0);
        if round == 2 {
            // Stopped until its lease has run out, and back as a ghost some rounds later.
            taken_out.signal(Signal::STOP).unwrap();
            ghost = Some(taken_out);
        } else {
            taken_out.signal(Signal::KILL).unwrap();
            taken_out.wait_deadline(PATIENCE).unwrap();
            stand.stage.lapse(taken_out.pid());
        }
        if round == 4
            && let Some(mut ghost) = ghost.take()
        {
            stand.until_given_up(ghost.pid()).await;
            ghost.signal(Signal::CONT).unwrap();
            crew.push(ghost);
        } else {
            crew.push(stand.relay(None));
        }
    }
    stand.until_published().await;
    crew.into_iter().for_each(end);

    stand.judge("killed");
    stand.store.close().await;
}

/// Points at which a relay dies, and at which pass.
const POINTS: &[(&str, &[u32])] = &[
    ("outbox_slots_taken", &[1]),
    ("outbox_published", &[1, 3]),
    ("before_commit", &[4]),
    ("after_commit", &[4]),
];

async fn a_relay_that_dies_at_any_point_doubles_nothing(scratch: Scratch) {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let mut stand = Stand::new("points", &scratch, &servers).await;
    for (name, passes) in POINTS {
        for pass in *passes {
            let point = format!("{name}:{pass}");
            stand.write(4 * BATCH).await;
            let mut dying = stand.relay(Some(&point));
            let died = dying.wait_deadline(PATIENCE).expect("an end");
            assert_eq!(died.signal(), Some(6), "{point} was not passed on {}", scratch.url());
            stand.stage.lapse(dying.pid());
            stand.write(BATCH).await;
            let heir = stand.relay(None);
            stand.until_published().await;
            end(heir);
            stand.judge(&point);
        }
    }
    stand.store.close().await;
}

/// A topic that is not there yet makes failed events; when it is there, they are published, and the relay dies before it can
/// say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_event_that_arrived_before_the_relay_died_does_not_come_again() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let scratch = Scratch::file();
    let mut stand = Stand::new("failed", &scratch, &servers).await;
    let late = format!("{}-late", stand.topic);
    stand.write_to(80, &late).await;
    let relay = stand.relay(None);
    let parked = async {
        while !stand.stage.run(&["outbox", "failed", "-o", "json"]).stdout.contains("\"parked\"") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, parked).await.expect("parked events");
    end(relay);
    make_topic(&servers, &late, PARTITIONS);
    stand.stage.run(&["outbox", "replay", "--all", "--reason", "it is there now"]).succeeds();

    let mut dying = stand.relay(Some("outbox_tried_again:1"));
    let died = dying.wait_deadline(PATIENCE).expect("an end");
    assert_eq!(died.signal(), Some(6), "nothing was tried again");
    stand.stage.lapse(dying.pid());
    let heir = stand.relay(None);
    stand.until_published().await;
    end(heir);

    stand.topic = late;
    stand.judge("failed");
    stand.store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_with_and_without_transactions_do_not_run_side_by_side() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let scratch = Scratch::file();
    let mut stand = Stand::new("mixed", &scratch, &servers).await;
    stand.write(10).await;
    let relay = stand.relay(None);
    stand.until_published().await;

    let plain = stand.stage.run(&["relay", "--sink", "file:events.jsonl", "--lease", LEASE]);

    assert!(plain.fails("TM1407", 5).stderr.contains("in transactions of mixed-"), "{plain:#?}");
    assert!(plain.stderr.contains("outbox.kafka.transactional"), "{plain:#?}");
    let many = stand.stage.run(&["relay", "--sink", "kafka", "--instance", "0", "--total", "17"]);
    assert!(many.fails("TM1407", 5).stderr.contains("16 groups"), "{many:#?}");
    end(relay);
    stand.store.close().await;
}
