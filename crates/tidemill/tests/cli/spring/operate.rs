//! Executions that run, stop or are given up: each program reads, stops and abandons those of the other.

use super::{LOAD, READ_CURSOR, Site, answers, compare};
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::{BatchStatus, ExecutionId, JobParameters};
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::SystemClock;
use tidemill_engine::job::{Job, RepeatStatus, Running, Step};
use tidemill_engine::testing::JobBench;
use tidemill_store::job::{ExecutionFilter, StepRecord};
use tidemill_testkit::Guarded;
use tokio::sync::Semaphore;

/// Whether a step has begun with its work.
type IsAtWork = fn(&StepRecord) -> bool;

const PATIENCE: Duration = Duration::from_secs(180);

const READ_CSV: &str = r#"read: { csv: { path: "in-${day}.csv" } }"#;
const WRITE: &str = "write: { sql: { table: loaded, mode: insert } }";

/// As slow as the table `pace` says.
const WRITE_SLOWLY: &str = "write: { sql: { statement: \"insert into loaded (n) \
                            select cast(:n as bigint) from pg_sleep((select seconds from pace))\" } }";

const SLEEPY: &str = r#"
job: sleepy
parameters: { day: { type: string, required: true } }
steps:
  - { name: sleep, command: ["sleep", "600"] }
"#;

const OUTER: &str = r#"
job: outer
parameters: { day: { type: string, required: true } }
steps:
  - { name: inner, job: sleepy, parameters: { day: "inner-${day}" } }
"#;

/// All steps that have steps of their own.
const NESTED: &str = r#"
job: nested
parameters: { day: { type: string, required: true } }
steps:
  - name: around
    flow:
      - { name: first, sql: "insert into loaded values (101)" }
      - { name: second, command: ["true"] }
  - name: both
    split:
      - - { name: left, sql: "insert into loaded values (102)" }
      - - { name: right, sql: "insert into loaded values (103)" }
    on: { COMPLETED: next }
  - name: inner
    job: load
"#;

impl Site {
    fn write_all(&self) {
        self.write("load.yaml", LOAD);
        self.write("sleepy.yaml", SLEEPY);
        self.write("outer.yaml", OUTER);
        self.write("nested.yaml", NESTED);
        let slow = |name: &str, read: &str| {
            LOAD.replace("job: load", &format!("job: {name}"))
                .replace(READ_CSV, read)
                .replace(WRITE, WRITE_SLOWLY)
        };
        self.write("slow.yaml", &slow("slow", READ_CSV));
        let parts = "partitions: { by: range, table: source, column: n, count: 3, concurrency: 1 }\n    \
                     read: { sql: { query: \"select n from source where n between ${range.from} and ${range.to}\", key: n } }";
        self.write("parts.yaml", &slow("parts", parts));
    }

    fn start(&self, file: &str, day: &str) -> Guarded {
        let mut command = self.stage.command(&["job", "run", file, "-p", day]);
        let log = fs::File::create(self.stage.path(&format!("{file}.log"))).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        Guarded::spawn(command).unwrap()
    }

