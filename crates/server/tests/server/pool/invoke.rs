//! Calls in the form of AWS Lambda.

use super::{INVOKE, acquire, release};
use crate::{Answer, App, Choices};
use axum::http::{Method, StatusCode};
use base64::Engine;
use serde_json::{Value, json};
use tidemill_domain::audit::Role;
use tidemill_server::access::Authentication;
use tidemill_server::lambda::LambdaOptions;

fn action(action: &str, mut request: Value) -> Value {
    request["action"] = json!(action);
    request
}

fn check_refused(answer: &Answer, status: u16, kind: &str) {
    assert_eq!((answer.status.as_u16(), answer.header("x-amzn-errortype")), (status, kind), "{answer:?}");
    assert!(!answer.header("x-amzn-requestid").is_empty());
    let body = answer.json();
    let side = if status < 500 { "User" } else { "Service" };
    assert_eq!((&body["Type"], body.as_object().unwrap().len()), (&json!(side), 2), "{body}");
    assert!(!body["message"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_call_is_answered_as_lambda_answers() {
    let app = App::adw().await;

    let answer = app.post(INVOKE, &action("acquire", acquire("run-1", 8))).await;

    assert_eq!((answer.status, &answer.json()["after_usage"]), (StatusCode::OK, &json!(8)));
    assert_eq!(answer.header("x-amz-executed-version"), "$LATEST");
    assert_eq!(answer.header("x-amz-function-error"), "");
    assert_eq!(answer.header("x-amz-log-result"), "");
    assert!(!answer.header("x-amzn-requestid").is_empty() && answer.header("content-encoding").is_empty());
    let released = app.post(INVOKE, &action("release", release("run-1"))).await.json();
    assert_eq!((&released["released"], &released["released_connections"]), (&json!(true), &json!(8)));
}

#[tokio::test]
async fn having_to_wait_is_an_answer_and_no_error() {
    let app = App::adw().await;
    app.acquire("other", 949).await;

    let answer = app.post(INVOKE, &action("acquire", acquire("run-1", 8))).await;

    assert_eq!((answer.status, &answer.json()["allowed"]), (StatusCode::OK, &json!(false)));
    assert_eq!(answer.header("x-amz-function-error"), "");
}

#[tokio::test]
async fn the_function_is_found_by_each_of_its_names() {
    let app = App::adw().await;
    let arn = "arn%3Aaws%3Alambda%3Aap-northeast-2%3A123456789012%3Afunction%3Aemr-batch-agent";
    for (name, query) in [
        ("emr-batch-agent", "?Qualifier=prod"),
        ("emr-batch-agent:prod", ""),
        ("emr-batch-agent%3Aprod", "?Qualifier=prod"),
        ("123456789012:function:emr-batch-agent", ""),
        (arn, ""),
        (&format!("{arn}%3Aprod"), ""),
        ("arn:aws:lambda:ap-northeast-2:123456789012:function:emr-batch-agent", "?Qualifier=%24LATEST"),
    ] {
        let path = format!("/2015-03-31/functions/{name}/invocations{query}");
        let answer = app.post(&path, &json!({ "action": "status" })).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    }
    let wrong = |name: &str| format!("/2015-03-31/functions/{name}/invocations");
    check_refused(&app.post(&wrong("somebody-else"), &json!({})).await, 404, "ResourceNotFoundException");
    // The last of them says one thing in its name and another behind the `?`.
    let contradiction = "emr-batch-agent:prod/invocations?Qualifier=test&rest=";
    for name in ["a.b", "%ff", "emr-batch-agent%3Aprod%3Ax", contradiction] {
        let answer = app.post(&wrong(name), &json!({})).await;
        check_refused(&answer, 400, "InvalidParameterValueException");
    }
}

#[tokio::test]
async fn the_function_may_have_another_name() {
    let lambda = LambdaOptions { function: "agent".to_owned(), ..LambdaOptions::default() };
    let choices = Choices { lambda, ..Choices::default() };
    let app = App::choosing(Authentication::None, "/base", choices).await;

    let found =
        app.post("/base/2015-03-31/functions/agent/invocations", &json!({ "action": "status" })).await;
    assert_eq!(found.status, StatusCode::OK, "{found:?}");
    check_refused(&app.post(&format!("/base{INVOKE}"), &json!({})).await, 404, "ResourceNotFoundException");
}

#[tokio::test]
async fn an_event_is_done_when_it_is_accepted() {
    let app = App::adw().await;
    let mut wanted = action("acquire", acquire("run-1", 8));
    wanted["wait_seconds"] = json!(50);

    let answer = app.post_with(INVOKE, &[("x-amz-invocation-type", "Event")], &wanted).await;

    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::ACCEPTED, ""));
    assert_eq!(app.usage("4").await, 8);
    let old = "/2014-11-13/functions/emr-batch-agent/invoke-async/";
    for path in [old, old.trim_end_matches('/')] {
        let answer = app.post(path, &action("release", release("run-1"))).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::ACCEPTED, ""));
        assert_eq!(app.usage("4").await, 0);
    }
}

