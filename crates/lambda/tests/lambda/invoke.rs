//! The requests of the document, as invocations of the function.

use crate::emulator::{Emulator, post};
use crate::{LONG, Site, acquire, release};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::skip;

#[tokio::test]
async fn the_requests_of_the_document_are_answered_one_after_another() {
    let Some(site) = Site::new().await else { return };
    let emulator = site.start(LONG);

    let acquired = emulator.invoke(&acquire("run-1", 8));
    let first = emulator.function();
    let status = emulator.invoke(&json!({ "action": "status" }));
    let again = emulator.invoke(&acquire("run-1", 8));
    let released = emulator.invoke(&release("run-1"));
    let released_again = emulator.invoke(&release("run-1"));

    let fields = |answer: &Value, names: [&str; 3]| names.map(|name| answer[name].clone());
    let usage = fields(&acquired, ["allowed", "current_usage", "after_usage"]);
    assert_eq!(usage, [json!(true), json!(0), json!(8)], "{acquired}");
    assert_eq!(status["sources"]["4"]["current_usage"], 8, "{status}");
    assert_eq!((&again["allowed"], &again["after_usage"]), (&json!(true), &json!(8)), "{again}");
    let units = fields(&released, ["released", "released_connections", "current_usage"]);
    assert_eq!(units, [json!(true), json!(8), json!(0)], "{released}");
    assert_eq!(released_again["released"], false, "{released_again}");
    assert_eq!(emulator.function(), first, "each call had a sandbox of its own");
    assert_eq!(site.usage().await, 0);
    // A function that is frozen could not heartbeat.
    let mut tx = site.store.read().await.unwrap();
    assert_eq!(tx.processes().list(10).await.unwrap().len(), 0);
}

#[tokio::test]
async fn an_invalid_request_is_an_error_of_the_function() {
    let Some(site) = Site::new().await else { return };
    let emulator = site.start(LONG);

    for (event, message) in [
        (json!({ "action": "frobnicate" }), "action: "),
        (json!({}), "action: it is missing; use acquire, release or status"),
        (json!({ "action": "acquire", "dag_id": "d", "dag_run_id": "r" }), "src_db_id: it is missing"),
        (json!(["acquire"]), "request: it is not a JSON object"),
        (json!({ "requestContext": { "http": {} } }), "request: it is no HTTP request"),
    ] {
        let error = emulator.invoke(&event);
        assert_eq!(error["errorType"], "InvalidRequest", "{event}: {error}");
        assert!(error["errorMessage"].as_str().unwrap().starts_with(message), "{event}: {error}");
    }
    let not_json: Value = serde_json::from_str(&post(emulator.port, "frobnicate")).unwrap();
    assert!(not_json["errorType"].is_string() && not_json["errorMessage"].is_string(), "{not_json}");
    assert_eq!(emulator.invoke(&acquire("run-1", 8))["allowed"], true, "the function goes on");
}

#[tokio::test]
async fn a_wait_for_units_ends_before_the_timeout_of_the_function() {
    let Some(site) = Site::new().await else { return };
    let emulator = site.start(12);
    assert_eq!(emulator.invoke(&acquire("run-1", 949))["allowed"], true);

    let mut longer = acquire("run-2", 8);
    longer["wait_seconds"] = json!(50);
    let waits = emulator.invoke(&longer);
    assert_eq!(emulator.invoke(&release("run-1"))["released_connections"], 949);
    let granted = emulator.invoke(&longer);

    assert_eq!((&waits["allowed"], &waits["queue_position"]), (&json!(false), &json!(1)), "{waits}");
    assert_eq!(granted["allowed"], true, "{granted}");
}

/// What boto3 tells of a call with this payload.
fn boto3(python: &Path, emulator: &Emulator, payload: &Value) -> Value {
    const PROGRAM: &str = "
import json, sys, boto3
client = boto3.client('lambda', endpoint_url=sys.argv[1], region_name='ap-northeast-2',
                      aws_access_key_id='AKIDEXAMPLE', aws_secret_access_key='secret')
answer = client.invoke(FunctionName='function', Payload=sys.argv[2])
print(json.dumps([answer['StatusCode'], json.loads(answer['Payload'].read())]))
";
    let endpoint = format!("http://127.0.0.1:{}", emulator.port);
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, &endpoint, &payload.to_string()]).env("NO_PROXY", "127.0.0.1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn boto3_acquires_and_releases() {
    let found = skip::require("boto3", std::env::var_os("TIDEMILL_TEST_BOTO3_PYTHON"));
    let (Some(python), Some(site)) = (found.map(PathBuf::from), Site::new().await) else { return };
    let emulator = site.start(LONG);

    let acquired = boto3(&python, &emulator, &acquire("run-1", 8));
    let held = site.usage().await;
    let released = boto3(&python, &emulator, &release("run-1"));

    assert_eq!((&acquired[0], &acquired[1]["allowed"], held), (&json!(200), &json!(true), 8));
    assert_eq!((&released[1]["released_connections"], site.usage().await), (&json!(8), 0));
}
