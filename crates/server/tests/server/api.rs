//! The API for programs.

use crate::App;
use crate::dashboard::render::composition;
use axum::http::{Method, StatusCode};
use tidemill_domain::audit::Role;
use tidemill_server::access::Authentication;
use tidemill_server::api::Api;
use utoipa::OpenApi;

#[tokio::test]
async fn health_is_told_to_everybody() {
    let app = App::closed().await;
    for path in ["/healthz/live", "/healthz/ready", "/healthz/startup"] {
        assert_eq!(app.ask(Method::GET, path, &[], "").await.status, StatusCode::OK, "{path}");
    }
    let health = app.ask(Method::GET, "/health", &[], "").await.json();
    let keys: Vec<&String> = health.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "status",
            "worker_id",
            "process_id",
            "uptime_seconds",
            "current_job_id",
            "last_poll",
            "job_count_completed",
            "render"
        ]
    );
    assert_eq!((&health["status"], &health["render"]), (&"ok".into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn lists_tell_what_is_there() {
    let app = App::closed().await;
    let processes = app.ask_as(Role::Viewer, Method::GET, "/api/v1/processes", "").await.json();
    assert_eq!(processes["items"][0]["name"], "node-a");
    assert_eq!(processes["items"][0]["state"], "live");
    let leases = app.ask_as(Role::Viewer, Method::GET, "/api/v1/leases", "").await.json();
    assert_eq!(leases["items"], serde_json::json!([]));
}

#[tokio::test]
async fn the_audit_log_is_read_page_by_page() {
    let app = App::closed().await;
    for role in [Role::Viewer, Role::Operator, Role::Admin, Role::Worker] {
        app.token(role).await;
    }
    let (mut path, mut seen) = ("/api/v1/audit?limit=2".to_owned(), Vec::new());
    loop {
        let page = app.ask_as(Role::Viewer, Method::GET, &path, "").await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|entry| entry["id"].as_i64().unwrap()));
        let Some(next) = page["next"].as_i64() else { break };
        path = format!("/api/v1/audit?limit=2&before={next}");
    }

    assert!(seen.len() >= 5 && seen.windows(2).all(|pair| pair[0] > pair[1]), "{seen:?}");
    let filtered =
        app.ask_as(Role::Viewer, Method::GET, "/api/v1/audit?action=process.start", "").await.json();
    assert_eq!(filtered["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_is_created_used_and_revoked() {
    let app = App::closed().await;
    let body = r#"{"name":"etl","role":"viewer","scopes":["pool/etl*"],"days":7}"#;
    let created = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let secret = created.json()["secret"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {secret}");
    let look =
        async || app.ask(Method::GET, "/api/v1/processes", &[("authorization", &bearer)], "").await.status;
    assert_eq!(look().await, StatusCode::OK);
    let listed = app.ask_as(Role::Admin, Method::GET, "/api/v1/tokens", "").await;
    assert!(listed.text.contains("pool/etl*") && !listed.text.contains(&secret));

    let id = created.json()["token"]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/tokens/{id}");
    assert_eq!(app.ask_as(Role::Admin, Method::DELETE, &path, "").await.status, StatusCode::OK);
    assert_eq!(look().await, StatusCode::UNAUTHORIZED);
    let again = app.ask_as(Role::Admin, Method::DELETE, &path, "").await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::NOT_FOUND, &"TM0508".into()));
    let log =
        app.ask_as(Role::Admin, Method::GET, "/api/v1/audit?action=token.create&actor=the%20admin", "").await;
    assert_eq!(log.json()["items"][0]["object"], format!("token/{id}"));
    assert_eq!(log.json()["items"][0]["request_id"].as_str().unwrap().len(), 32);
}

#[tokio::test]
async fn the_same_key_has_one_effect_and_one_answer() {
    let app = App::closed().await;
    let bearer = format!("Bearer {}", app.token(Role::Admin).await);
    let send = async |key: &str, body: &str| {
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
        app.ask(Method::POST, "/api/v1/tokens", &headers, body).await
    };
    let body = r#"{"name":"once","role":"viewer"}"#;

    let (first, second) = (send("k1", body).await, send("k1", body).await);

    assert_eq!((first.status, second.status), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(first.json()["token"], second.json()["token"]);
    assert!(first.json()["secret"].is_string() && second.json()["secret"].is_null());
    let other = send("k1", r#"{"name":"other","role":"viewer"}"#).await;
    assert_eq!((other.status, &other.json()["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &"TM0507".into()));
    assert_eq!(send("", body).await.status, StatusCode::BAD_REQUEST);
    let listed = app.ask(Method::GET, "/api/v1/tokens", &[("authorization", &bearer)], "").await;
    assert_eq!(listed.text.matches("\"once\"").count(), 1);
}

#[tokio::test]
async fn everything_moves_below_a_base_path() {
    let app = App::with(Authentication::None, "/tidemill").await;

    assert_eq!(app.ask(Method::GET, "/tidemill/healthz/live", &[], "").await.status, StatusCode::OK);
    assert_eq!(app.ask(Method::GET, "/tidemill/api/v1/processes", &[], "").await.status, StatusCode::OK);
    assert_eq!(app.ask(Method::GET, "/tidemill", &[], "").await.status, StatusCode::OK);
    let slash = app.ask(Method::GET, "/tidemill/", &[], "").await;
    assert_eq!((slash.status, slash.header("location")), (StatusCode::PERMANENT_REDIRECT, "/tidemill"));
    let outside = app.ask(Method::GET, "/healthz/live", &[], "").await;
    assert_eq!((outside.status, &outside.json()["code"]), (StatusCode::NOT_FOUND, &"TM0508".into()));
}

#[tokio::test]
async fn an_alert_is_silenced_for_a_reason_and_heard_again() {
    let app = App::closed().await;
    let path = "/api/v1/alerts/silences";
    let wanted = r#"{"rule":"process_died","minutes":30,"reason":"planned work"}"#;

    let created = app.ask_as(Role::Operator, Method::POST, path, wanted).await;
    assert_eq!((created.status, &created.json()["by"]), (StatusCode::CREATED, &"the operator".into()));
    let without_reason = r#"{"rule":"process_died","minutes":30,"reason":" "}"#;
    assert_eq!(
        app.ask_as(Role::Operator, Method::POST, path, without_reason).await.status,
        StatusCode::BAD_REQUEST
    );
    let end = r#"{"rule":"process_died"}"#;
    assert_eq!(app.ask_as(Role::Operator, Method::DELETE, path, end).await.status, StatusCode::OK);
    assert_eq!(app.ask_as(Role::Operator, Method::DELETE, path, end).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        app.ask_as(Role::Viewer, Method::GET, "/api/v1/alerts", "").await.json()["items"],
        serde_json::json!([])
    );
}

#[test]
fn the_description_of_the_api_is_the_one_that_was_agreed() {
    let current = serde_json::to_string_pretty(&Api::openapi()).unwrap() + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(file, &current).unwrap();
    }
    let agreed = std::fs::read_to_string(file).unwrap();
    assert_eq!(
        current, agreed,
        "if the change is meant, run with UPDATE_SNAPSHOT=1 and review the difference"
    );
}

#[test]
fn a_parameter_is_in_the_path_exactly_if_the_path_has_a_place_for_it() {
    let described = serde_json::to_value(Api::openapi()).unwrap();
    let mut queries = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let place = format!("{{{}}}", parameter["name"].as_str().unwrap());
                let expected = if path.contains(&place) { "path" } else { "query" };
                assert_eq!(parameter["in"], expected, "{method} {path}: {parameter}");
                queries += usize::from(expected == "query");
            }
        }
    }
    assert!(queries > 0, "no list can be limited");
}

#[test]
fn an_operation_is_called_by_a_verb_and_a_noun() {
    let verbs = "abandon add approve attach cancel change close correct create delete detach edit force_release get import launch list open order pause plan \
                 poll prioritize recover redirect reject release replay request restart resume retry revoke send silence skip stop unsilence";
    let verbs: Vec<&str> = verbs.split_whitespace().collect();
    let described = serde_json::to_value(Api::openapi()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let noun = verbs.iter().find_map(|verb| id.strip_prefix(verb)?.strip_prefix('_'));
            assert!(noun.is_some_and(|noun| !noun.is_empty()), "{method} {path}: {id}");
            assert!(seen.insert(id.to_owned()), "{id} is not unique");
        }
    }
}

/// Sends each example to its operation. What it names may be missing, but the body must be understood.
#[tokio::test]
async fn the_examples_of_request_bodies_are_understood() {
    let app = App::open().await;
    // Of the batch of renders, which is refused if its profile is missing.
    let (profile, rows) =
        (composition::profile("lower-third"), [composition::mapping("lower-third", "Single - title")]);
    composition::know(&app, &[profile], &rows).await;
    let described = serde_json::to_value(Api::openapi()).unwrap();
    let (mut tried, mut wrong) = (0, Vec::new());
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let Some(schema) = body.as_str().map(|body| body.replace("#/components/schemas/", "")) else {
                continue;
            };
            let example = &described["components"]["schemas"][&schema]["example"];
            if schema.starts_with("Items") {
                continue;
            }
            assert!(example.is_object(), "{schema} has no example");
            let path = path.replace("{id}", "1").replace("{name}", "double");
            let path = path.replace("{schema}", "public").replace("{table}", "events");
            let method = method.to_uppercase().parse().unwrap();
            let answer = app.ask(method, &path, &[], &example.to_string()).await;
            // SQLite has no attached tables.
            let is_attached = path.contains("/attached") && answer.json()["code"] != "TM0504";
            if !answer.status.is_success() && !matches!(answer.status.as_u16(), 404 | 409) && !is_attached {
                wrong.push(format!("{path}: {example}: {}", answer.text));
            }
            tried += 1;
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(tried > 25, "{tried}");
}

#[test]
fn every_api_route_is_described() {
    let described = serde_json::to_value(Api::openapi()).unwrap();
    for route in tidemill_server::route::routes().iter().filter(|route| route.path.starts_with("/api/")) {
        let method = route.method.as_str().to_lowercase();
        assert!(described["paths"][route.path][&method].is_object(), "{route:?}");
    }
}
