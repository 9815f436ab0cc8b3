//! Callers who prove who they are by a signature.

use super::sign::{self, KEY_ID, NOW, SECRET};
use super::{INVOKE, acquire};
use crate::{Answer, App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::json;
use tidemill_domain::audit::{Actor, Role};
use tidemill_server::access::Authentication;
use tidemill_server::lambda::signature::AccessKey;
use tidemill_server::lambda::{CallerKey, LambdaOptions, SignatureMode};

fn choices(signature: SignatureMode) -> Choices {
    let key = CallerKey { name: "etl".to_owned(), key: AccessKey::new(KEY_ID, SECRET).unwrap() };
    let lambda = LambdaOptions { signature, keys: vec![key], ..LambdaOptions::default() };
    Choices { lambda, ..Choices::default() }
}

async fn server(authentication: Authentication, base_path: &str, signature: SignatureMode) -> App {
    let app = App::choosing(authentication, base_path, choices(signature)).await;
    let settings = tidemill_domain::pool::Settings {
        external_id: Some(4),
        ..tidemill_domain::pool::Settings::new("ADW".parse().unwrap(), 1000)
    };
    let mut tx = app.store.begin().await.unwrap();
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    app
}

fn required() -> Authentication {
    Authentication::Required { issuers: Vec::new() }
}

/// A signed request, of which `sent` is what arrives.
async fn send(app: &App, path: &str, signing: (&str, &str), signed: &str, sent: &str) -> Answer {
    let headers = sign::headers(signing.0, signing.1, path, signed);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    app.ask(Method::POST, path, &headers, sent).await
}

fn wanted() -> String {
    let mut wanted = acquire("run-1", 8);
    wanted["action"] = json!("acquire");
    wanted.to_string()
}

#[tokio::test]
async fn a_signature_opens_a_closed_server_to_requests_for_units_only() {
    let app = server(required(), "", SignatureMode::Off).await;
    let body = wanted();

    let answer = send(&app, INVOKE, (SECRET, NOW), &body, &body).await;
    assert_eq!((answer.status, &answer.json()["allowed"]), (StatusCode::OK, &json!(true)), "{answer:?}");
    let answer = send(&app, "/acquire", (SECRET, NOW), &body, &body).await;
    assert_eq!(answer.json()["duplicate"], true, "{answer:?}");
    for path in ["/api/v1/pools", "/api/v1/tokens", "/api/v1/requests"] {
        let answer = send(&app, path, (SECRET, NOW), &body, &body).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn a_signature_below_a_base_path_covers_it() {
    let app = server(required(), "/tidemill", SignatureMode::Off).await;
    let (path, body) = (format!("/tidemill{INVOKE}"), wanted());

    assert_eq!(send(&app, &path, (SECRET, NOW), &body, &body).await.status, StatusCode::OK);
    let headers = sign::headers(SECRET, NOW, INVOKE, &body);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let elsewhere = app.ask(Method::POST, &path, &headers, &body).await;
    assert_eq!(elsewhere.header("x-amzn-errortype"), "InvalidSignatureException");
}

#[tokio::test]
async fn a_request_that_was_changed_or_is_old_is_refused() {
    let app = server(required(), "", SignatureMode::Off).await;
    let body = wanted();
    let kind = |answer: &Answer| (answer.status.as_u16(), answer.header("x-amzn-errortype").to_owned());
    let refused = (403, "InvalidSignatureException".to_owned());

    let changed = send(&app, INVOKE, (SECRET, NOW), &body, &body.replace("run-1", "run-2")).await;
    assert_eq!(kind(&changed), refused);
    let other = send(&app, INVOKE, ("another-secret-of-forty-characters+/AAAA", NOW), &body, &body).await;
    assert_eq!(kind(&other), refused);
    let old = send(&app, INVOKE, (SECRET, "20261115T015459Z"), &body, &body).await;
    assert_eq!(kind(&old), refused);
    // At the document's own addresses the refusal is a problem, as there always.
    let plain = send(&app, "/acquire", (SECRET, NOW), &body, "{}").await;
    assert_eq!((plain.status, &plain.json()["code"]), (StatusCode::FORBIDDEN, &json!("TM1208")));
    let mut tx = app.store.read().await.unwrap();
    assert_eq!(tx.pools().find(&"ADW".parse().unwrap()).await.unwrap().unwrap().usage, 0);
}

#[tokio::test]
async fn who_guesses_often_has_to_wait_and_nobody_else() {
    let app = server(required(), "", SignatureMode::Off).await;
    let body = wanted();
    let guess =
        async || send(&app, INVOKE, ("another-secret-of-forty-characters+/AAAA", NOW), &body, &body).await;
    for _ in 0..5 {
        guess().await;
    }

    let answer = guess().await;
    let right = send(&app, INVOKE, (SECRET, NOW), &body, &body).await;

    assert_eq!(right.status, StatusCode::OK, "{right:?}");
    assert_eq!(
        (answer.status.as_u16(), answer.header("x-amzn-errortype")),
        (429, "TooManyRequestsException")
    );
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn an_open_server_looks_at_signatures_only_when_it_is_told_to() {
    let body = wanted();
    let lax = server(Authentication::None, "", SignatureMode::Off).await;
    let answer = send(&lax, INVOKE, ("whatever the client has in its files", NOW), &body, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");

    let strict = server(Authentication::None, "", SignatureMode::Verify).await;
    let unsigned = strict.ask(Method::POST, INVOKE, &[], &body).await;
    assert_eq!(unsigned.header("x-amzn-errortype"), "MissingAuthenticationTokenException");
    let wrong = send(&strict, INVOKE, ("another-secret-of-forty-characters+/AAAA", NOW), &body, &body).await;
    assert_eq!(wrong.header("x-amzn-errortype"), "InvalidSignatureException");
    let signed = send(&strict, INVOKE, (SECRET, NOW), &body, &body).await;
    assert_eq!(signed.status, StatusCode::OK, "{signed:?}");
}

#[tokio::test]
async fn where_signatures_are_required_a_token_is_none() {
    let app = server(required(), "", SignatureMode::Verify).await;

    let answer = app.ask_as(Role::Requester, Method::POST, INVOKE, r#"{"action":"status"}"#).await;

    assert_eq!(answer.header("x-amzn-errortype"), "MissingAuthenticationTokenException");
}

#[tokio::test]
async fn a_signed_body_that_is_too_large_is_refused_as_lambda_does() {
    let app = server(required(), "", SignatureMode::Off).await;
    let body = "x".repeat(2 << 20);

    let answer = send(&app, INVOKE, (SECRET, NOW), &body, &body).await;

    assert_eq!(
        (answer.status.as_u16(), answer.header("x-amzn-errortype")),
        (413, "RequestTooLargeException")
    );
}
