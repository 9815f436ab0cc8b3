//! HTTP requests, as a function URL and API Gateway pass them to the function.

use crate::emulator::Emulator;
use crate::{LONG, Site};
use serde_json::{Value, json};
use tidemill_domain::access::Token;
use tidemill_domain::audit::{Actor, Role};
use tidemill_store::token::NewToken;

/// Status and body of the answer.
fn ask(emulator: &Emulator, method: &str, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut headers =
        json!({ "content-type": "application/json", "host": "x.lambda-url.ap-northeast-2.on.aws" });
    if let Some(token) = token {
        headers["authorization"] = json!(format!("Bearer {token}"));
    }
    let answer = emulator.invoke(&json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": format!("/prod{path}"),
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "http": { "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7" },
            "stage": "prod",
        },
        "body": body.to_string(),
        "isBase64Encoded": false,
    }));
    assert_eq!(
        (&answer["isBase64Encoded"], answer["headers"].is_object()),
        (&json!(false), true),
        "{answer}"
    );
    let status = answer["statusCode"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    let body = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap_or(Value::Null);
    (status.try_into().unwrap(), body)
}

async fn token(site: &Site, role: Role) -> String {
    let token = Token::from_random(&[role as u8 + 1; 16], &[role as u8 + 1; 32]);
    let new = NewToken { name: format!("the {role}"), role, scopes: Vec::new(), valid_for: None };
    let mut tx = site.store.begin().await.unwrap();
    tx.tokens().create(&token, &new, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    token.expose()
}

fn request(run: &str, parallel: u32, wait: u32) -> Value {
    let holder = json!({ "dag_id": "batch_001", "run_id": run });
    json!({ "pools": [{ "pool": "ADW", "parallel": parallel }], "holder": holder, "wait_seconds": wait })
}

#[tokio::test]
async fn the_pool_api_is_served_to_those_with_a_token() {
    let Some(site) = Site::new().await else { return };
    let (requester, viewer) = (token(&site, Role::Requester).await, token(&site, Role::Viewer).await);
    let emulator = site.start(LONG);
    let requests = "/api/v1/requests";

    for wrong in [None, Some("tm_nobody_knows")] {
        let (status, problem) = ask(&emulator, "POST", requests, wrong, &request("run-1", 8, 0));
        assert_eq!((status, &problem["code"]), (401, &json!("TM0501")), "{problem}");
    }
    let (status, problem) = ask(&emulator, "POST", requests, Some(&viewer), &request("run-1", 8, 0));
    assert_eq!((status, &problem["code"]), (403, &json!("TM0502")), "{problem}");
    assert_eq!(site.usage().await, 0);

    let (status, granted) = ask(&emulator, "POST", requests, Some(&requester), &request("run-1", 8, 0));
    assert_eq!((status, &granted["state"], site.usage().await), (200, &json!("running"), 8), "{granted}");
    let (status, shown) =
        ask(&emulator, "GET", "/api/v1/pools/ADW/holders?limit=5", Some(&viewer), &Value::Null);
    assert_eq!((status, shown["items"].as_array().map(Vec::len)), (200, Some(1)), "{shown}");
    let lease = &granted["leases"][0];
    let path = format!("/api/v1/pool-leases/{}?epoch={}", lease["id"].as_str().unwrap(), lease["epoch"]);
    let (status, released) = ask(&emulator, "DELETE", &path, Some(&requester), &Value::Null);
    assert_eq!((status, site.usage().await), (200, 0), "{released}");
}

#[tokio::test]
async fn the_rest_of_a_server_is_not_there() {
    let Some(site) = Site::new().await else { return };
    let admin = token(&site, Role::Admin).await;
    let emulator = site.start(LONG);

    for path in ["/api/v1/jobs", "/api/v1/processes", "/metrics", "/pools", "/login", "/api/v1/tokens"] {
        let (status, problem) = ask(&emulator, "GET", path, Some(&admin), &Value::Null);
        assert_eq!((status, &problem["code"]), (404, &json!("TM0508")), "{path}: {problem}");
    }
    let (status, pools) = ask(&emulator, "GET", "/api/v1/pools", Some(&admin), &Value::Null);
    assert_eq!((status, &pools["items"][0]["name"]), (200, &json!("ADW")), "{pools}");
    assert_eq!(ask(&emulator, "GET", "/healthz/ready", None, &Value::Null).0, 200);
}

#[tokio::test]
async fn a_request_that_waits_is_answered_before_the_timeout_of_the_function() {
    let Some(site) = Site::new().await else { return };
    let requester = token(&site, Role::Requester).await;
    let emulator = site.start(12);
    let ask = |body: &Value| ask(&emulator, "POST", "/api/v1/requests", Some(&requester), body);
    assert_eq!(ask(&request("run-1", 949, 0)).0, 200);

    let (status, waits) = ask(&request("run-2", 8, 50));

    assert_eq!((status, &waits["state"]), (202, &json!("waiting")), "{waits}");
}

#[tokio::test]
async fn no_token_is_in_the_log() {
    let Some(site) = Site::new().await else { return };
    let requester = token(&site, Role::Requester).await;
    let variables = [("TIDEMILL_DATABASE_URL", site.scratch.url()), ("TIDEMILL_LOG_LEVEL", "trace")];
    let emulator = Emulator::start(&site.emulator, LONG, &variables);

    let (status, granted) =
        ask(&emulator, "POST", "/api/v1/requests", Some(&requester), &request("run-1", 8, 0));

    assert_eq!(status, 200, "{granted}");
    assert!(!emulator.log().contains(&requester), "{}", emulator.log());
}
