//! The Python client, and the provider of Airflow that rests on it, against the real server and the real Airflow.

use crate::airflow::{AIRFLOW_PYTHON, run_python};
use crate::job_reload::until;
use crate::serve::Served;
use crate::{Stage, workspace};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal, long_or, skip};

/// The variable that names a Python with Airflow 3, psycopg, SQLAlchemy 2 and mypy.
const AIRFLOW3_PYTHON: &str = "TIDEMILL_TEST_AIRFLOW3_PYTHON";

const PATIENCE: Duration = Duration::from_secs(180);

fn python() -> Option<PathBuf> {
    skip::require("airflow3", std::env::var_os(AIRFLOW3_PYTHON)).map(PathBuf::from)
}

fn program(name: &str) -> PathBuf {
    workspace().join("crates/tidemill/tests/cli").join(name)
}

/// The client as it is in the repository. The tests of the provider install it instead.
fn client() -> String {
    workspace().join("integrations/python/src").display().to_string()
}

/// A server with the pools and jobs that the programs use.
struct Site {
    stage: Stage,
    served: Served,
}

impl Site {
    fn new() -> Self {
        let stage = Stage::new();
        fs::create_dir(stage.path("jobs")).unwrap();
        for (name, script) in [("good", "true"), ("bad", "exit 3"), ("slow", "sleep 600")] {
            let parameters = "parameters:\n  day: { type: string }\n  by: { type: string }\n";
            let step = format!("  - name: run\n    command: [\"sh\", \"-c\", \"{script}\"]\n");
            let file = stage.path("jobs").join(format!("{name}.yaml"));
            fs::write(file, format!("job: {name}\n{parameters}steps:\n{step}")).unwrap();
        }
        let served = Served::start(&stage, &[]);
        for (name, id) in [("etl", 1), ("erp", 2), ("ADW", 4)] {
            let pool = json!({
                "name": name, "external_id": id, "max_units": 10, "threshold_percent": 100, "policy": "halving",
            });
            let (status, body) = served.post("/api/v1/pools", &pool.to_string());
            assert_eq!(status, 201, "{body}");
        }
        Self { stage, served }
    }

    fn url(&self) -> String {
        format!("http://{}", self.served.address)
    }

    /// Units in use and requests that wait.
    fn pool(&self) -> (u64, u64) {
        let (status, body) = self.served.get("/api/v1/pools/etl", None);
        assert_eq!(status, 200, "{body}");
        let pool: Value = serde_json::from_str(&body).unwrap();
        (pool["in_use"].as_u64().unwrap(), pool["waiting"].as_u64().unwrap())
    }

    /// A program that holds units, or waits for them, and is ready to be ended.
    fn holder(&self, python: &Path, how: &str) -> Guarded {
        let output = self.stage.path(&format!("holder-{how}"));
        let mut command = self.stage.dress(Command::new(python), &[]);
        command
            .arg(program("python/holder.py"))
            .arg(how)
            .env("PYTHONPATH", client())
            .env("TIDEMILL_CLIENT_URL", self.url())
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap());
        let holder = Guarded::spawn(command).unwrap();
        until("the holder is ready", || fs::read_to_string(&output).unwrap().contains("ready").then_some(()));
        holder
    }

    fn until_nothing_is_left(&self) {
        until("all units are released", || (self.pool() == (0, 0)).then_some(()));
    }
}

