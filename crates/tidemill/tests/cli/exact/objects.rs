//! Objects of a real S3 server. The job that copies them dies, and goes on.

use super::formats::{Place, copied, row_groups};
use super::{PATIENCE, die_at, go_on, stage, start_mortal};
use crate::examples::Program;
use crate::job_reload::until;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::moto::{PYTHON, PrivateMoto};
use tidemill_testkit::{Signal, skip};

const JOB: &str = "job: copy
steps:
  - name: pack
    chunk: 10
    read: { csv: { path: 's3://lake/in/*.csv' } }
    write: { parquet: { path: 's3://lake/all.parquet', columns: { id: long, name: text } } }
  - name: unpack
    chunk: 10
    read: { parquet: { path: 's3://lake/all.parquet' } }
    write: { csv: { path: 's3://lake/out.csv', columns: [id, name] } }
";

/// The first object is there, and the end of its step is not committed.
const UPLOADED: &str = "step_closed:1";

/// Deaths in the chunks of the first step, when its object is there, and in the chunks of the second one.
const DEATHS: [&str; 6] = [
    "chunk_after_write:3",
    "chunk_before_commit:4",
    "chunk_after_commit:5",
    UPLOADED,
    "chunk_after_write:8",
    "chunk_after_commit:10",
];

/// The program, which finds the server at its own address or at this one.
fn program(server: &PrivateMoto, database: &Scratch, endpoint: Option<String>) -> Program {
    let stage = stage(database.url()).with("TIDEMILL_JOBS_SPOOL", "spool");
    let stage = server.variables().iter().fold(stage, |stage, (name, value)| stage.with(name, value));
    Program::tidemill(match endpoint {
        Some(endpoint) => stage.with("AWS_ENDPOINT_URL", &endpoint),
        None => stage,
    })
}

/// How many unfinished files there are.
fn unfinished(program: &Program) -> usize {
    fs::read_dir(program.stage.path("spool")).unwrap().count()
}

#[test]
fn objects_are_copied_exactly_once() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let lines =
        |ids: std::ops::RangeInclusive<i32>| ids.map(|id| format!("{id},name {id}\n")).collect::<String>();
    for death in DEATHS {
        let (server, database) = (PrivateMoto::start(&python).unwrap(), Scratch::file());
        let program = program(&server, &database, None);
        fs::write(program.stage.path("copy.yaml"), JOB).unwrap();
        for (key, ids) in [("in/a.csv", 1..=23), ("in/b.csv", 24..=50)] {
            server.put(key, format!("id,name\n{}", lines(ids)).as_bytes()).unwrap();
        }

        die_at(&program, &["job", "run", "copy.yaml"], death);
        let is_packed = server.get("all.parquet").unwrap().is_some();
        assert_eq!(is_packed, DEATHS.iter().position(|known| *known == death) >= Some(3), "death at {death}");
        go_on(&program, &["job", "run", "copy.yaml"]).succeeds();

        let copied = String::from_utf8(server.get("out.csv").unwrap().unwrap()).unwrap();
        assert_eq!(copied, format!("id,name\n{}", lines(1..=50)), "death at {death}");
        assert_eq!(server.keys().unwrap(), ["all.parquet", "in/a.csv", "in/b.csv", "out.csv"]);
        assert_eq!((unfinished(&program), server.uploads().unwrap().len()), (0, 0), "death at {death}");
    }
}

/// Between a client and its server. Whoever sends the second part of an upload waits, while it holds.
struct Brake {
    url: String,
    is_waiting: Arc<AtomicBool>,
    is_holding: Arc<AtomicBool>,
}

impl Brake {
    fn before(server: &PrivateMoto) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = server.endpoint().replace("http://", "");
        let (is_waiting, is_holding) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let (waiting, holding) = (is_waiting.clone(), is_holding.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&address).unwrap());
                let (answers, asker) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || carry(answers, asker, |_| true));
                let (waiting, holding) = (waiting.clone(), holding.clone());
                std::thread::spawn(move || {
                    carry(client, server, |sent| {
                        let head = String::from_utf8_lossy(&sent[..sent.len().min(1000)]);
                        if !(holding.load(Ordering::SeqCst) && head.contains("partNumber=2")) {
                            return true;
                        }
                        waiting.store(true, Ordering::SeqCst);
                        while holding.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(10));
                        }
                        false
                    });
                });
            }
        });
        Self { url, is_waiting, is_holding }
    }
}

