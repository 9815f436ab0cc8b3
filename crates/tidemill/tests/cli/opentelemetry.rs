//! Traces, metrics and logs, as a receiver reads them that knows only the definitions of OpenTelemetry.

use crate::job_reload::until;
use crate::outbox_kafka::{consume, make_topic};
use crate::serve::{Served, ask};
use crate::{Stage, workspace};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::job::ExecutionId;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(180);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Each item becomes an event.
const LOAD: &str = r#"job: load
on_crash: { restart: 1 }
steps:
  - name: copy
    chunk: 2
    read: { csv: { path: in.csv } }
    process: { map: { id: "int(row.id)" } }
    write: { outbox: { topic: loaded, aggregate_type: item, aggregate_id: "row.id", event_type: made } }
"#;

/// The real definitions of the protocol in Python, which Airflow brings along.
struct Receiver {
    _server: Guarded,
    folder: TempDir,
    endpoint: String,
}

impl Receiver {
    /// None when tests with that Python are to be skipped.
    fn start() -> Option<Self> {
        let python = require("airflow3", std::env::var_os("TIDEMILL_TEST_AIRFLOW3_PYTHON"))?;
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(python);
        command.arg(workspace().join("crates/tidemill/tests/cli/opentelemetry/receiver.py"));
        command.arg(folder.path().join("received.jsonl")).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut server = Guarded::spawn_reading(command).unwrap();
        let port = server.next_line(PATIENCE).unwrap();
        Some(Self { _server: server, folder, endpoint: format!("http://127.0.0.1:{}/", port.trim()) })
    }

    /// All records of a kind.
    fn received(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("received.jsonl")).unwrap_or_default();
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.filter(|record| record["kind"] == kind).collect()
    }

    /// The only span of this name in the trace of the caller.
    #[track_caller]
    fn span(&self, name: &str) -> Value {
        let spans = self.received("span");
        let found: Vec<&Value> =
            spans.iter().filter(|span| span["name"] == name && span["trace"] == TRACE).collect();
        assert_eq!(found.len(), 1, "{name}: {spans:#?}");
        found[0].clone()
    }
}

fn with_job(stage: Stage) -> Stage {
    fs::create_dir(stage.path("jobs")).unwrap();
    fs::write(stage.path("jobs/load.yaml"), LOAD).unwrap();
    fs::write(stage.path("in.csv"), "id\n1\n2\n3\n").unwrap();
    stage
}