fn check_client(kind: &str) {
    let Some(python) = python() else { return };
    let site = Site::new();

    let variables = [("PYTHONPATH", client()), ("TIDEMILL_CLIENT_URL", site.url())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let told = run_python(&site.stage, &python, &program("python/client_calls.py"), &variables, &[kind]);

    let hint = "/*+ PARALLEL(8) FULL(A) */";
    assert_eq!(told["held"], json!([8, 8, hint, [8, 0]]), "{told}");
    assert_eq!((&told["released"], &told["failed"]), (&json!([0, 0]), &json!(["planted", [0, 0]])));
    assert_eq!(told["several"], json!([["etl", 3], ["erp", 2]]));
    assert_eq!(told["late"], json!(["NotAdmitted", "TM1204", true, 1, "pool_full", [10, 0]]));
    assert_eq!(told["waited"], json!([6, [6, 0]]));
    assert_eq!(
        (&told["knows"], &told["lost"]),
        (&json!(true), &json!(["LeaseLost", "TM1207", true, [0, 0]]))
    );
    assert_eq!(told["beats"], true);
    // Of two pools one was lost: the other one was beaten on, and is released.
    assert_eq!(told["half"], json!(["LeaseLost", "TM1207", true, [0, 0], [0, 0]]));
    // A second attempt of the holder would have the epoch 2.
    assert_eq!((&told["lost_answers"], &told["lost_release"]), (&json!([4, [4, 0], 1]), &json!([0, 0])));
    assert_eq!((&told["lost_launch"], &told["launched_once"]), (&json!("COMPLETED"), &json!(1)));
    assert_eq!(told["job"], json!(["COMPLETED", true]));
    assert_eq!((&told["bad_job"][0], &told["stopped"]), (&json!("JobFailed"), &json!("STOPPED")));
    assert_eq!(told["no_pool"], json!(["ApiError", "TM1201", true]));
    assert_eq!(told["too_large"], json!(["ApiError", "TM1205", true]));
    assert_eq!((&told["complete"][0], &told["complete"][2]), (&json!("ApiError"), &json!(true)));
    assert_eq!(told["unreachable"], json!(["Unreachable", "", true]));
    assert_eq!(told["left"], json!([[0, 0], [0, 0]]));
    if kind == "asyncio" {
        assert_eq!(told["cancelled"], json!([true, [10, 0]]));
    }
}

#[test]
fn the_client_holds_units_and_runs_jobs_and_no_lost_answer_does_anything_twice() {
    check_client("sync");
}

#[test]
fn the_client_for_asyncio_does_the_same() {
    check_client("asyncio");
}

/// Faults that the real server does not have on demand.
fn check_faults(kind: &str) -> Option<Value> {
    let python = python()?;
    let variables = [("PYTHONPATH", client())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let told = run_python(&Stage::new(), &python, &program("python/client_faults.py"), &variables, &[kind]);

    assert_eq!(told["knows"], true, "{told}");
    // The error names the pool that was lost; the other one was beaten on, and released.
    assert_eq!((&told["half"][0], &told["half"][1]), (&json!(true), &json!(false)), "{told}");
    assert_eq!(told["half"][2].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!((&told["half"][2][0][0], &told["half"][3]), (&json!("etl"), &json!(1)), "{told}");
    assert_eq!((&told["refused"], &told["any_error"]), (&json!(3), &json!(1)));
    // Without the rest of the text, which has a password.
    assert_eq!(told["failed"], json!([["etl", "failed", ["ValueError: ORA-12516"]]]));
    Some(told)
}

#[test]
fn the_client_logs_failing_heartbeats_and_releases_what_is_left_of_a_grant() {
    let Some(told) = check_faults("sync") else { return };

    assert_eq!((&told["half"][2][0][1], &told["half"][4]), (&json!("completed"), &json!(["lost"])));
    assert_eq!(told["without_keeper"], json!([["etl", "completed", null]]));
}

#[test]
fn a_block_of_asyncio_releases_its_units_whoever_cancels_it() {
    let Some(told) = check_faults("asyncio") else { return };

    assert_eq!(told["own_error"], "planted");
    assert_eq!(told["cancelled_twice"], json!([true, [["etl", "failed", ["CancelledError"]]]]));
    assert_eq!(told["lost_and_cancelled"], true);
}

#[test]
fn a_program_that_is_ended_holds_no_units_and_no_place_in_the_queue() {
    let Some(python) = python() else { return };
    let site = Site::new();

    let mut holder = site.holder(&python, "sync");
    assert_eq!(site.pool(), (4, 0));
    holder.signal(Signal::TERM).unwrap();
    let ended = holder.wait_deadline(PATIENCE).expect("it ends at once");
    // Released before it ended, not afterwards.
    assert_eq!((ended.code(), site.pool()), (Some(143), (0, 0)));

    let mut killed = site.holder(&python, "survives");
    assert_eq!(site.pool(), (4, 0));
    killed.signal(Signal::KILL).unwrap();
    killed.wait_deadline(PATIENCE).expect("it is dead");
    site.until_nothing_is_left();

    let ask = r#"{"holder":{"dag_id":"d","run_id":"r"},"pools":[{"pool":"etl","parallel":10,"min":10}]}"#;
    let (status, body) = site.served.post("/api/v1/requests", ask);
    assert_eq!(status, 200, "{body}");
    let mut waiting = site.holder(&python, "waits");
    assert_eq!(site.pool(), (10, 1));
    waiting.signal(Signal::TERM).unwrap();
    waiting.wait_deadline(PATIENCE).expect("it ends at once");
    assert_eq!(site.pool(), (10, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_messages_are_written_in_the_transactions_of_psycopg_and_sqlalchemy() {
    let Some(python) = python() else { return };
    let Some(database) = Scratch::postgres_with_schema().await else { return };
    let stage = Stage::new();

    let file = program("python/events.py");
    let variables = [("PYTHONPATH", client())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    // Without the options of our driver, which libpq does not know.
    let url = database.url().split('?').next().unwrap();
    let told = run_python(&stage, &python, &file, &variables, &[url]);

    let headers = r#"{"trace": "7d1f"}"#;
    let once = [
        json!(["order.paid", "orders", r#"{"cents":500,"note":"한글"}"#, null, headers]),
        json!(["order.kept", "orders", null, "00ff", null]),
        json!(["order.kept", "orders", null, null, null]),
        json!(["order.kept", "orders", r#"{"a":  1}"#, null, null]),
    ];
    // Of the message 1, which came three times and failed once; of 2; and none of 3, which failed.
    let events = [&once[..], &once[..]].concat();
    for way in ["psycopg", "sqlalchemy", "psycopg_async", "sqlalchemy_async"] {
        assert_eq!(told[way], json!({ "events": events, "orders": 2, "seen": ["1", "2"] }), "{way}");
    }
    assert_eq!(told["pipeline"], json!([true, false]));
}

fn check_types(package: &str, source: &str) {
    let Some(python) = python() else { return };
    let (stage, folder) = (Stage::new(), workspace().join("integrations").join(package));
    let mut mypy = stage.dress(Command::new(python), &["-m", "mypy", "--cache-dir", "/dev/null"]);
    mypy.arg("--config-file").arg(folder.join("pyproject.toml")).arg(folder.join("src").join(source));
    mypy.env("MYPYPATH", client());

    let found = mypy.output().unwrap();

    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
}

#[test]
fn the_client_is_typed_strictly() {
    check_types("python", "tidemill");
}

#[test]
fn the_provider_is_typed_strictly() {
    // Almost a minute, as the types of Airflow are read too.
    if long_or(true, false) {
        check_types("airflow", "tidemill_airflow");
    }
}

/// Both packages, as their users install them: from wheels.
fn installed(stage: &Stage, python: &Path) -> String {
    let (wheels, packages) = (stage.path("wheels"), stage.path("packages"));
    let pip = |arguments: &[&str]| {
        let mut pip = stage.dress(Command::new(python), &["-m", "pip", "--disable-pip-version-check"]);
        let ran = pip.args(arguments).args(["--quiet", "--no-deps", "--no-index"]).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    for package in ["python", "airflow"] {
        // A build writes into its folder.
        let source = workspace().join("integrations").join(package);
        let copy = stage.path(&format!("{package}-source"));
        let copied = Command::new("cp").arg("-r").arg(source).arg(&copy).status().unwrap();
        assert!(copied.success());
        let wheels = wheels.to_str().unwrap();
        pip(&["wheel", "--no-build-isolation", "--wheel-dir", wheels, copy.to_str().unwrap()]);
    }
    for wheel in fs::read_dir(&wheels).unwrap() {
        pip(&["install", "--target", packages.to_str().unwrap(), wheel.unwrap().path().to_str().unwrap()]);
    }
    packages.display().to_string()
}

/// What a program told that ran in an Airflow with the provider, and the server that it called.
fn run_in_airflow(airflow: (&str, &str), name: &str, arguments: &[&str]) -> Option<(Value, Site)> {
    let (component, variable) = airflow;
    let python = skip::require(component, std::env::var_os(variable)).map(PathBuf::from)?;
    let site = Site::new();
    let (packages, url) = (installed(&site.stage, &python), site.url());
    let variables = [("PYTHONPATH", packages.as_str()), ("TIDEMILL_CLIENT_URL", url.as_str())];
    let told = run_python(&site.stage, &python, &program(name), &variables, arguments);
    Some((told, site))
}

fn check_provider(airflow: (&str, &str)) {
    let dag = "emr_batch_with_provider";
    let file = workspace().join(format!("examples/airflow/dags/{dag}.py")).display().to_string();

    let Some((told, site)) = run_in_airflow(airflow, "airflow/provider_runs.py", &[&file, dag]) else {
        return;
    };

    assert_eq!((&told["provider"], &told["decorator"]), (&json!(true), &json!(true)));
    assert_eq!((&told["hook"], &told["connection"]), (&json!("Tidemill"), &json!(true)));
    assert_eq!(told["test_without_server"], json!([false, true]));
    assert_eq!(told["names_of_airflow_3_0"], json!(["BaseHook", "AirflowTaskTerminated"]));
    check_units(&told);
    check_jobs(&told, &site.url());
    assert_eq!(told["example"]["run"], "success", "{}", told["example"]);
    let l0 = &told["example"]["returned"]["l0"];
    assert_eq!((&l0["parallel"], &told["example_left"]), (&json!(8), &json!([0, 0])));
    // By SIGKILL.
    assert_eq!(told["killed"], json!([9, [0, 0]]));
    site.until_nothing_is_left();
}

/// However the work ends, nothing is held; and who waits, waits in the triggerer.
fn check_units(told: &Value) {
    let (chain, inside) = (&told["chain_well"], &told["inside_well"]);
    assert_eq!((&chain["run"], &chain["deferred"]), (&json!("success"), &json!(["TidemillUnitsTrigger"])));
    assert_eq!(chain["returned"]["l0"], json!([8, "/*+ PARALLEL(8) FULL(A) */", 8]), "{chain}");
    // Nobody claims the units before the task runs, and if they lapse, it waits again.
    assert_eq!((&chain["states"], &inside["states"]), (&json!(["granted"]), &json!(["granted"])));
    let lapsed = &told["inside_lapsed"];
    assert_eq!((&lapsed["run"], lapsed["deferred"].as_array().map(Vec::len)), (&json!("success"), Some(2)));
    assert_eq!(told["twice"]["returned"]["blocks"], json!([5, 3, 4]), "{}", told["twice"]);
    let partly = &told["partly_well"]["returned"]["block"];
    assert_eq!(*partly, json!([4, "/*+ PARALLEL(4) */", 4]));
    assert_eq!((&inside["run"], &inside["deferred"]), (&json!("success"), &json!(["TidemillUnitsTrigger"])));
    assert_eq!(inside["returned"]["decorated"], json!([8, null, 8]), "{inside}");
    for run in [
        "chain_well",
        "chain_raises",
        "inside_well",
        "inside_raises",
        "inside_lapsed",
        "inside_sigterm",
        "partly_sigterm",
        "twice",
    ] {
        assert_eq!(told[run]["left"], json!([0, 0]), "{run}");
    }
    let raised = &told["chain_raises"];
    assert_eq!((&raised["run"], &raised["deferred"]), (&json!("failed"), &json!([])), "{raised}");
    assert_eq!((&raised["tasks"]["l0"], &raised["tasks"]["release"]), (&json!("failed"), &json!("success")));
    for run in ["inside_raises", "inside_sigterm"] {
        assert_eq!(told[run]["tasks"], json!({ "decorated": "failed" }), "{run}");
    }
    assert_eq!(told["partly_sigterm"]["tasks"], json!({ "block": "failed" }));
}

fn check_jobs(told: &Value, url: &str) {
    let jobs = &told["jobs"];
    let tasks = json!({ "good": "success", "seen": "success", "by_id": "success", "bad": "failed" });
    assert_eq!(jobs["tasks"], tasks, "{jobs}");
    let deferred = jobs["deferred"].as_array().unwrap();
    assert!(deferred.contains(&json!("TidemillJobTrigger")), "{jobs}");
    let execution = &jobs["returned"]["good"];
    assert_eq!(execution["status"], "COMPLETED");
    assert_eq!(jobs["links"]["good"], format!("{url}/executions/{}", execution["id"]));
    assert_eq!(told["retried"], json!([true, true, "TM1004"]));
    assert_eq!((&told["cancelled_trigger"], &told["sensor_timeout"]), (&json!(true), &json!([60.0])));
    let trigger = "tidemill_airflow.triggers.TidemillJobTrigger";
    assert_eq!(told["stopped_by_trigger"], json!([trigger, "STOPPED"]));
    assert_eq!((&told["stopped"]["tasks"]["slow"], &told["slow"]), (&json!("failed"), &json!("STOPPED")));
}

/// With a scheduler, a triggerer and one worker slot.
fn check_whole_airflow(airflow: (&str, &str)) {
    if !long_or(true, false) {
        return;
    }
    let Some((told, _site)) = run_in_airflow(airflow, "airflow/provider_site.py", &[]) else { return };

    assert_eq!(told["another_task"], json!(["success", "deferred", [10, 1]]), "{told}");
    assert_eq!(told["ended_in_the_queue"], json!(["failed", [10, 0]]));
    for end in ["sigkill", "sigterm"] {
        for dag in ["inside", "partly"] {
            assert_eq!(told[end][dag], json!(["failed", "failed", [0, 0]]), "{end} {dag}");
        }
    }
    assert_eq!(told["chain"], json!(["failed", "failed", "success", [0, 0]]));
}

const AIRFLOW_2: (&str, &str) = ("airflow", AIRFLOW_PYTHON);
const AIRFLOW_3: (&str, &str) = ("airflow3", AIRFLOW3_PYTHON);

#[test]
fn the_provider_holds_units_and_runs_jobs_in_airflow_2() {
    check_provider(AIRFLOW_2);
}

#[test]
fn the_provider_holds_units_and_runs_jobs_in_airflow_3() {
    check_provider(AIRFLOW_3);
}

#[test]
fn a_task_of_airflow_2_that_waits_leaves_the_only_worker_slot_free() {
    check_whole_airflow(AIRFLOW_2);
}

#[test]
fn a_task_of_airflow_3_that_waits_leaves_the_only_worker_slot_free() {
    check_whole_airflow(AIRFLOW_3);
}
