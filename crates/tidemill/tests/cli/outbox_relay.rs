//! The relay as a process: by itself and inside a server; and events at the command line.

use crate::pool::json_of;
use crate::serve::Served;
use crate::{Ran, Stage};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    what_is_added_is_published_and_shown_as_such,
    a_signal_ends_it_after_the_batch_in_hand_and_another_goes_on_there,
    shares_that_contradict_each_other_are_refused_by_name,
    a_server_with_a_sink_publishes_at_once_what_it_is_sent,
    the_slots_of_a_server_that_ends_are_taken_over_long_before_their_lease_is_over,
    a_reader_that_goes_away_ends_the_relay_and_loses_nothing,
];

const PATIENCE: Duration = Duration::from_secs(180);
const FILE: &str = "file:events.jsonl";

/// A database with its schema.
async fn stage(database: &Scratch) -> Stage {
    database.store(None).await.unwrap().close().await;
    Stage::on(database.url())
}

fn add(stage: &Stage, order: &str) -> i64 {
    let what = ["outbox", "add", "--aggregate-type", "order", "--aggregate-id", order];
    let happened = ["--event-type", "order.paid", "--topic", "orders"];
    let said = ["--payload", "{\"amount\": 5}", "--header", "trace=abc", "-o", "json"];
    json_of(&stage.run(&[&what[..], &happened, &said].concat()))["id"].as_i64().unwrap()
}

/// A relay that logs to a file.
fn relay(stage: &Stage, log: &str, arguments: &[&str]) -> Guarded {
    let mut command = stage.command(&[&["relay", "-v"], arguments].concat());
    command.stderr(fs::File::create(stage.path(log)).unwrap());
    Guarded::spawn(command).unwrap()
}