#[tokio::test]
async fn an_event_that_has_to_wait_does_not_keep_its_caller() {
    let app = App::adw().await;
    app.acquire("other", 949).await;
    let mut wanted = action("acquire", acquire("run-1", 8));
    wanted["wait_seconds"] = json!(50);

    let headers = [("x-amz-invocation-type", "Event")];
    let answer = app.post_with(INVOKE, &headers, &wanted);
    let answer = tokio::time::timeout(std::time::Duration::from_secs(40), answer).await.expect("no waiting");

    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let queue = app.ask(Method::GET, "/api/v1/pools/ADW/queue", &[], "").await.json();
    assert_eq!(queue["items"][0]["holder"]["run_id"], "run-1");
}

#[tokio::test]
async fn a_dry_run_does_nothing() {
    let app = App::adw().await;
    let headers = [("x-amz-invocation-type", "DryRun")];

    let answer = app.post_with(INVOKE, &headers, &action("acquire", acquire("run-1", 8))).await;

    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(app.usage("4").await, 0);
}

#[tokio::test]
async fn who_asks_for_the_log_gets_its_end() {
    let app = App::adw().await;

    let answer = app.post_with(INVOKE, &[("x-amz-log-type", "Tail")], &json!({ "action": "status" })).await;

    let log = base64::engine::general_purpose::STANDARD.decode(answer.header("x-amz-log-result")).unwrap();
    let log = String::from_utf8(log).unwrap();
    assert!(log.starts_with("START RequestId: ") && log.contains("ADW"), "{log}");
}

#[tokio::test]
async fn the_same_invocation_is_answered_the_same() {
    let app = App::adw().await;
    app.acquire("other", 72).await;
    let headers = [("amz-sdk-invocation-id", "7571ddfa-00e6-4ef8-b827-25065ebbbe28")];
    let send = async |request: Value| app.post_with(INVOKE, &headers, &request).await.text;
    let wanted = action("acquire", acquire("run-1", 8));

    let (first, second) = (send(wanted.clone()).await, send(wanted.clone()).await);
    assert_eq!(first, second);
    let another = app.post_with(INVOKE, &[("amz-sdk-invocation-id", "another")], &wanted).await.json();
    assert_eq!(another["duplicate"], true);

    let given = action("release", release("run-1"));
    let (first, second) = (send(given.clone()).await, send(given).await);
    assert!(first.contains(r#""released":true"#) && first == second, "{first} {second}");
}

#[tokio::test]
async fn what_the_function_cannot_do_with_is_its_own_error() {
    let app = App::adw().await;
    for request in [
        json!({}),
        json!("text"),
        json!({ "action": "explode" }),
        action("acquire", json!({ "src_db_id": 4 })),
    ] {
        let answer = app.post(INVOKE, &request).await;
        assert_eq!(answer.status, StatusCode::OK, "{request}");
        assert_eq!(answer.header("x-amz-function-error"), "Unhandled", "{request}");
        for field in ["errorMessage", "errorType", "stackTrace"] {
            assert!(!answer.json()[field].is_null(), "{field}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn what_is_not_for_the_function_is_an_error_of_the_service() {
    let app = App::adw().await;
    let raw = async |headers: &[(&str, &str)], body: &str| app.ask(Method::POST, INVOKE, headers, body).await;

    check_refused(&raw(&[], "{not json").await, 400, "InvalidRequestContentException");
    check_refused(&raw(&[], &"x".repeat(7 << 20)).await, 413, "RequestTooLargeException");
    for (name, value) in
        [("x-amz-invocation-type", "Sometimes"), ("x-amz-log-type", "Head"), ("amz-sdk-invocation-id", "")]
    {
        check_refused(&raw(&[(name, value)], "{}").await, 400, "InvalidParameterValueException");
    }
    check_refused(&raw(&[("origin", "https://evil.example")], "{}").await, 403, "AccessDeniedException");
}

#[tokio::test]
async fn who_looks_first_sees_that_the_function_is_there() {
    let app = App::adw().await;

    let found = app.ask(Method::GET, "/2015-03-31/functions/emr-batch-agent", &[], "").await.json();

    assert_eq!(found["Configuration"]["State"], "Active");
    let missing = app.ask(Method::GET, "/2015-03-31/functions/somebody-else", &[], "").await;
    check_refused(&missing, 404, "ResourceNotFoundException");
}

#[tokio::test]
async fn a_closed_server_wants_a_token_or_a_signature() {
    let app = App::closed().await;

    check_refused(&app.post(INVOKE, &json!({})).await, 403, "MissingAuthenticationTokenException");
    let viewer = app.ask_as(Role::Viewer, Method::POST, INVOKE, r#"{"action":"status"}"#).await;
    check_refused(&viewer, 403, "AccessDeniedException");
    let requester = app.ask_as(Role::Requester, Method::POST, INVOKE, r#"{"action":"status"}"#).await;
    assert_eq!(requester.status, StatusCode::OK, "{requester:?}");
    let open = app.post("/acquire", &acquire("run-1", 8)).await;
    assert_eq!((open.status, &open.json()["code"]), (StatusCode::UNAUTHORIZED, &json!("TM0501")));
}
