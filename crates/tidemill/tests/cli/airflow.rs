//! Callers that were written for AWS Lambda: boto3, and DAGs of a real Airflow. Nothing in them knows of Tidemill but
//! the address.

use crate::serve::Served;
use crate::{Stage, workspace};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tidemill_testkit::{Guarded, skip};

/// The variable that names a Python with Airflow.
pub(crate) const AIRFLOW_PYTHON: &str = "TIDEMILL_TEST_AIRFLOW_PYTHON";

/// The variable that names a Python with boto3.
const BOTO3_PYTHON: &str = "TIDEMILL_TEST_BOTO3_PYTHON";

/// Airflow 2 alone takes five seconds, Airflow 3 half a minute, and more when all tests run at once.
const PATIENCE: Duration = Duration::from_secs(1200);

/// A server with the pool of the document, and a Python that calls it.
struct Site {
    stage: Stage,
    served: Served,
    python: PathBuf,
}

impl Site {
    /// None when the component is absent and may be skipped.
    fn new(component: &str, variable: &str, policy: &str) -> Option<Self> {
        let python = skip::require(component, std::env::var_os(variable)).map(PathBuf::from)?;
        let stage = Stage::new();
        let served = Served::start(&stage, &[]);
        create_pool(&served, policy);
        Some(Self { stage, served, python })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Value {
        let file = workspace().join("crates/tidemill/tests/cli/airflow").join(program);
        run_python(
            &self.stage,
            &self.python,
            &file,
            &[("AWS_ENDPOINT_URL_LAMBDA", &format!("http://{}", self.served.address))],
            arguments,
        )
    }

    fn usage(&self) -> Value {
        let (status, body) = self.served.get("/status", None);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["sources"]["4"]["current_usage"].clone()
    }
}

/// The JSON in the last line that a program in Python prints. Nothing that the host says about AWS reaches it.
pub(crate) fn run_python(
    stage: &Stage,
    python: &Path,
    program: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Value {
    let mut command = stage.dress(Command::new(python), &[program.to_str().unwrap()]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .env("AWS_DEFAULT_REGION", "ap-northeast-2")
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_CONFIG_FILE", stage.path("no-configuration"))
        .env("AWS_SHARED_CREDENTIALS_FILE", stage.path("no-credentials"))
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().copied());
    let (output, messages) = (stage.path("output"), stage.path("messages"));
    command.stdout(File::create(&output).unwrap()).stderr(File::create(&messages).unwrap());
    let ended = Guarded::spawn(command).unwrap().wait_deadline(PATIENCE);
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    assert!(ended.is_some_and(|ended| ended.success()), "{program:?}: {ended:?}\n{}", text(&messages));
    serde_json::from_str(text(&output).lines().last().unwrap()).unwrap()
}

/// The pool of the document, by the API.
fn create_pool(served: &Served, policy: &str) {
    let pool = json!({
        "name": "ADW", "external_id": 4, "max_units": 1000, "threshold_percent": 95, "default_units": 8,
        "min_units": 2, "policy": policy,
    });
    let (status, body) = served.post("/api/v1/pools", &pool.to_string());
    assert_eq!(status, 201, "{body}");
}

/// What the release told, which the operator of Airflow returns as text.
fn released(told: &Value, task: &str) -> Value {
    let text = told["returned"][task].as_str().unwrap_or_else(|| panic!("nothing was released: {told}"));
    let answer: Value = serde_json::from_str(text).unwrap();
    json!([answer["released"], answer["released_connections"]])
}

#[test]
fn the_documents_own_tasks_hold_connections_while_emr_runs() {
    let Some(site) = Site::new("airflow", AIRFLOW_PYTHON, "halving") else { return };

    let told = site.run("document_dag.py", &[]);

    assert_eq!(told["run"], "success", "{told}");
    assert_eq!(told["returned"]["emr.l0"], 8, "not held while EMR ran: {told}");
    assert_eq!(released(&told, "release_connection"), json!([true, 8]));
    assert_eq!(site.usage(), 0);
    let order = ["start_task", "acquire_connection", "delay_task", "trigger_task", "emr.l0", "emr.l1"];
    let rest = ["release_connection", "done_api"];
    assert_eq!(told["order"], json!([&order[..], &rest].concat()));
}

#[test]
fn the_documents_own_tasks_give_back_what_a_failed_emr_task_held() {
    let Some(site) = Site::new("airflow", AIRFLOW_PYTHON, "adaptive") else { return };

    let told = site.run("document_dag.py", &["--fail-emr"]);

    assert_eq!(told["tasks"]["emr.l0"], "failed", "{told}");
    assert_eq!(released(&told, "release_connection"), json!([true, 8]));
    assert_eq!(site.usage(), 0);
    // The fault of the document that our example does not have.
    assert_eq!(told["run"], "success");
}

/// Runs a DAG of the example to its good end and to a bad one.
fn check_example(dag: &str, policy: &str, order: &[&str]) {
    let Some(site) = Site::new("airflow", AIRFLOW_PYTHON, policy) else { return };
    let file = workspace().join("examples/airflow/dags/emr_batch.py").display().to_string();

    let good = site.run("run_dag.py", &[&file, dag]);
    let after_good = site.usage();
    let bad = site.run("run_dag.py", &[&file, dag, "--fail-emr"]);
    let after_bad = site.usage();

    assert_eq!((&good["run"], &bad["run"]), (&json!("success"), &json!("failed")), "{good}\n{bad}");
    assert_eq!((after_good, after_bad), (json!(0), json!(0)));
    for told in [&good, &bad] {
        assert_eq!(told["returned"]["acquire"]["after_usage"], 8, "{told}");
        assert_eq!(released(told, "release"), json!([true, 8]));
    }
    let step = &good["returned"]["emr.l0"];
    assert_eq!(
        (&step["parallel"], &step["hint_override"]),
        (&json!(8), &json!("/*+ PARALLEL(8) FULL(A) */"))
    );
    // What does not depend on each other may end in any order.
    let ended: Vec<&str> = good["order"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let place = |task: &&str| ended.iter().position(|ended| ended == task);
    assert!(order.iter().map(place).is_sorted_by(|a, b| a.is_some() && a < b), "{ended:?}");
}

#[test]
fn the_example_holds_connections_for_l0_alone() {
    check_example("emr_batch", "adaptive", &["start", "delay", "trigger", "acquire", "emr.l0", "release"]);
}

#[test]
fn the_example_in_the_documents_order_holds_connections_until_the_end() {
    let order = ["start", "acquire", "delay", "trigger", "emr.l0", "emr.l1", "release", "done"];
    check_example("emr_batch_in_the_documents_order", "halving", &order);
}

/// What every good answer to boto3 says besides its payload.
/// The lines of code of a program in Python: without empty ones, comments and docstrings.
fn code(program: &str) -> Vec<&str> {
    let mut is_docstring = false;
    let is_code = |line: &&str| {
        let (quotes, was_docstring) = (line.matches("\"\"\"").count(), is_docstring);
        is_docstring ^= quotes == 1;
        let text = line.trim();
        !was_docstring && quotes == 0 && !text.is_empty() && !text.starts_with('#')
    };
    let lines = program.lines().filter(is_code);
    lines.map(|line| line.split("  # ").next().unwrap_or_default().trim_end()).collect()
}

#[test]
fn the_provider_needs_a_third_of_the_lines_and_the_guide_shows_both_dags() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
    let document = read("crates/tidemill/tests/cli/airflow/document_dag.py");
    let (_, document) = document.split_once("# ---- the document").unwrap();
    let (document, _) = document.split_once("# ---- ours").unwrap();
    // The rest of the first line is dashes.
    let (_, document) = document.split_once('\n').unwrap();
    let provider = read("examples/airflow/dags/emr_batch_with_provider.py");
    let without = read("examples/airflow/dags/emr_batch.py");
    let guide = read("docs/guide/airflow.md");
    let blocks: Vec<Vec<&str>> =
        guide.split("```python\n").skip(1).map(|rest| code(rest.split("```").next().unwrap())).collect();

    let (document, provider) = (code(document), code(&provider));

    assert!(provider.len() * 3 <= code(&without).len(), "{} lines", provider.len());
    for (dag, head) in [(&document, "tasks of the agent"), (&provider, "whole DAG with the provider")] {
        assert!(blocks.contains(dag), "{dag:#?} is not in the guide");
        assert!(guide.contains(&format!("<th>{head}, {} lines</th>", dag.len())), "{}", dag.len());
    }
}

fn check_answered(told: &Value, calls: &[&str]) {
    for call in calls {
        let told = &told[call];
        assert_eq!((&told["status"], &told["version"]), (&json!(200), &json!("$LATEST")), "{call}: {told}");
        assert_eq!(
            (&told["function_error"], &told["has_request_id"]),
            (&Value::Null, &json!(true)),
            "{call}"
        );
    }
}

#[test]
fn boto3_is_answered_as_lambda_answers() {
    check_boto3("adaptive");
}

#[test]
fn boto3_is_answered_as_lambda_answers_with_the_policy_halving() {
    check_boto3("halving");
}

fn check_boto3(policy: &str) {
    let Some(site) = Site::new("boto3", BOTO3_PYTHON, policy) else { return };

    let told = site.run("boto3_calls.py", &[]);

    check_answered(&told, &["acquire", "acquire_twice", "status", "release", "release_twice"]);
    let status = ["qualifier", "name_with_alias", "partial_arn", "arn", "arn_with_alias", "request_response"];
    check_answered(&told, &status);
    let payload = |call: &str| &told[call]["payload"];
    let usages = ["current_usage", "after_usage"].map(|field| &payload("acquire")[field]);
    assert_eq!((&payload("acquire")["allowed"], usages), (&json!(true), [&json!(0), &json!(8)]));
    assert_eq!(payload("acquire_twice")["allowed"], true);
    assert_eq!(payload("status")["sources"]["4"]["current_usage"], 8, "acquired twice, counted once");
    let released = |call: &str| json!([payload(call)["released"], payload(call)["released_connections"]]);
    assert_eq!(released("release"), json!([true, 8]));
    assert_eq!(released("release_twice"), json!([false, 0]));
    assert_eq!(told["dry_run"]["status"], 204);
    assert_eq!(payload("dry_run"), &Value::Null);
    assert_eq!(payload("status_after_dry_run")["sources"]["4"]["current_usage"], 0);
    assert_eq!((&told["event"]["status"], payload("event")), (&json!(202), &Value::Null));
    let log = told["log_tail"]["log_bytes"].as_u64();
    assert!(log.is_some_and(|bytes| (1..=4096).contains(&bytes)), "{log:?}");
    assert_eq!(told["unknown_function"], error(404, "ResourceNotFoundException"));
    assert_eq!(told["not_json"], error(400, "InvalidRequestContentException"));
    assert_eq!(told["too_large"], error(413, "RequestTooLargeException"));
    let failed = &told["unknown_action"];
    assert_eq!((&failed["status"], &failed["function_error"]), (&json!(200), &json!("Unhandled")));
    for field in ["errorMessage", "errorType", "stackTrace"] {
        assert!(!failed["payload"][field].is_null(), "{field}: {failed}");
    }
}

/// Temporary credentials, which only AWS can verify, as on MWAA.
#[test]
fn boto3_with_the_credentials_of_a_role_gets_in_by_a_token_in_its_endpoint() {
    let Some(python) = skip::require("boto3", std::env::var_os(BOTO3_PYTHON)).map(PathBuf::from) else {
        return;
    };
    let stage = Stage::new().with("TIDEMILL_SERVER_AUTH", "required");
    let limits = ["--id", "4", "--max", "1000", "--threshold", "95", "--default", "8", "--min", "2"];
    stage.run(&[&["pool", "create", "ADW"][..], &limits].concat()).succeeds();
    let created = stage.run(&["token", "create", "mwaa", "--role", "requester", "--scope", "pool/ADW"]);
    let token = created.succeeds().stdout.trim().to_owned();
    let served = Served::start(&stage, &["--base-path", "/tm"]);
    let program = workspace().join("crates/tidemill/tests/cli/airflow/boto3_calls.py");
    let endpoint = format!("http://{}/tm/aws/{token}", served.address);

    let variables =
        [("AWS_ENDPOINT_URL_LAMBDA", endpoint.as_str()), ("AWS_SESSION_TOKEN", "IQoJb3JpZ2luX2VjE")];
    let told = run_python(&stage, &python, &program, &variables, &[]);

    check_answered(&told, &["acquire", "status", "release", "qualifier", "arn_with_alias", "log_tail"]);
    assert_eq!(told["acquire"]["payload"]["allowed"], true);
    assert_eq!(told["release"]["payload"]["released_connections"], 8);
    assert_eq!(told["unknown_function"], error(404, "ResourceNotFoundException"));
    assert_eq!(told["repeated_release"]["same_answer"], true);
}

/// As boto3 tells a service error that it knows.
fn error(status: u16, name: &str) -> Value {
    json!({"status": status, "error": name, "class": name})
}

#[test]
fn boto3_that_lost_an_answer_gets_the_same_one_again() {
    let Some(site) = Site::new("boto3", BOTO3_PYTHON, "adaptive") else { return };

    let told = site.run("boto3_calls.py", &[]);

    for call in ["repeated_acquire", "repeated_release"] {
        let told = &told[call];
        assert_eq!(told["attempts"], 2, "{told}");
        assert_eq!((&told["same_invocation"], &told["same_answer"]), (&json!(true), &json!(true)), "{told}");
    }
    assert_eq!(told["repeated_acquire"]["payload"]["allowed"], true);
    // A release that was done again would have found nothing.
    assert_eq!(told["repeated_release"]["payload"]["released"], true);
    // What was asked for as an event, and nothing else, is left. It may come a moment later.
    for _ in 0..6_000 {
        if site.usage() == 8 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(site.usage(), 8);
}
