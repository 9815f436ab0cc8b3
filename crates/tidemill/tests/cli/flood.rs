//! A flood of requests whose callers hang up at once: nobody else notices, and no transaction stays open.

use crate::Stage;
use crate::serve::{Served, ask};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tidemill_store::scratch::Scratch;

/// Requests that are cut off, by each of the callers, at most.
const CUT_OFF: usize = 5_000;
const CALLERS: usize = 4;
/// Requests beside them that wait for their answer.
const GOOD: usize = 100;

const EVENTS: &str = "/api/v1/outbox/events";
const SINK: &str = "file:events.jsonl";

/// Nothing orders events of different callers, so each has an aggregate of its own.
fn event(aggregate: &str) -> String {
    json!({
        "aggregate_type": "order", "aggregate_id": aggregate, "event_type": "paid", "topic": "orders",
        "payload": { "type": "json", "text": "{}" },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_nobody_suffers_from_requests_that_are_cut_off() {
    flood(&Scratch::file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_nobody_suffers_from_requests_that_are_cut_off() {
    let Some(database) = Scratch::postgres().await else { return };

    flood(&database);

    no_transaction_stays_open(&database).await;
}

fn flood(database: &Scratch) {
    let stage =
        Stage::on(database.url()).with("TIDEMILL_OUTBOX_SINK", SINK).with("TIDEMILL_SERVER_AUTH", "required");
    stage.run(&["db", "migrate"]).succeeds();
    // Each caller has a rate of its own; the flood exceeds it after a while, and is looked up in the database all the same.
    let token = |name: &str| {
        let ran = stage.run(&["token", "create", name, "--role", "admin"]);
        format!("authorization: Bearer {}\r\n", ran.succeeds().stdout.trim())
    };
    let (rude, polite) = (token("rude"), token("polite"));
    let served = Served::start(&stage, &[]);
    let (is_over, cut_off) = (AtomicBool::new(false), AtomicUsize::new(0));

    let refused: Vec<(u16, String)> = std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (address, rude, is_over, cut_off) = (&served.address, &rude, &is_over, &cut_off);
            scope.spawn(move || {
                for number in (0..CUT_OFF).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    let patience = Duration::from_micros((number % 40) as u64 * 100);
                    let body =
                        if (caller + number) % 3 == 0 { "" } else { &event(&format!("{caller}-{number}")) };
                    hang_up(address, rude, body, patience);
                    cut_off.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let body = event("polite");
        let headers = format!("{polite}content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let answers: Vec<(u16, String)> =
            (0..GOOD).map(|_| ask(&served.address, "POST", EVENTS, &headers, &body)).collect();
        is_over.store(true, Ordering::Relaxed);
        answers.into_iter().filter(|(status, _)| *status != 201).collect()
    });

    assert_eq!(refused, [], "answers to others, beside {cut_off:?} requests that were cut off");
    assert!(cut_off.load(Ordering::Relaxed) >= GOOD, "there was no flood: {cut_off:?}");
    let verdict = published(&stage);
    assert!(verdict["events"].as_u64() >= Some(GOOD as u64), "{verdict}");
    for fault in ["lost", "reordered", "duplicated"] {
        assert_eq!(verdict[fault]["count"], json!(0), "{fault}: {verdict}");
    }
}

/// Sends a request and hangs up after `patience`, without reading the answer.
fn hang_up(address: &str, token: &str, body: &str, patience: Duration) {
    // A server that has too many connections may refuse one; that is its right.
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let method = if body.is_empty() { "GET" } else { "POST" };
    let head = format!(
        "{method} {EVENTS} HTTP/1.1\r\nhost: {address}\r\n{token}content-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let _refused = stream.write_all(format!("{head}{body}").as_bytes());
    std::thread::sleep(patience);
}

/// What the auditor says once everything that was written has been published.
fn published(stage: &Stage) -> Value {
    let mut verdict = Value::Null;
    for _ in 0..300 {
        let ran = stage.run(&["outbox", "verify", "--sink", SINK, "-o", "json"]);
        verdict = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:#?}"));
        if verdict["pending"] == json!(0) {
            return verdict;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not everything was published: {verdict}");
}

/// Those that are at work come to their end; one that was left open stays.
async fn no_transaction_stays_open(database: &Scratch) {
    let store = database.store(None).await.unwrap();
    let mut found = Ok(());
    for _ in 0..100 {
        let mut tx = store.begin().await.unwrap();
        found = tx
            .execute_for_test(
                "do $$ begin
                     if exists (select from pg_stat_activity
                                where datname = current_database() and pid <> pg_backend_pid()
                                  and state like 'idle in transaction%' and xact_start < now() - interval '1 second')
                     then raise exception 'a transaction was left open'; end if;
                 end $$",
            )
            .await;
        if found.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    found.unwrap();
}
