//! Who may what: every route, every role, and nobody.

use crate::dashboard::Browser;
use crate::{App, Choices};
use axum::http::{Method, StatusCode};
use std::time::Duration;
use tidemill_domain::access::{Permission, ROLES, allows};
use tidemill_domain::audit::{Actor, Role};
use tidemill_server::access::Authentication;
use tidemill_server::route::{Access, Surface, routes};

/// A path that the router matches.
fn example(path: &str) -> String {
    path.replace("{id}", "unknown").replace("{name}", "tidemill.css")
}

/// The stream of live events does not end by itself, so its head is all that is looked at.
async fn status_of(app: &App, method: Method, path: &str, headers: &[(&str, &str)]) -> StatusCode {
    use tower::ServiceExt;
    let mut request =
        axum::http::Request::builder().method(method).uri(path).header("host", "127.0.0.1:7790");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(axum::body::Body::empty()).unwrap();
    app.router.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn every_route_lets_in_exactly_who_may() {
    let app = App::closed().await;
    for route in routes() {
        for role in ROLES {
            let token = app.token(role).await;
            let path = example(route.path).replace("{token}", &token);
            let bearer = format!("Bearer {token}");
            let status = status_of(&app, route.method.clone(), &path, &[("authorization", &bearer)]).await;
            let expected = match route.access {
                Access::Public => true,
                Access::Needs(permission) => allows(role, permission),
            };
            assert_eq!(status != StatusCode::FORBIDDEN, expected, "{role} {route:?}: {status}");
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{role} {route:?}");
        }
    }
}

#[test]
fn who_reads_or_writes_the_payload_of_an_event_administers() {
    let payloads = [
        (Method::POST, "/api/v1/outbox/events"),
        (Method::GET, "/api/v1/outbox/events/{id}"),
        (Method::GET, "/api/v1/outbox/failed/{id}"),
        (Method::POST, "/api/v1/outbox/failed/{id}/edit"),
    ];
    for (method, path) in payloads {
        let route = routes().into_iter().find(|route| route.method == method && route.path == path).unwrap();
        assert_eq!(route.access, Access::Needs(Permission::Administer), "{route:?}");
    }
}

#[tokio::test]
async fn without_credentials_only_public_routes_answer() {
    let app = App::closed().await;
    for route in routes() {
        let status = status_of(&app, route.method.clone(), &example(route.path), &[]).await;
        match (route.access, route.surface) {
            (Access::Public, _) => assert_ne!(status, StatusCode::UNAUTHORIZED, "{route:?}"),
            (Access::Needs(_), Surface::Api | Surface::EmrAgent) => {
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{route:?}");
            }
            (Access::Needs(_), Surface::Lambda) => assert_eq!(status, StatusCode::FORBIDDEN, "{route:?}"),
            (Access::Needs(_), Surface::Page) => assert_eq!(status, StatusCode::SEE_OTHER, "{route:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_not_in_the_table_is_not_there() {
    let app = App::closed().await;
    for path in ["/nothing", "/api/v1/secrets", "/api/v1", "//", "/..%2f..%2fetc/passwd", "/assets/..%2fx"] {
        let answer = app.ask_as(Role::Admin, Method::GET, path, "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    let answer = app.ask_as(Role::Admin, Method::PUT, "/api/v1/processes", "").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.json()["code"], "TM0504");
}

#[tokio::test]
async fn wrong_expired_and_revoked_tokens_are_refused() {
    let app = App::closed().await;
    let good = app.token(Role::Admin).await;
    let ask = async |token: &str| {
        let bearer = format!("Bearer {token}");
        app.ask(Method::GET, "/api/v1/processes", &[("authorization", &bearer)], "").await
    };
    assert_eq!(ask(&good).await.status, StatusCode::OK);

    let mut forged = good.clone();
    forged.replace_range(forged.len() - 1.., if forged.ends_with('a') { "b" } else { "a" });
    let refused = ask(&forged).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(refused.json()["code"], "TM0501");
    assert!(!refused.text.contains(&forged));
    let basic = app.ask(Method::GET, "/api/v1/processes", &[("authorization", "Basic YTpi")], "").await;
    assert_eq!(basic.status, StatusCode::UNAUTHORIZED);

    let id = good.split('_').nth(1).unwrap().to_owned();
    let mut tx = app.store.begin().await.unwrap();
    tx.tokens().revoke(&id, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ask(&good).await.status, StatusCode::UNAUTHORIZED);
    let viewer = app.token(Role::Viewer).await;
    assert_eq!(ask(&viewer).await.status, StatusCode::OK);
    app.clock.advance(Duration::from_secs(86_400));
    assert_eq!(ask(&viewer).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn guessing_is_slowed_down() {
    let app = App::closed().await;
    let guess =
        async || app.ask(Method::GET, "/api/v1/processes", &[("authorization", "Bearer guess")], "").await;

    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(guess().await.status);
    }

    assert_eq!(statuses[0], StatusCode::UNAUTHORIZED);
    assert_eq!(statuses[6], StatusCode::TOO_MANY_REQUESTS);
    let answer = guess().await;
    assert!(answer.header("retry-after").parse::<u64>().unwrap() > 0);
    app.clock.advance(Duration::from_secs(61));
    assert_eq!(guess().await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn whoever_guesses_does_not_take_the_server_out_of_service() {
    let app = App::closed().await;
    for _ in 0..10 {
        app.ask(Method::GET, "/api/v1/processes", &[("authorization", "Bearer guess")], "").await;
    }

    for path in ["/healthz/live", "/healthz/ready", "/login"] {
        assert_eq!(app.ask(Method::GET, path, &[], "").await.status, StatusCode::OK, "{path}");
    }
    // Behind a proxy all have one address.
    let token = format!("Bearer {}", app.token(Role::Viewer).await);
    let right = app.ask(Method::GET, "/api/v1/processes", &[("authorization", &token)], "").await;
    assert_eq!(right.status, StatusCode::OK, "{}", right.text);
}

#[tokio::test]
async fn a_token_is_slowed_down_and_programs_on_this_host_without_authentication_are_not() {
    let choices = || Choices { per_caller: Some(3), ..Choices::default() };
    let closed = App::choosing(Authentication::Required { issuers: Vec::new() }, "", choices()).await;
    let open = App::choosing(Authentication::None, "", choices()).await;
    let path = "/api/v1/processes";

    for _ in 0..3 {
        assert_eq!(closed.ask_as(Role::Viewer, Method::GET, path, "").await.status, StatusCode::OK);
    }
    let refused = closed.ask_as(Role::Viewer, Method::GET, path, "").await.status;
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    for _ in 0..10 {
        assert_eq!(open.ask(Method::GET, path, &[], "").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_nul_in_an_address_is_refused_and_not_a_failure() {
    let app = App::open().await;

    for path in ["/api/v1/audit?actor=a%00b", "/api/v1/outbox/events?topic=%00", "/render?composition=%00"] {
        assert_eq!(app.ask(Method::GET, path, &[], "").await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let path = "/api/v1/tokens/%00";
    assert_eq!(app.ask(Method::DELETE, path, &[], "").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn who_only_reads_does_not_wait_for_whoever_writes() {
    let app = App::closed().await;
    let browser = Browser::log_in(&app, Role::Viewer).await;
    app.clock.advance(Duration::from_secs(120));
    let mut writer = app.store.begin().await.unwrap();
    writer.processes().prune(Duration::ZERO, 1).await.unwrap();

    let page = browser.get("/jobs").await;
    let guessed = format!("token=tm_{}_{}", "a".repeat(8), "b".repeat(43));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let guess = app.ask(Method::POST, "/login", &form, &guessed).await;

    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert_eq!(guess.status, StatusCode::UNAUTHORIZED, "{}", guess.text);
    writer.rollback().await.unwrap();
}

#[tokio::test]
async fn a_limited_token_does_not_reach_beyond_its_scopes() {
    let app = App::closed().await;
    let body = r#"{"name":"limited","role":"admin","scopes":["pool/etl*","alert/process_died"]}"#;
    let created = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", body).await.json();
    let bearer = format!("Bearer {}", created["secret"].as_str().unwrap());
    let ask = async |method, path: &str, body: &str| {
        app.ask(method, path, &[("authorization", &bearer)], body).await
    };

    let more = ask(Method::POST, "/api/v1/tokens", r#"{"name":"more","role":"admin"}"#).await;
    assert_eq!((more.status, &more.json()["code"]), (StatusCode::FORBIDDEN, &"TM0502".into()));
    assert_eq!(ask(Method::DELETE, "/api/v1/tokens/whichever", "").await.status, StatusCode::FORBIDDEN);
    let form = "form_token=&name=more&role=admin&scopes=&days=1&key=";
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    let by_form = app.ask(Method::POST, "/settings/tokens", &headers, form).await;
    assert_eq!(by_form.status, StatusCode::FORBIDDEN, "{}", by_form.text);
    let silence = |rule: &str| format!(r#"{{"rule":"{rule}","minutes":5,"reason":"planned work"}}"#);
    let path = "/api/v1/alerts/silences";
    assert_eq!(ask(Method::POST, path, &silence("database_slow")).await.status, StatusCode::FORBIDDEN);
    assert_eq!(ask(Method::POST, path, &silence("process_died")).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn nobody_hands_on_more_than_they_have() {
    let app = App::closed().await;
    let body = r#"{"name":"keeper","role":"admin","scopes":["token/team*","pool/etl*"]}"#;
    let created = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", body).await.json();
    let bearer = format!("Bearer {}", created["secret"].as_str().unwrap());
    for (scopes, status) in [
        ("[]", StatusCode::FORBIDDEN),
        (r#"["pool/*"]"#, StatusCode::FORBIDDEN),
        (r#"["pool/etl-night*"]"#, StatusCode::CREATED),
    ] {
        let body = format!(r#"{{"name":"team-b","role":"admin","scopes":{scopes}}}"#);
        let answer = app.ask(Method::POST, "/api/v1/tokens", &[("authorization", &bearer)], &body).await;
        assert_eq!(answer.status, status, "{scopes}: {}", answer.text);
    }
}

#[tokio::test]
async fn another_site_cannot_act_in_the_name_of_whoever_has_us_open() {
    let app = App::open().await;
    let create = r#"{"name":"x","role":"viewer"}"#;

    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
    ] {
        let answer = app.ask(Method::POST, "/api/v1/tokens", headers, create).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert_eq!(answer.json()["code"], "TM0503");
    }
    let own = &[("sec-fetch-site", "same-origin")];
    assert_eq!(app.ask(Method::POST, "/api/v1/tokens", own, create).await.status, StatusCode::CREATED);
    // A form of another site can send text, but not JSON without asking first.
    let text = &[("content-type", "text/plain")];
    assert_eq!(
        app.ask(Method::POST, "/api/v1/tokens", text, create).await.status,
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
}

#[tokio::test]
async fn an_open_server_cannot_be_reached_under_a_foreign_name() {
    let app = App::open().await;
    let request = axum::http::Request::builder().uri("/api/v1/processes").header("host", "evil.example");

    let answer = app.send(request.body(axum::body::Body::empty()).unwrap()).await;

    assert_eq!((answer.status, &answer.json()["code"]), (StatusCode::FORBIDDEN, &"TM0512".into()));
    let (detail, remedy) = (answer.json()["detail"].to_string(), answer.json()["remedy"].to_string());
    assert!(detail.contains("`evil.example`") && !detail.contains("came from"), "{detail}");
    assert!(remedy.contains("server.auth"), "{remedy}");
}

/// Browsers say where a form was only by `Origin`, where the address is neither loopback nor encrypted.
#[tokio::test]
async fn a_form_of_our_own_page_is_taken_over_plain_http_and_one_of_another_site_is_not() {
    let app = App::closed().await;
    let token = app.token(Role::Viewer).await;
    for (origin, status) in [
        ("http://10.0.0.5:7790", StatusCode::SEE_OTHER),
        ("http://evil.example", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
    ] {
        let form = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("host", "10.0.0.5:7790"),
            ("origin", origin),
        ];
        let answer = app.ask(Method::POST, "/login", &form, &format!("token={token}")).await;
        assert_eq!(answer.status, status, "{origin}: {}", answer.text);
    }
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_protect_browsers() {
    let app = App::closed().await;
    for path in ["/", "/login", "/healthz/live", "/nothing", "/api/v1/processes"] {
        let answer = app.ask(Method::GET, path, &[], "").await;
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(answer.header("x-request-id").len(), 32, "{path}");
    }
}
