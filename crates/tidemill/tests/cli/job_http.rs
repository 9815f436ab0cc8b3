//! Job files that read and write over HTTP, run by processes that are killed in the middle.

use crate::Stage;
use crate::exact::another;
use crate::job_kafka::rows;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, HttpService, Received, Reply, Signal};

tidemill_store::on_both![
    killed_in_the_middle_a_job_has_every_item_of_its_pages_once,
    killed_in_the_middle_a_job_has_sent_every_item_with_one_key,
];

const ITEMS: usize = 300;
const PER_PAGE: usize = 40;

const PATIENCE: Duration = Duration::from_secs(180);

/// A service that holds back its answer to one request while it is told to.
struct Holding {
    service: HttpService,
    is_holding: Arc<AtomicBool>,
}

impl Holding {
    fn start(
        is_held: impl Fn(&Received) -> bool + Send + Sync + 'static,
        answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let is_holding = Arc::new(AtomicBool::new(true));
        let holding = is_holding.clone();
        let service = HttpService::start(move |request, _| {
            while is_held(request) && holding.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            answer(request)
        });
        Self { service: service.unwrap(), is_holding }
    }

    /// Runs the job until it waits for that answer, and kills it.
    fn kill_while_held(&self, stage: &Stage, is_held: impl Fn(&Received) -> bool) {
        let mut running = start(stage, None);
        let clock = SystemClock::new();
        let begun = clock.monotonic();
        while !self.service.received().iter().any(&is_held) {
            let ended = running.wait_deadline(Duration::from_millis(10));
            assert!(ended.is_none(), "{}", fs::read_to_string(stage.path("run.log")).unwrap());
            assert!(clock.monotonic().since(begun) < PATIENCE, "the request never came");
        }
        running.signal(Signal::KILL).unwrap();
        running.wait_deadline(PATIENCE).expect("nobody outlives it");
        stage.lapse(running.pid());
        self.is_holding.store(false, Ordering::SeqCst);
    }
}

/// The job in a process whose standard error is in a file.
fn start(stage: &Stage, point: Option<&str>) -> Guarded {
    let mut command = stage.command(&["job", "run", "job.yaml"]);
    command.envs(point.map(|point| ("TIDEMILL_CRASH_AT", point)));
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.path("run.log")).unwrap());
    Guarded::spawn(command).unwrap()
}

/// Runs the job until it dies by its own hand at a crash point.
fn die(stage: &Stage, point: &str) {
    let mut dying = start(stage, Some(point));
    let died = dying.wait_deadline(PATIENCE).expect("it dies");
    assert_eq!(died.signal(), Some(6), "{}", fs::read_to_string(stage.path("run.log")).unwrap());
    stage.lapse(dying.pid());
}

/// Runs the job to its end, once the lease of whoever ran it has passed.
fn finish(stage: &Stage) {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    loop {
        let ran = stage.run(&["job", "run", "job.yaml"]);
        if !ran.stderr.contains("TM1003") {
            ran.succeeds();
            return;
        }
        assert!(clock.monotonic().since(begun) < PATIENCE, "nobody has noticed that the process is gone");
        std::thread::sleep(Duration::from_millis(200));
    }
}

async fn site(database: &Scratch, tables: &str, job: &str) -> (Stage, Store) {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(tables).await.unwrap();
    tx.commit().await.unwrap();
    let stage = Stage::on(database.url()).with("TIDEMILL_PROCESS_LEASE", "10m").with("SHOP_TOKEN", "sesame");
    fs::write(stage.path("job.yaml"), job).unwrap();
    (stage, store)
}

/// The ways of a job file to the next page.
const PAGES: [&str; 4] =
    ["{ cursor: next, parameter: cursor }", "{ cursor: url }", "{ number: page, first: 1 }", "link"];

/// The first item of the page that is asked for, in any of these ways.
fn first_of(request: &Received) -> usize {
    let cursor = request.query("cursor").map(|first| first.parse().unwrap());
    let number = request.query("page").map(|number| (number.parse::<usize>().unwrap() - 1) * PER_PAGE);
    cursor.or(number).unwrap_or(0)
}

fn page(request: &Received) -> Reply {
    if request.header("authorization") != Some("Bearer sesame") {
        return Reply::new(401, "");
    }
    let from = first_of(request);
    let rows: Vec<Json> = (from..ITEMS.min(from + PER_PAGE)).map(|n| json!({ "n": n })).collect();
    let next = (from + PER_PAGE < ITEMS).then(|| (from + PER_PAGE).to_string());
    let url = next.as_ref().map(|next| format!("/orders?since=2026-11-15&cursor={next}"));
    let reply = Reply::new(200, json!({ "data": { "rows": rows }, "next": next, "url": url }).to_string());
    match url {
        Some(url) => reply.with("link", format!("<{url}>; rel=\"next\"")),
        None => reply,
    }
}

