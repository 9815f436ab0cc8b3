//! Callers with credentials of AWS, which this server cannot verify, and a token in the URL of their endpoint.

use super::sign;
use super::{INVOKE, acquire};
use crate::{Answer, App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::access::Token;
use tidemill_domain::audit::{Actor, Role};
use tidemill_server::access::Authentication;
use tidemill_server::lambda::{LambdaOptions, SignatureMode};
use tidemill_store::token::NewToken;

/// A secret of AWS, which only the caller and AWS have.
const FOREIGN: &str = "another-secret-of-forty-characters+/AAAA";

async fn closed(base_path: &str, signature: SignatureMode) -> App {
    let lambda = LambdaOptions { signature, ..LambdaOptions::default() };
    let required = Authentication::Required { issuers: Vec::new() };
    let app = App::choosing(required, base_path, Choices { lambda, ..Choices::default() }).await;
    for (name, id) in [("ADW", 4), ("ERP", 5)] {
        let body = json!({ "name": name, "external_id": id, "max_units": 100 }).to_string();
        let path = format!("{base_path}/api/v1/pools");
        let made = app.ask_as(Role::Admin, Method::POST, &path, &body).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    }
    app
}

/// A token that may request units of the pool ADW.
async fn scoped(app: &App) -> String {
    let token = Token::from_random(&[9; 16], &[9; 32]);
    let new = NewToken {
        name: "mwaa".into(),
        role: Role::Requester,
        scopes: vec!["pool/ADW".into()],
        valid_for: Some(Duration::from_secs(3600)),
    };
    let mut tx = app.store.begin().await.unwrap();
    tx.tokens().create(&token, &new, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    token.expose()
}

/// As a client with the credentials of a role sends it: signed. The session token is not part of this signature, so it is
/// sent only where nobody checks that.
async fn send(app: &App, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let signed = sign::headers(FOREIGN, sign::NOW, path, &body);
    let mut headers: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if path.contains("/aws/") {
        headers.push(("x-amz-security-token", "IQoJb3JpZ2luX2VjE"));
    }
    app.ask(Method::POST, path, &headers, &body).await
}

fn wanted(src_db_id: i64) -> Value {
    let mut wanted = acquire("run-1", 8);
    wanted["action"] = json!("acquire");
    wanted["src_db_id"] = json!(src_db_id);
    wanted
}

fn check_refused(answer: &Answer, status: u16, kind: &str, token: &str) {
    assert_eq!((answer.status.as_u16(), answer.header("x-amzn-errortype")), (status, kind), "{answer:?}");
    assert!(!answer.text.contains(token), "{answer:?}");
}

#[tokio::test]
async fn a_token_in_the_endpoint_opens_a_closed_server() {
    for base_path in ["", "/tidemill"] {
        let app = closed(base_path, SignatureMode::Off).await;
        let endpoint = format!("{base_path}/aws/{}", scoped(&app).await);

        let granted = send(&app, &format!("{endpoint}{INVOKE}"), &wanted(4)).await;
        assert_eq!(
            (granted.status, &granted.json()["allowed"]),
            (StatusCode::OK, &json!(true)),
            "{granted:?}"
        );
        let event = format!("{endpoint}/2014-11-13/functions/emr-batch-agent/invoke-async/");
        assert_eq!(send(&app, &event, &json!({ "action": "status" })).await.status, StatusCode::ACCEPTED);
        let found = format!("{endpoint}/2015-03-31/functions/emr-batch-agent?Qualifier=prod");
        assert_eq!(app.ask(Method::GET, &found, &[], "").await.status, StatusCode::OK);
        let plain = send(&app, &format!("{base_path}{INVOKE}"), &wanted(4)).await;
        assert_eq!(plain.header("x-amzn-errortype"), "UnrecognizedClientException");
        assert!(plain.text.contains("/aws/TOKEN"), "it says what to use instead: {plain:?}");
    }
}

#[tokio::test]
async fn a_token_in_the_endpoint_has_the_rights_of_its_role_and_scopes() {
    let app = closed("", SignatureMode::Off).await;
    let token = scoped(&app).await;

    let other = send(&app, &format!("/aws/{token}{INVOKE}"), &wanted(5)).await;
    check_refused(&other, 403, "AccessDeniedException", &token);
    let viewer = app.token(Role::Viewer).await;
    let refused = send(&app, &format!("/aws/{viewer}{INVOKE}"), &wanted(4)).await;
    check_refused(&refused, 403, "AccessDeniedException", &viewer);
}

#[tokio::test]
async fn a_token_in_the_endpoint_opens_nothing_else_and_is_not_told() {
    let app = closed("", SignatureMode::Off).await;
    let token = app.token(Role::Admin).await;

    for path in ["/acquire", "/status", "/api/v1/pools", "/", "", "/2015-03-31/functions", "/pools"] {
        for accept in ["text/html", "application/json"] {
            let address = format!("/aws/{token}{path}");
            let answer = app.ask(Method::GET, &address, &[("accept", accept)], "").await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
            assert!(!format!("{answer:?}").contains(&token), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_wrong_token_in_the_endpoint_is_refused_and_guessing_is_slowed_down() {
    let app = closed("", SignatureMode::Off).await;
    let good = scoped(&app).await;
    let mut forged = good.clone();
    forged.replace_range(forged.len() - 1.., if forged.ends_with('a') { "b" } else { "a" });
    let guess = async |token: &str| send(&app, &format!("/aws/{token}{INVOKE}"), &wanted(4)).await;

    for token in [&forged, "tm_x", "%20", "..", &"x".repeat(9_000)] {
        check_refused(&guess(token).await, 403, "UnrecognizedClientException", &forged);
    }
    check_refused(&guess(&forged).await, 429, "TooManyRequestsException", &forged);
    assert_eq!(guess(&good).await.json()["allowed"], true);
}

#[tokio::test]
async fn where_signatures_are_required_a_token_in_the_endpoint_is_none() {
    let app = closed("", SignatureMode::Verify).await;
    let token = scoped(&app).await;

    let refused = send(&app, &format!("/aws/{token}{INVOKE}"), &wanted(4)).await;

    check_refused(&refused, 403, "InvalidSignatureException", &token);
    assert!(refused.text.contains("lambda.signature"), "{refused:?}");
}

#[tokio::test]
async fn an_open_server_needs_no_token_in_the_endpoint() {
    let app = App::adw().await;

    assert_eq!(send(&app, &format!("/aws/none{INVOKE}"), &wanted(4)).await.json()["allowed"], true);
}