/// Carries what one side sends to the other one, as long as it may pass.
fn carry(mut from: TcpStream, mut to: TcpStream, may_pass: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !may_pass(&buffer[..length]) || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _closed_already = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn an_upload_that_is_killed_between_its_parts_is_made_again_whole() {
    const JOB: &str = "job: send
steps:
  - name: send
    chunk: 5000
    read: { csv: { path: in.csv } }
    write: { csv: { path: 's3://lake/out.csv', columns: [id, text] } }
";
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let (server, database) = (PrivateMoto::start(&python).unwrap(), Scratch::file());
    let brake = Brake::before(&server);
    let program = program(&server, &database, Some(brake.url.clone()));
    let text = "x".repeat(1000);
    // More than one part of 8 MiB.
    let lines: String = (0..9_000).map(|id| format!("{id},{text}\n")).collect();
    let content = format!("id,text\n{lines}");
    fs::write(program.stage.path("in.csv"), &content).unwrap();
    fs::write(program.stage.path("send.yaml"), JOB).unwrap();

    let mut running = start_mortal(&program, "run.log", &["job", "run", "send.yaml"]);
    until("the second part is sent", || brake.is_waiting.load(Ordering::SeqCst).then_some(()));
    running.signal(Signal::KILL).unwrap();
    running.wait_deadline(PATIENCE).expect("nobody outlives it");
    program.stage.lapse(running.pid());
    let found = (server.keys().unwrap().len(), server.uploads().unwrap(), unfinished(&program));
    brake.is_holding.store(false, Ordering::SeqCst);
    go_on(&program, &["job", "run", "send.yaml"]).succeeds();

    assert_eq!(found, (0, vec!["out.csv".to_owned()], 1), "it was killed in the middle of an upload");
    assert!(server.get("out.csv").unwrap().unwrap() == content.as_bytes(), "the object is another one");
    // The parts of the first upload are no object. A rule of the bucket removes them.
    assert_eq!((server.uploads().unwrap().len(), unfinished(&program)), (1, 0));
}

/// The formats that the test above has not. Each job dies in the middle of its object.
#[test]
fn objects_of_every_format_are_copied() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let server = PrivateMoto::start(&python).unwrap();
    let names: Vec<Value> =
        (1..=50).map(|id| json!({ "id": id.to_string(), "name": format!("n{id}") })).collect();
    let fixed = |path: &str| format!("fixed_width: {{ path: {path}, columns: {{ id: 1-6, name: 7-20 }} }}");
    let typed = |format: &str, path: &str| {
        format!("{format}: {{ path: {path}, columns: {{ id: text, name: text }} }}")
    };
    let (from_fixed, to_fixed) = (fixed("d.txt"), fixed("d.txt.zst"));
    let (to_arrow, to_avro) = (typed("arrow", "e.arrow"), typed("avro", "f.avro"));
    for (from, read, to, write) in [
        ("a.xlsx", "excel: { path: a.xlsx }", "a.csv.gz", "csv: { path: a.csv.gz, columns: [id, name] }"),
        ("b.xml.gz", "xml: { path: b.xml.gz, record: row }", "b.json", "json: { path: b.json }"),
        ("c.json", "json: { path: c.json }", "c.xml", "xml: { path: c.xml, record: row, attributes: [id] }"),
        ("d.txt", &*from_fixed, "d.txt.zst", &*to_fixed),
        ("e.avro", "avro: { path: e.avro }", "e.arrow", &*to_arrow),
        ("f.arrow", "arrow: { path: f.arrow }", "f.avro", &*to_avro),
    ] {
        let database = Scratch::file();
        let program = program(&server, &database, None);
        let made = [(from, &*names)];
        if copied(&program, &Place::Bucket(&server), "chunk_before_commit:3", &made, read, to, write)
            .is_none()
        {
            return;
        }
        assert_eq!(unfinished(&program), 0, "{to}");
    }
    assert_eq!(server.uploads().unwrap(), [""; 0]);
    let database = Scratch::file();
    row_groups(&program(&server, &database, None), &Place::Bucket(&server));
}

#[test]
fn objects_below_a_folder_are_partitions_and_their_rejects_are_objects() {
    const JOB: &str = "job: split
steps:
  - name: split
    chunk: 5
    partitions: { by: file, pattern: 's3://lake/day/**/*.csv' }
    read: { csv: { path: '${file}' } }
    process: { validate: { id: { type: long } } }
    write: { jsonl: { path: '${file}.jsonl' } }
    skip: { limit: 5, on: validation, reject: '${file}.why', reject_source: '${file}.again' }
";
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let (server, database) = (PrivateMoto::start(&python).unwrap(), Scratch::file());
    let program = program(&server, &database, None);
    fs::write(program.stage.path("split.yaml"), JOB).unwrap();
    let line = |n: i32| if n == 8 { "eight,8\n".to_owned() } else { format!("{n},{n}\n") };
    let content: String = (1..=12).map(line).collect();
    let files = ["day/a/x.csv", "day/b/c/y.csv", "day/z.csv"];
    for key in files.iter().chain(&["other/x.csv"]) {
        server.put(key, format!("id,name\n{content}").as_bytes()).unwrap();
    }

    die_at(&program, &["job", "run", "split.yaml"], "chunk_after_commit:5");
    go_on(&program, &["job", "run", "split.yaml"]).succeeds();

    let text = |key: String| String::from_utf8(server.get(&key).unwrap().expect(&key)).unwrap();
    // The names of rejects have the key of the partition.
    let keys = server.keys().unwrap();
    let reject = |file: &str, end: &str| {
        let is_it = |key: &&String| key.starts_with(&format!("{file}-")) && key.ends_with(end);
        text(keys.iter().find(is_it).unwrap_or_else(|| panic!("{file} {end}: {keys:?}")).clone())
    };
    let good: String =
        (1..=12).filter(|n| *n != 8).map(|n| format!("{{\"id\":\"{n}\",\"name\":\"{n}\"}}\n")).collect();
    for key in files {
        assert_eq!(text(format!("{key}.jsonl")), good, "{key}");
        assert_eq!(reject(key, ".again"), "id,name\neight,8\n", "{key}");
        let why = reject(key, ".why");
        assert!(why.lines().count() == 1 && why.contains("eight"), "{key}: {why}");
    }
    assert_eq!((keys.len(), unfinished(&program)), (4 + 3 * 3, 0));
}