async fn killed_in_the_middle_a_job_has_every_item_of_its_pages_once(kind: Scratch) {
    for next in PAGES {
        let database = another(&kind).await;
        let is_held = |request: &Received| first_of(request) == 240;
        let holding = Holding::start(is_held, page);
        let job = format!(
            "job: load\nsteps:\n  - name: load\n    chunk: 7\n    read:\n      http:\n        url: \"{}\"\n        \
             items: data.rows\n        page: {next}\n        token: \"env:SHOP_TOKEN\"\n    \
             process: {{ map: {{ n: row.n }} }}\n    write: {{ sql: {{ table: loaded, mode: insert }} }}\n",
            holding.service.url("/orders?since=2026-11-15")
        );
        let (stage, store) = site(&database, "create table loaded (n bigint not null)", &job).await;

        die(&stage, "chunk_after_read:100");
        let after_crash = rows(&store).await;
        let before_restart = holding.service.received().len();
        holding.kill_while_held(&stage, is_held);
        let after_kill = rows(&store).await;
        let resumed_with = first_of(&holding.service.received()[before_restart]);
        finish(&stage);

        assert!(after_crash.0 > 0 && after_crash.0 < 100, "{next}: {after_crash:?}");
        assert!(after_kill.0 > after_crash.0 && after_kill.0 <= 240, "{next}: {after_kill:?}");
        assert_eq!(resumed_with, 80, "{next}: a restart goes on with the page that it was in");
        let expected = (ITEMS as i64, ITEMS as i64);
        assert_eq!(rows(&store).await, expected, "{next} on {}", database.url());
    }
}

async fn killed_in_the_middle_a_job_has_sent_every_item_with_one_key(kind: Scratch) {
    for batch in ["each", "chunk"] {
        let database = another(&kind).await;
        let is_held = |request: &Received| numbers_of(&request.body).contains(&200);
        let holding = Holding::start(is_held, |_| Reply::new(201, ""));
        let job = format!(
            "job: send\nsteps:\n  - name: send\n    chunk: 7\n    read: {{ csv: {{ path: in.csv }} }}\n    \
             process: {{ map: {{ n: int(row.n) }} }}\n    write: {{ http: {{ url: \"{}\", batch: {batch} }} }}\n",
            holding.service.url("/contacts")
        );
        let (stage, _store) = site(&database, "create table loaded (n bigint not null)", &job).await;
        let lines: String = (0..ITEMS).map(|n| format!("{n}\n")).collect();
        fs::write(stage.path("in.csv"), format!("n\n{lines}")).unwrap();

        // Sent, and not committed: by its own hand, then while the service has the request and has not answered.
        die(&stage, "chunk_after_write:9");
        holding.kill_while_held(&stage, is_held);
        finish(&stage);

        let mut effects: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let received = holding.service.received();
        for request in &received {
            let key = request.header("idempotency-key").unwrap().to_owned();
            let numbers = numbers_of(&request.body);
            assert_eq!(
                *effects.entry(key).or_insert(numbers.clone()),
                numbers,
                "{batch}: a key was used for others"
            );
        }
        let mut items: Vec<u64> = effects.into_values().flatten().collect();
        items.sort_unstable();
        let all: Vec<u64> = (0..ITEMS as u64).collect();
        assert_eq!(items, all, "{batch} on {}", database.url());
        // Nine chunks were sent when it died; the ninth had not committed.
        let sent: usize = received.iter().map(|request| numbers_of(&request.body).len()).sum();
        assert!(sent > ITEMS + 7, "{batch}: nothing was sent twice, so nothing was tested");
    }
}

/// The numbers of the item in this body, or of the list of items.
fn numbers_of(body: &str) -> Vec<u64> {
    let number = |item: &Json| item["n"].as_u64();
    match serde_json::from_str(body) {
        Ok(Json::Array(items)) => items.iter().filter_map(number).collect(),
        Ok(item) => number(&item).into_iter().collect(),
        Err(_) => Vec::new(),
    }
}

#[test]
fn a_secret_that_is_not_there_is_told_and_one_that_is_there_is_not() {
    let service = HttpService::start(|_, _| Reply::new(401, "")).unwrap();
    let stage = Stage::new().with("TIDEMILL_DATABASE_INIT", "always").with("SHOP_TOKEN", "sesame");
    let job = |token: &str| {
        format!(
            "job: load\nsteps:\n  - name: load\n    chunk: 7\n    read: {{ http: {{ url: \"{}\", token: \"{token}\" }} }}\n    \
             write: {{ jsonl: {{ path: out.jsonl }} }}\n",
            service.url("/orders")
        )
    };

    fs::write(stage.path("job.yaml"), job("env:NOT_THERE")).unwrap();
    let missing = stage.run(&["job", "run", "job.yaml"]);
    fs::write(stage.path("job.yaml"), job("env:SHOP_TOKEN")).unwrap();
    let refused = stage.run(&["job", "run", "job.yaml", "--accept-change"]);

    assert!(
        missing.stderr.contains("env:NOT_THERE cannot be read: the environment variable is not set"),
        "{missing:#?}"
    );
    assert!(refused.stderr.contains("answered 401; check the credentials"), "{refused:#?}");
    assert!(!refused.stderr.contains("sesame") && !refused.stdout.contains("sesame"), "{refused:#?}");
}