    /// The last execution of a job, once it has such a step.
    async fn at_work(&self, job: &str, is_meant: impl Fn(&StepRecord) -> bool) -> ExecutionId {
        let (clock, filter) =
            (SystemClock::new(), ExecutionFilter { job: Some(job.to_owned()), ..ExecutionFilter::default() });
        let start = clock.monotonic();
        loop {
            let mut tx = self.store.read().await.unwrap();
            let last = tx.jobs().executions(&filter, None, 1).await.unwrap().pop();
            let steps = match &last {
                Some(last) => tx.jobs().steps(last.id).await.unwrap(),
                None => Vec::new(),
            };
            tx.rollback().await.unwrap();
            if let Some(last) = last.filter(|_| steps.iter().any(&is_meant)) {
                return last.id;
            }
            assert!(clock.monotonic().since(start) < PATIENCE, "{job} is not at work: {steps:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn status(&self, id: ExecutionId) -> (Value, Vec<Value>) {
        let told = self.tell(&["executions", &id.to_string()]);
        let steps = told["steps"].as_array().unwrap().iter().map(|step| step["status"].clone());
        (told["execution"]["status"].clone(), steps.collect())
    }
}

fn runs(step: &StepRecord) -> bool {
    step.status == BatchStatus::Started
}

fn has_written(step: &StepRecord) -> bool {
    runs(step) && step.counters.write > 0
}

/// Executions in this process that wait until they are let go.
struct Waiting {
    bench: JobBench,
    job: Job,
    gate: Arc<Semaphore>,
}

impl Waiting {
    async fn new(site: &Site) -> Self {
        let clock = Arc::new(FakeClock::at("2100-01-01T00:00:00Z".parse().unwrap()));
        let store = site.database.store(Some(clock.clone())).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let step = Step::tasklet("wait", move |_| {
            let held = held.clone();
            async move {
                held.acquire().await.unwrap().forget();
                Ok(RepeatStatus::Continuable)
            }
        });
        Self { bench: JobBench::on(store, clock).await.unwrap(), job: Job::new("waiting").step(step), gate }
    }

    async fn start(&self, site: &Site, day: &str) -> Running {
        let launcher = self.bench.launcher(&self.job).unwrap();
        let parameters = JobParameters::new().with("day", day);
        let running = launcher.launch("waiting", &parameters, &Actor::system()).await.unwrap();
        assert_eq!(site.at_work("waiting", runs).await, running.execution);
        running
    }

    /// Lets two go; one that does not have to stop waits again.
    async fn ended(&self, running: Running) -> BatchStatus {
        self.gate.add_permits(2);
        running.ended().await.unwrap().status
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spring_batch_reads_what_runs_stops_or_was_given_up_and_steps_with_steps() {
    let Some(site) = Site::new().await else { return };
    site.write_all();
    site.write("in-1.csv", "n\n1\n2\n3\n");
    site.write("in-2.csv", "n\n1\nx\n");
    for (day, code) in [("day=1", 0), ("day=2", 10)] {
        let ran = site.stage.run(&["job", "run", "nested.yaml", "-p", day]);
        assert_eq!(ran.code, Some(code), "{ran:#?}");
    }
    site.execute("create table pace as select 0.0 as seconds").await;
    site.stage.run(&["job", "run", "parts.yaml", "-p", "day=1"]).succeeds();
    site.write("in-3.csv", "n\nx\n");
    assert_eq!(site.stage.run(&["job", "run", "load.yaml", "-p", "day=3"]).code, Some(10));
    let given_up = site.last().to_string();
    site.stage.run(&["job", "abandon", &given_up, "--reason", "no longer needed"]).succeeds();
    let waiting = Waiting::new(&site).await;
    let (started, stopping) = (waiting.start(&site, "1").await, waiting.start(&site, "2").await);
    site.stage.run(&["job", "stop", &stopping.execution.to_string(), "--reason", "later"]).succeeds();

    let answers = site.spring(&[json!({"do": "list"}), json!({"do": "running"})]);

    assert_eq!(compare(&site, &answers[0]).await, 8, "{:#}", answers[0]);
    assert_eq!(answers[1], json!([started.execution.get(), stopping.execution.get()]));
    let mut statuses: Vec<&str> = answers[0]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|instances| instances.as_array().unwrap())
        .flat_map(|instance| instance["executions"].as_array().unwrap())
        .map(|execution| execution["status"].as_str().unwrap())
        .collect();
    statuses.sort_unstable();
    assert_eq!(
        statuses,
        ["ABANDONED", "COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "FAILED", "STARTED", "STOPPING"]
    );
    let nested = &answers[0]["nested"][0]["executions"][0]["steps"];
    let names: Vec<&String> = nested.as_object().unwrap().keys().collect();
    assert_eq!(names, ["around", "first", "inner", "left", "right", "second"]);
    assert_eq!(waiting.ended(stopping).await, BatchStatus::Stopped);
    drop(started);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_we_run_stops_when_spring_batch_says_so() {
    let Some(site) = Site::new().await else { return };
    site.write_all();
    site.execute("insert into source select generate_series(8, 300)").await;
    site.execute("create table pace as select 0.5 as seconds").await;
    let lines: String = (1001..=1200).map(|n| format!("{n}\n")).collect();
    site.write("in-1.csv", &format!("n\n{lines}"));
    let (mut children, mut ids) = (Vec::new(), Vec::new());
    let is_at_work: [(&str, IsAtWork); 4] = [
        ("sleepy", runs),
        ("outer", runs),
        ("slow", has_written),
        ("parts", |step| step.name.contains(':') && has_written(step)),
    ];
    for (job, is_meant) in is_at_work {
        children.push((job, site.start(&format!("{job}.yaml"), "day=1")));
        ids.push(site.at_work(job, is_meant).await);
    }
    // The job that a step has launched runs as well.
    let inner = site.at_work("sleepy", |step| runs(step) && step.execution > ids[1]).await;

    let orders = ids.iter().map(|id| json!({"do": "stop", "execution": id.get()}));
    let answers = site.spring(&orders.collect::<Vec<_>>());

    for (answer, (file, child)) in answers.iter().zip(&mut children) {
        assert!(["STOPPING", "STOPPED"].map(Value::from).contains(&answer["status"]), "{file}: {answer:#}");
        let ended = child.wait_deadline(PATIENCE).expect("it stops");
        let log = fs::read_to_string(site.stage.path(&format!("{file}.yaml.log"))).unwrap();
        assert_eq!(ended.code(), Some(11), "{file}: {log}");
    }
    for id in ids.iter().chain([&inner]) {
        let (status, steps) = site.status(*id);
        assert_eq!(status, "STOPPED");
        assert!(steps.iter().all(|step| step == "STOPPED" || step == "COMPLETED"), "{id}: {steps:?}");
    }

    // What has stopped goes on where it was.
    site.execute("update pace set seconds = 0").await;
    for file in ["slow.yaml", "parts.yaml"] {
        site.stage.run(&["job", "run", file, "-p", "day=1"]).succeeds();
    }
    assert_eq!(site.loaded().await, (1..=300).chain(1001..=1200).collect::<Vec<_>>());
    let told = site.spring(&[json!({"do": "list"}), json!({"do": "stop", "execution": ids[0].get()})]);
    compare(&site, &told[0]).await;
    assert!(told[1]["error"].as_str().unwrap().contains("JobExecutionNotRunning"), "{:#}", told[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spring_batch_abandons_is_not_restarted_by_us() {
    let Some(site) = Site::new().await else { return };
    site.write_all();
    site.write("in-1.csv", "n\nx\n");
    assert_eq!(site.stage.run(&["job", "run", "load.yaml", "-p", "day=1"]).code, Some(10));
    let failed = site.last();
    let waiting = Waiting::new(&site).await;
    let (started, stopping) = (waiting.start(&site, "1").await, waiting.start(&site, "2").await);
    site.stage.run(&["job", "stop", &stopping.execution.to_string()]).succeeds();
    let (id, id_of_stopping) = (started.execution.get(), stopping.execution);

    let answers = site.spring(&[
        json!({"do": "abandon", "execution": failed}),
        json!({"do": "abandon", "execution": id}),
        json!({"do": "abandon", "execution": id_of_stopping.get()}),
    ]);

    assert_eq!(answers[0]["status"], "ABANDONED", "{:#}", answers[0]);
    assert!(answers[1]["error"].as_str().unwrap().contains("JobExecutionAlreadyRunning"), "{:#}", answers[1]);
    assert_eq!(answers[2]["status"], "ABANDONED", "{:#}", answers[2]);
    site.stage.run(&["job", "run", "load.yaml", "-p", "day=1"]).fails("TM1004", 5);
    site.stage.run(&["job", "restart", &failed.to_string(), "--jobs", "."]).fails("TM1004", 5);
    assert_eq!(site.status(ExecutionId::new(id)), (json!("STARTED"), vec![json!("STARTED")]));

    // Its process ends too, and leaves the status of Spring Batch.
    assert_eq!(waiting.ended(stopping).await, BatchStatus::Abandoned);
    assert_eq!(site.status(id_of_stopping), (json!("ABANDONED"), vec![json!("STOPPED")]));
    let launcher = waiting.bench.launcher(&waiting.job).unwrap();
    let again = launcher.launch("waiting", &JobParameters::new().with("day", "2"), &Actor::system()).await;
    assert!(again.is_err());
    assert_eq!(compare(&site, &site.spring(&[json!({"do": "list"})])[0]).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spring_batch_runs_is_stopped_and_abandoned_by_us() {
    let Some(site) = Site::new().await else { return };
    site.write_job("cursor", READ_CURSOR, "");
    site.execute("insert into source select generate_series(8, 300)").await;
    let order = |day: &str, more: Value| {
        let mut order = json!({
            "do": "launch", "job": "cursor", "step": "cursor", "name": "reader", "parameters": {"day": day},
        });
        more.as_object().unwrap().iter().for_each(|(key, value)| order[key] = value.clone());
        order
    };

    let command = site.spring_command(&[order("1", json!({"pause": 300}))]);
    let running = tokio::task::spawn_blocking(move || answers(command));
    let id = site.at_work("cursor", has_written).await;
    let words = id.to_string();
    site.stage.run(&["job", "abandon", &words, "--reason", "x"]).fails("TM1009", 5);
    site.stage.run(&["job", "stop", &words, "--reason", "the report can wait"]).succeeds();
    let stopped = running.await.unwrap();

    assert_eq!((&stopped[0]["id"], &stopped[0]["status"]), (&json!(id.get()), &json!("STOPPED")));
    assert_eq!(site.status(id), (json!("STOPPED"), vec![json!("STOPPED")]));
    site.stage.run(&["job", "stop", &words]).fails("TM1008", 5);
    let rows = site.loaded().await.len();
    assert!(rows < 300 && rows.is_multiple_of(2), "{rows} rows");

    // It goes on in Spring Batch, and what we abandon does not.
    let answers = site.spring(&[
        order("1", json!({"do": "restart", "execution": id.get()})),
        order("2", json!({"fails_at": 5})),
    ]);
    assert_eq!(answers[0]["status"], "COMPLETED", "{:#}", answers[0]);
    assert_eq!(answers[1]["status"], "FAILED", "{:#}", answers[1]);
    let both: Vec<i64> = [1, 1, 2, 2, 3, 3, 4, 4].into_iter().chain(5..=300).collect();
    assert_eq!(site.loaded().await, both);
    let failed = answers[1]["id"].to_string();
    site.stage.run(&["job", "abandon", &failed, "--reason", "no longer needed"]).succeeds();
    let answers = site.spring(&[
        order("2", json!({"do": "restart", "execution": answers[1]["id"]})),
        order("2", json!({})),
        json!({"do": "list"}),
    ]);
    for refused in &answers[..2] {
        assert!(refused["error"].as_str().unwrap().contains("JobInstanceAlreadyComplete"), "{refused:#}");
    }
    assert_eq!(compare(&site, &answers[2]).await, 3);
    site.stage.run(&["job", "run", "cursor.yaml", "-p", "day=2"]).fails("TM1004", 5);
}