/// The whole lines of a file. The last one may still be on its way.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until a file has so many lines.
#[track_caller]
fn wait_for(path: &Path, count: usize) -> Vec<Value> {
    let clock = SystemClock::new();
    loop {
        let found = lines(path);
        if found.len() >= count {
            return found;
        }
        assert!(
            clock.monotonic().since(Monotonic::from_origin(Duration::ZERO)) < PATIENCE,
            "{} has {} lines",
            path.display(),
            found.len()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a log says this.
#[track_caller]
fn wait_for_text(path: &Path, text: &str) {
    let clock = SystemClock::new();
    while !fs::read_to_string(path).unwrap_or_default().contains(text) {
        assert!(
            clock.monotonic().since(Monotonic::from_origin(Duration::ZERO)) < PATIENCE,
            "{}",
            fs::read_to_string(path).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn ends_in_order(mut child: Guarded) {
    child.signal(Signal::TERM).unwrap();
    let ended = child.wait_deadline(PATIENCE).expect("it ends within 25 seconds");
    assert!(ended.success(), "{ended:?}");
}

async fn what_is_added_is_published_and_shown_as_such(database: Scratch) {
    let stage = stage(&database).await;
    let id = add(&stage, "order-1");
    let show = |id: i64| json_of(&stage.run(&["outbox", "show", &id.to_string(), "-o", "json"]));
    assert_eq!((&show(id)["state"], &show(id)["slot"]), (&json!("pending"), &json!(0x6e)));

    let child = relay(&stage, "relay.log", &["--sink", FILE]);
    let line = wait_for(&stage.path("events.jsonl"), 1).remove(0);

    assert_eq!((&line["id"], &line["payload"]), (&json!(id), &json!({ "amount": 5 })));
    assert_eq!((&line["topic"], &line["headers"]), (&json!("orders"), &json!({ "trace": "abc" })));
    let relays = json_of(&stage.run(&["outbox", "relays", "-o", "json"]));
    let relay = &relays["items"][0];
    let sink = format!("file:{}", stage.path("events.jsonl").display());
    assert_eq!((&relay["sink"], &relay["slots"]), (&json!(sink), &json!(256)));
    assert!(relay["published_per_second"].is_number() && relay["empty_poll_ratio"].is_number(), "{relay}");
    ends_in_order(child);
    let shown = show(id);
    assert_eq!(
        (&shown["state"], &shown["payload"]["text"]),
        (&json!("published"), &json!("{\"amount\": 5}"))
    );
    assert_eq!(shown["owner"], Value::Null);
    let listed = stage.run(&["outbox", "list", "--aggregate-id", "order-1", "-o", "csv"]);
    assert!(listed.succeeds().stdout.contains(",order,order-1,order.paid,orders,110,13"), "{listed:#?}");
    assert!(stage.run(&["outbox", "relays"]).succeeds().stdout.contains("No relay is running."));
    assert!(stage.run(&["outbox", "verify", "--sink", FILE]).succeeds().stdout.contains("0 lost"));
    let processes = stage.run(&["process", "list", "-o", "csv"]);
    assert!(processes.stdout.contains(",stopped,"), "{processes:#?}");
}

async fn a_signal_ends_it_after_the_batch_in_hand_and_another_goes_on_there(database: Scratch) {
    let stage = stage(&database).await;
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let event = |n: u32| {
        let payload = Payload::Json(n.to_string());
        NewEvent::new("order", (n % 7).to_string(), "order.paid", "orders", payload).unwrap()
    };
    tx.publish_all(&(0..3_000).map(event).collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;

    let first = relay(&stage, "first.log", &["--sink", FILE, "--batch", "50"]);
    wait_for(&stage.path("events.jsonl"), 1);
    ends_in_order(first);
    let published = lines(&stage.path("events.jsonl")).len();
    let second = relay(&stage, "second.log", &["--sink", FILE]);
    wait_for(&stage.path("events.jsonl"), 3_000);
    ends_in_order(second);

    // Nothing is lost, and nothing came twice: all that was written was also acknowledged.
    assert!(published.is_multiple_of(50) && published < 3_000, "{published}");
    assert_eq!(lines(&stage.path("events.jsonl")).len(), 3_000);
    let verified = json_of(&stage.run(&["outbox", "verify", "--sink", FILE, "-o", "json"]));
    assert_eq!((&verified["is_clean"], &verified["duplicated"]["count"]), (&json!(true), &json!(0)));
}

async fn shares_that_contradict_each_other_are_refused_by_name(database: Scratch) {
    let stage = stage(&database).await.with("TIDEMILL_OUTBOX_LEASE", "1s");
    let with = |id: &str, total: &str| {
        let mut command = stage.command(&["relay", "--sink", "stdout"]);
        command.env("RELAY_INSTANCE_ID", id).env("RELAY_TOTAL_INSTANCES", total);
        command.stderr(fs::File::create(stage.path(&format!("refused-{id}.log"))).unwrap());
        Guarded::spawn(command).unwrap()
    };
    let mut first = stage.command(&["relay", "--sink", FILE, "-v"]);
    first.env("RELAY_INSTANCE_ID", "0").env("RELAY_TOTAL_INSTANCES", "3");
    first.env("TIDEMILL_PROCESS_NAME", "first-relay");
    first.stderr(fs::File::create(stage.path("first.log")).unwrap());
    let first = Guarded::spawn(first).unwrap();
    wait_for_text(&stage.path("first.log"), "has joined");

    // Each waits as long as a lease, so all at once.
    let refused = [
        ("0", "3", "and so has relay first-relay"),
        ("1", "4", "RELAY_TOTAL_INSTANCES=4, but"),
        ("", "", "no fixed share"),
    ]
    .map(|(id, total, why)| (with(id, total), format!("refused-{id}.log"), why));
    for (mut child, log, why) in refused {
        let ended = child.wait_deadline(PATIENCE).expect("it is refused within 25 seconds");
        let text = fs::read_to_string(stage.path(&log)).unwrap();
        assert_eq!(ended.code(), Some(5), "{text}");
        for part in ["TM1407", "first-relay", why] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }

    // Some of these are in its slots, and some are not.
    for order in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        add(&stage, order);
    }
    wait_for_text(&stage.path("first.log"), "(partition 0/3)");
    let log = fs::read_to_string(stage.path("first.log")).unwrap();
    assert!(log.contains("[Instance-0] Processing "), "{log}");
    assert!(lines(&stage.path("events.jsonl")).iter().all(|line| line["slot"].as_u64().unwrap() % 3 == 0));
    ends_in_order(first);
}

/// SQLite has neither roles nor partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_make_partitions_publishes_and_is_told_what_it_lacks() {
    let Some(database) = Scratch::postgres().await else { return };
    let owned = stage(&database).await;
    let store = database.store(None).await.unwrap();
    let execute = async |sql: &str| {
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test(sql).await.unwrap();
        tx.commit().await.unwrap();
    };
    let role = format!("tm_relay_{}", std::process::id());
    execute(&format!(
        "create role {role} login;
         grant select, insert, update, delete on all tables in schema public to {role};
         grant usage on all sequences in schema public to {role}"
    ))
    .await;
    let lacking = Stage::on(&database.url().replace("tidemill@", &format!("{role}@")));
    let partitions = async || store.read().await.unwrap().outbox().partitions().await.unwrap().len();
    let before = partitions().await;

    add(&owned, "a");
    let child = relay(&lacking, "relay.log", &["--sink", FILE]);
    wait_for(&lacking.path("events.jsonl"), 1);
    wait_for_text(&lacking.path("relay.log"), "the outbox could not be kept (TM0213)");
    ends_in_order(child);
    let lacked = partitions().await;
    execute(&format!("grant tidemill to {role}")).await;
    let child = relay(&lacking, "second.log", &["--sink", FILE]);
    let clock = SystemClock::new();
    while partitions().await == before {
        let waited = clock.monotonic().since(Monotonic::from_origin(Duration::ZERO));
        assert!(waited < PATIENCE, "{before}");
    }
    ends_in_order(child);

    assert_eq!(lacked, before);
    execute(&format!("drop owned by {role} cascade; drop role {role}")).await;
}

#[test]
fn what_a_fixed_share_processes_is_shown_unless_only_errors_are() {
    for (level, is_shown) in [("warn", true), ("error", false)] {
        let stage = Stage::new().with("TIDEMILL_LOG_LEVEL", level);
        add(&stage, "a");
        let mut command = stage.command(&["relay", "--sink", FILE, "--instance", "0", "--total", "1"]);
        command.stderr(fs::File::create(stage.path("relay.log")).unwrap());
        let child = Guarded::spawn(command).unwrap();

        wait_for(&stage.path("events.jsonl"), 1);
        ends_in_order(child);

        let log = fs::read_to_string(stage.path("relay.log")).unwrap();
        assert_eq!(
            log.contains("[Instance-0] Processing 1 events (partition 0/1)"),
            is_shown,
            "{level}: {log}"
        );
        assert!(!log.contains("has joined"), "{level}: {log}");
    }
}

#[test]
fn settings_that_are_no_share_are_refused_before_anything_else() {
    let stage = Stage::on("postgres://nobody@127.0.0.1:1/x");
    let relay = |id: &str, total: &str| {
        let mut command = stage.command(&["relay", "--sink", "stdout"]);
        command.env("RELAY_INSTANCE_ID", id).env("RELAY_TOTAL_INSTANCES", total);
        Ran::of(command.output().unwrap())
    };

    let missing = relay("", "3");
    assert!(missing.fails("TM1407", 5).stderr.contains("RELAY_INSTANCE_ID is not set"), "{missing:#?}");
    let beyond = relay("3", "3");
    assert!(beyond.fails("TM1407", 5).stderr.contains("ids go from 0 to 2"), "{beyond:#?}");
    let none = relay("0", "0");
    assert!(none.fails("TM1407", 5).stderr.contains("1 to 256"), "{none:#?}");
    let no_number = relay("one", "3");
    assert!(no_number.fails("TM0102", 2).stderr.contains("RELAY_INSTANCE_ID"), "{no_number:#?}");
    let flag = stage.run(&["relay", "--sink", "stdout", "--instance", "1"]);
    assert!(flag.fails("TM1407", 5).stderr.contains("RELAY_TOTAL_INSTANCES is not set"), "{flag:#?}");
    stage.run(&["relay"]).fails("TM1402", 2);
    stage.run(&["relay", "--sink", "pigeon:host"]).fails("TM1402", 2);
    let device = stage.run(&["relay", "--sink", "file:/dev/null"]);
    assert!(device.fails("TM1402", 2).stderr.contains("/dev/null is not a regular file"), "{device:#?}");
    let backoff = stage.with("TIDEMILL_OUTBOX_MAX_BACKOFF", "1s").run(&["relay", "--sink", "stdout"]);
    assert!(backoff.fails("TM0102", 2).stderr.contains("outbox.base_backoff"), "{backoff:#?}");
}

#[test]
fn the_standard_output_has_nothing_but_records() {
    let stage = Stage::new();
    add(&stage, "a");
    let mut command = stage.command(&["relay", "--sink", "stdout", "-v"]);
    command.stdout(fs::File::create(stage.path("out.jsonl")).unwrap());
    command.stderr(fs::File::create(stage.path("relay.log")).unwrap());
    let child = Guarded::spawn(command).unwrap();

    let line = wait_for(&stage.path("out.jsonl"), 1).remove(0);
    ends_in_order(child);

    assert_eq!((line["aggregate_id"].as_str(), lines(&stage.path("out.jsonl")).len()), (Some("a"), 1));
    assert!(fs::read_to_string(stage.path("relay.log")).unwrap().contains("publishing to stdout"));
}

async fn a_server_with_a_sink_publishes_at_once_what_it_is_sent(database: Scratch) {
    // The next look is a minute away, so what comes in half of that was not found by a look.
    let stage = stage(&database).await.with("TIDEMILL_OUTBOX_SINK", FILE);
    let stage = stage.with("TIDEMILL_OUTBOX_POLL", "1m").with("TIDEMILL_OUTBOX_LEASE", "10m");
    let served = Served::start(&stage, &[]);
    let post = |n: usize| {
        let event = json!({
            "aggregate_type": "order", "aggregate_id": format!("order-{n}"), "event_type": "order.paid",
            "topic": "orders", "payload": { "type": "json", "text": "{}" },
        });
        let (status, body) = served.post("/api/v1/outbox/events", &event.to_string());
        assert_eq!(status, 201, "{body}");
    };
    // The relay has joined when the first has arrived.
    post(0);
    wait_for(&stage.path("events.jsonl"), 1);

    for n in 1..=10 {
        post(n);
        let clock = SystemClock::new();
        wait_for(&stage.path("events.jsonl"), n + 1);
        let took = clock.monotonic().since(Monotonic::from_origin(Duration::ZERO));
        assert!(took < Duration::from_secs(30), "{took:?}: a look has found it");
    }

    let (_, relays) = served.get("/api/v1/outbox/relays", None);
    assert!(relays.contains("\"slots\":256"), "{relays}");
    ends_in_order(served.child);
    assert!(stage.run(&["outbox", "relays"]).succeeds().stdout.contains("No relay is running."));
}

async fn the_slots_of_a_server_that_ends_are_taken_over_long_before_their_lease_is_over(database: Scratch) {
    let stage = stage(&database).await.with("TIDEMILL_OUTBOX_LEASE", "10m");
    let stage = stage.with("TIDEMILL_OUTBOX_SINK", FILE);
    let slots = || {
        let relays = json_of(&stage.run(&["outbox", "relays", "-o", "json"]));
        let items = relays["items"].as_array().unwrap();
        items.iter().map(|relay| relay["slots"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let wait_for_slots = |expected: &[u64]| {
        let clock = SystemClock::new();
        while slots() != expected {
            let waited = clock.monotonic().since(Monotonic::from_origin(Duration::ZERO));
            assert!(waited < PATIENCE, "{:?}, not {expected:?}", slots());
        }
    };
    let served = Served::start(&stage, &[]);
    wait_for_slots(&[256]);
    let other = relay(&stage, "relay.log", &[]);
    wait_for_slots(&[128, 128]);

    ends_in_order(served.child);
    wait_for_slots(&[256]);

    // In slots of both.
    for order in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        add(&stage, order);
    }
    assert_eq!(wait_for(&stage.path("events.jsonl"), 8).len(), 8);
    ends_in_order(other);
}

#[test]
fn a_server_whose_relay_is_refused_serves_all_the_same() {
    let stage = Stage::new().with("TIDEMILL_OUTBOX_LEASE", "1s").with("TIDEMILL_OUTBOX_SINK", FILE);
    add(&stage, "a");
    let fixed = relay(&stage, "relay.log", &["--instance", "0", "--total", "2"]);
    wait_for_text(&stage.path("relay.log"), "has joined");

    let served = Served::start(&stage, &[]);
    wait_for_text(&stage.path("serve.log"), "this relay may not join");

    assert_eq!(served.get("/healthz/ready", None).0, 200);
    let (_, metrics) = served.get("/metrics", None);
    assert!(metrics.contains("tidemill_outbox_joins_refused_total 1"), "{metrics}");
    ends_in_order(served.child);
    ends_in_order(fixed);
}

#[test]
fn an_event_is_written_in_every_form_and_what_is_not_one_is_refused() {
    let stage = Stage::new();
    let what = ["outbox", "add", "--aggregate-type", "order", "--aggregate-id", "a"];
    let happened = ["--event-type", "order.paid", "--topic", "orders"];
    let add = |more: &[&str]| stage.run(&[&what[..], &happened, more].concat());
    let show = |id: &str| json_of(&stage.run(&["outbox", "show", id, "-o", "json"]));
    fs::write(stage.path("payload.json"), "{\"n\":1}").unwrap();
    fs::write(stage.path("payload.base64"), "AP\n8=\n").unwrap();
    fs::write(stage.path("large"), " ".repeat(1024 * 1024 + 1)).unwrap();

    add(&["--payload", "@payload.json"]).succeeds();
    add(&["--payload-base64", "AP8="]).succeeds();
    add(&["--tombstone"]).succeeds();
    add(&["--payload-base64", "@payload.base64"]).succeeds();

    assert_eq!(show("1")["payload"]["text"], "{\"n\":1}");
    assert_eq!(show("2")["payload"], json!({ "type": "bytes", "base64": "AP8=" }));
    assert_eq!(show("3")["payload"], json!({ "type": "tombstone" }));
    assert_eq!(show("4")["payload"]["base64"], "AP8=");
    let audit = json_of(&stage.run(&["audit", "list", "--action", "event.add", "-o", "json"]));
    let objects: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().map(|entry| &entry["object"]).collect();
    assert_eq!(objects, ["event/4", "event/3", "event/2", "event/1"]);
    add(&["--payload", "{"]).fails("TM1401", 2);
    assert!(add(&["--payload", "@large"]).fails("TM1401", 2).stderr.contains("bytes"));
    add(&["--payload-base64", "no"]).fails("TM1401", 2);
    add(&["--payload", "{}", "--tombstone"]).fails("TM0002", 2);
    add(&[]).fails("TM0002", 2);
    stage.run(&["outbox", "show", "99"]).fails("TM1408", 3);
    let page = stage.run(&["outbox", "list", "--limit", "2", "-o", "jsonl"]);
    assert_eq!(page.succeeds().stdout.lines().count(), 2);
    assert!(page.stderr.contains("--before 3"), "{page:#?}");
    assert_eq!(stage.run(&["outbox", "list", "--before", "3", "-o", "jsonl"]).stdout.lines().count(), 2);
}

async fn a_reader_that_goes_away_ends_the_relay_and_loses_nothing(database: Scratch) {
    let stage = stage(&database).await;
    let mut command = stage.command(&["relay", "--sink", "stdout"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer).stderr(fs::File::create(stage.path("relay.log")).unwrap());
    let mut child = Guarded::spawn(command).unwrap();
    drop(reader);

    let id = add(&stage, "order-1");
    let ended = child.wait_deadline(PATIENCE).expect("it ends by itself");

    let log = fs::read_to_string(stage.path("relay.log")).unwrap();
    assert_eq!(ended.code(), Some(1), "{log}");
    assert!(log.contains("TM1412"), "{log}");
    let shown = json_of(&stage.run(&["outbox", "show", &id.to_string(), "-o", "json"]));
    assert_eq!(shown["state"], json!("pending"));
}