fn sending(stage: Stage, endpoint: &str) -> Stage {
    stage
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .with("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
        .with("OTEL_SERVICE_NAME", "batch")
}

/// The headers of a request within the trace of the caller.
fn headers(body: &str) -> String {
    let length = body.len();
    format!(
        "content-type: application/json\r\ncontent-length: {length}\r\ntraceparent: 00-{TRACE}-{CALLER}-01\r\n"
    )
}

fn post(served: &Served, path: &str, body: &str) -> (u16, Value) {
    let (status, body) = ask(&served.address, "POST", path, &headers(body), body);
    (status, serde_json::from_str(&body).unwrap())
}

#[track_caller]
fn end(mut served: Served) {
    served.child.signal(Signal::TERM).unwrap();
    assert!(served.child.wait_deadline(PATIENCE).expect("it ends").success());
}

/// The lines of the sink, once there are so many.
fn events(stage: &Stage, count: usize) -> Vec<Value> {
    let lines = || {
        let text = fs::read_to_string(stage.path("events.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    until("the events are published", || Some(lines()).filter(|lines| lines.len() >= count))
}

#[test]
fn a_job_that_a_request_launches_is_in_the_trace_of_the_request() {
    let Some(receiver) = Receiver::start() else { return };
    let stage = sending(with_job(Stage::new()), &receiver.endpoint)
        .with("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .with("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=theirs")
        .with("TIDEMILL_TELEMETRY_HEADERS", "authorization=Bearer%20ours%2541")
        .with("TIDEMILL_PROCESS_NAME", "server-1")
        .with("TIDEMILL_OUTBOX_SINK", "file:events.jsonl")
        .with("TIDEMILL_LOG_LEVEL", "debug");
    let served = Served::start(&stage, &[]);
    let (launch, parameters) = ("/api/v1/jobs/load/executions", r#"{"parameters":{"day":"1"}}"#);

    let (status, launched) = post(&served, launch, parameters);
    assert_eq!(status, 202, "{launched}");
    let events = events(&stage, 3);
    let path = format!("/api/v1/executions/{}", launched["id"]);
    until("the job completes", || served.get(&path, None).1.contains("\"COMPLETED\"").then_some(()));
    // Of another trace: it has no span of a job, because it is refused.
    let json = format!("content-type: application/json\r\ncontent-length: {}\r\n", parameters.len());
    let (status, refused) = ask(&served.address, "POST", launch, &json, parameters);
    assert_eq!(status, 409, "{refused}");
    // Nothing is due for seconds: the end sends what there is.
    end(served);

    let request = receiver.span("POST /api/v1/jobs/{name}/executions");
    let (job, step, chunk) = (receiver.span("job"), receiver.span("step"), receiver.span("chunk"));
    assert_eq!(request["parent"], CALLER);
    assert_eq!((&job["parent"], &step["parent"]), (&request["id"], &job["id"]));
    assert_eq!(chunk["parent"], step["id"]);
    assert_eq!(receiver.received("span").iter().filter(|span| span["name"] == "job").count(), 1);
    assert_eq!(job["attributes"]["execution.id"], launched["id"].to_string());
    assert_eq!(request["attributes"]["http.response.status_code"], 202);
    for span in [&request, &job, &step, &chunk] {
        assert_eq!((&span["authorization"], &span["encoding"]), (&"Bearer ours%41".into(), &"gzip".into()));
        assert_eq!(span["resource"]["service.name"], "batch");
        assert_eq!(span["resource"]["service.instance.id"], "server-1");
    }
    for event in &events {
        let place = event["headers"]["traceparent"].as_str().unwrap();
        assert!(place.starts_with(&format!("00-{TRACE}-")) && place.ends_with("-01"), "{event}");
    }
    let batches: Vec<Value> =
        receiver.received("span").into_iter().filter(|span| span["name"] == "relay batch").collect();
    let is_linked = |batch: &Value| batch["links"].as_array().unwrap().contains(&TRACE.into());
    assert!(batches.iter().any(is_linked), "{batches:#?}");

    let counted = receiver.received("metric");
    assert!(counted.iter().all(|metric| metric["authorization"] == "Bearer ours%41"), "{counted:#?}");
    let is_count = |metric: &&Value| {
        metric["name"] == "tidemill_job_executions_total" && metric["attributes"]["status"] == "COMPLETED"
    };
    assert_eq!(counted.iter().find(is_count).expect("a counter")["value"], 1);
    let is_time = |metric: &&Value| metric["name"] == "tidemill_job_duration_seconds";
    assert_eq!(counted.iter().find(is_time).expect("a histogram")["count"], 1);
    let logs = receiver.received("log");
    let is_of_step = |log: &&Value| log["text"] == "chunk 1 of step copy has 2 items";
    let of_step = logs.iter().find(is_of_step).expect("a line of the log");
    assert_eq!((&of_step["trace"], &of_step["span"]), (&TRACE.into(), &step["id"]));
    // The exchange with the receiver is no subject of it.
    let is_noise = |log: &&Value| log["text"].as_str().unwrap().contains("/v1/logs");
    assert_eq!(logs.iter().find(is_noise), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_by_another_process_continues_the_trace() {
    let Some(receiver) = Receiver::start() else { return };
    let database = Scratch::file();
    database.store(None).await.unwrap().close().await;
    let stage = |name: &str| {
        sending(with_job(Stage::on(database.url())), &receiver.endpoint).with("TIDEMILL_PROCESS_NAME", name)
    };
    let dying = stage("server-1").with("TIDEMILL_CRASH_AT", "chunk_after_read:1");
    let mut served = Served::start(&dying, &[]);
    // It may die before it answers.
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let request = format!("POST /api/v1/jobs/load/executions HTTP/1.1\r\nhost: {}\r\n", served.address);
    write!(stream, "{request}{}\r\n{{}}", headers("{}")).unwrap();
    assert!(!served.child.wait_deadline(PATIENCE).expect("it dies").success());
    let other = stage("server-2");
    other.lapse(served.child.pid());

    let served = Served::start(&other, &[]);
    let is_complete = || served.get("/api/v1/executions?job=load", None).1.contains("\"COMPLETED\"");
    until("the restart completes", || is_complete().then_some(()));
    end(served);

    let job = receiver.span("job");
    assert_eq!(job["resource"]["service.instance.id"], "server-2");
    assert_eq!(job["attributes"]["execution.id"], "2");
    let first = recorded_place(database.url(), ExecutionId::new(1)).await;
    assert_eq!(first, format!("00-{TRACE}-{}-01", job["parent"].as_str().unwrap()));
}

/// Where the execution is in its trace, as the database knows it.
async fn recorded_place(url: &str, execution: ExecutionId) -> String {
    let store = Store::connect(url).await.unwrap();
    let place = store.read().await.unwrap().jobs().trace(execution).await.unwrap();
    store.close().await;
    place.expect("it was recorded")
}

#[test]
fn without_a_receiver_nothing_belongs_to_a_trace() {
    let stage = with_job(Stage::new()).with("TIDEMILL_OUTBOX_SINK", "file:events.jsonl");
    let served = Served::start(&stage, &[]);

    let (status, launched) = post(&served, "/api/v1/jobs/load/executions", "{}");
    assert_eq!(status, 202, "{launched}");
    let events = events(&stage, 3);
    end(served);

    for event in &events {
        assert_eq!(event["headers"], serde_json::json!({}), "{event}");
    }
}

/// A job of many steps, each with a span.
fn steps() -> String {
    let step = |n: u32| format!("  - name: s{n}\n    command: [\"true\"]\n");
    format!("job: many\nsteps:\n{}", (0..20).map(step).collect::<String>())
}

/// If work waited for the receiver, twenty steps and their job would wait for minutes.
#[test]
fn a_receiver_that_says_nothing_holds_nothing_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let stage = sending(Stage::new(), &format!("http://{}", silent.local_addr().unwrap()))
        .with("OTEL_BSP_MAX_QUEUE_SIZE", "1")
        .with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1");
    fs::write(stage.path("many.yaml"), steps()).unwrap();
    let mut command = stage.command(&["job", "run", "many.yaml"]);
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.path("run.log")).unwrap());

    let mut running = Guarded::spawn(command).unwrap();
    let ended = running.wait_deadline(Duration::from_secs(90));

    let log = fs::read_to_string(stage.path("run.log")).unwrap();
    assert!(ended.is_some_and(|ended| ended.success()), "{log}");
    assert!(log.contains("due to queue full"), "{log}");
}

#[test]
fn a_receiver_that_is_gone_is_told_once() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = sending(Stage::new(), &format!("http://me:secret@{gone}"));
    fs::write(stage.path("many.yaml"), steps()).unwrap();

    let ran = stage.run(&["job", "run", "many.yaml"]);

    let told = format!("cannot be sent to http://{gone} and are dropped");
    assert_eq!(ran.succeeds().stderr.matches(&told).count(), 1, "{ran:#?}");
    assert!(!ran.stderr.contains("secret") && !ran.stderr.contains("ExportError"), "{ran:#?}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let nowhere = || Stage::on("postgres://nobody@127.0.0.1:1/x");

    for stage in [
        sending(nowhere(), "otel.example:4318"),
        sending(nowhere(), "grpc://otel.example:4317"),
        sending(nowhere(), "http://otel.example").with("TIDEMILL_TELEMETRY_HEADERS", "authorization"),
    ] {
        let ran = stage.run(&["job", "list"]);
        assert!(ran.fails("TM0102", 2).stderr.contains("telemetry.endpoint"), "{ran:#?}");
    }
    sending(nowhere(), "http://otel.example").run(&["job", "list"]).fails("TM0202", 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_an_event_has_the_trace_of_the_request_that_wrote_it() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let database = Scratch::file();
    database.store(None).await.unwrap().close().await;
    let topic = format!("traced-{}", std::process::id());
    make_topic(&servers, &topic, 1);
    // Whether anybody receives spans does not matter for events.
    let stage = sending(Stage::on(database.url()), "http://127.0.0.1:1")
        .with("KAFKA_BOOTSTRAP_SERVERS", &servers)
        .with("TIDEMILL_OUTBOX_SINK", "kafka");
    let served = Served::start(&stage, &[]);
    let event = serde_json::json!({
        "aggregate_type": "order", "aggregate_id": "1", "event_type": "order.paid", "topic": topic,
        "payload": { "type": "json", "text": "{\"amount\":5}" },
    });

    let (status, added) = post(&served, "/api/v1/outbox/events", &event.to_string());
    assert_eq!(status, 201, "{added}");
    let id = added["id"].to_string();
    let shown = || stage.run(&["outbox", "show", &id, "-o", "json"]).stdout;
    until("it is published", || shown().contains("\"published\"").then_some(()));
    end(served);

    let read = consume(&servers, &topic, &[]).unwrap();
    let record: Value = serde_json::from_str(read.lines().next().unwrap()).unwrap();
    let headers = record["headers"].as_array().unwrap();
    let place = headers.iter().find(|header| header[0] == "traceparent").expect("the header")[1].as_str();
    assert!(place.unwrap().starts_with(&format!("00-{TRACE}-")), "{record}");
    assert!(!place.unwrap().contains(CALLER), "the event belongs to the span of the request: {record}");
}
