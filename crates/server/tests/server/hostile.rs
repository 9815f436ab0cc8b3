//! Input that was not written in good faith.

use crate::App;
use axum::http::{Method, StatusCode};
use serde_json::json;
use tidemill_domain::audit::Role;
use tidemill_server::route::{Surface, routes};

const HOSTILE: &[&str] = &[
    "'; drop table tidemill_token; --",
    "\" or 1=1 --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "\u{202e}gnol",
    "a\u{0}b",
    "\u{1b}[31m",
    "%00%0d%0aset-cookie: x=y",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "정산 \"x\" $1 \\",
];

#[tokio::test]
async fn hostile_text_in_any_field_is_data_or_refused() {
    let app = App::closed().await;
    for text in HOSTILE {
        for body in [
            json!({ "name": text, "role": "viewer" }),
            json!({ "name": "n", "role": text }),
            json!({ "name": "n", "role": "viewer", "scopes": [text] }),
            json!({ "name": "n", "role": "viewer", text.to_owned(): 1 }),
        ] {
            let answer = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", &body.to_string()).await;
            let is_fine = matches!(
                answer.status,
                StatusCode::CREATED | StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
            );
            assert!(is_fine, "{body}: {answer:?}");
            assert!(!answer.text.contains("sqlx") && !answer.text.contains("panicked"), "{answer:?}");
        }
        let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for name in ["actor", "action", "object", "since", "before", "limit", "unknown"] {
            let path = format!("/api/v1/audit?{name}={query}");
            let answer = app.ask_as(Role::Viewer, Method::GET, &path, "").await;
            assert!(matches!(answer.status, StatusCode::OK | StatusCode::BAD_REQUEST), "{path}: {answer:?}");
        }
        let path = format!("/api/v1/tokens/{query}");
        let answer = app.ask_as(Role::Admin, Method::DELETE, &path, "").await;
        assert!(
            matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST),
            "{path}: {answer:?}"
        );
    }
    assert_eq!(app.ask_as(Role::Admin, Method::GET, "/api/v1/tokens", "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn malformed_and_oversized_bodies_get_the_right_status() {
    let app = App::closed().await;
    for (body, status) in [
        ("{", StatusCode::BAD_REQUEST),
        ("[]", StatusCode::UNPROCESSABLE_ENTITY),
        ("{\"name\":1}", StatusCode::UNPROCESSABLE_ENTITY),
        (&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), StatusCode::UNPROCESSABLE_ENTITY),
        (&format!("{{\"scopes\":{}", "[".repeat(100_000)), StatusCode::UNPROCESSABLE_ENTITY),
        (&format!("{{\"name\":\"{}\"}}", "x".repeat(2 << 20)), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let answer = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let problem = answer.json();
        for field in ["type", "title", "detail", "code", "remedy", "request_id"] {
            assert!(problem[field].is_string(), "{field}: {problem}");
        }
        assert_eq!(problem["status"], status.as_u16());
    }
}

#[tokio::test]
async fn lists_are_bounded() {
    let app = App::closed().await;
    for limit in ["0", "501", "-1", "x", "99999999999999"] {
        let path = format!("/api/v1/processes?limit={limit}");
        let answer = app.ask_as(Role::Viewer, Method::GET, &path, "").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{limit}");
    }
}

/// The fields of all forms and addresses of the dashboard.
const FIELDS: &[&str] = &[
    "accept_change",
    "action",
    "actor",
    "after",
    "aggregate_id",
    "aggregate_type",
    "all",
    "back",
    "batch",
    "before",
    "broadcast_date",
    "composition",
    "confirm",
    "count",
    "csv",
    "cue_item",
    "data",
    "date",
    "days",
    "deadline",
    "done",
    "error",
    "event_type",
    "format",
    "hours",
    "how",
    "id",
    "instance",
    "instances_before",
    "key",
    "lines",
    "map",
    "max_units",
    "name",
    "number",
    "object",
    "parameter.day",
    "paused",
    "policy",
    "priority",
    "range",
    "read_only",
    "reason",
    "resumed",
    "revision",
    "role",
    "rule",
    "scopes",
    "shortcuts",
    "show",
    "slot",
    "state",
    "status",
    "subject",
    "tab",
    "text",
    "theme",
    "threshold_percent",
    "time",
    "token",
    "topic",
];
/// Those without which a form is refused before anything else of it is read.
const NUMBERS: [(&str, &str); 10] = [
    ("broadcast_date", ""),
    ("deadline", ""),
    ("map", ""),
    ("priority", "1"),
    ("days", "1"),
    ("hours", "1"),
    ("max_units", "10"),
    ("threshold_percent", "95"),
    ("number", "1"),
    ("confirm", "1"),
];

/// All fields with this value; `known` have theirs.
fn fields(value: &str, known: &[(&str, &str)]) -> String {
    let given =
        |name: &str| known.iter().find(|(field, _)| *field == name).map_or(value, |(_, value)| *value);
    FIELDS.iter().map(|name| format!("{name}={}", given(name))).collect::<Vec<_>>().join("&")
}

/// A route with this in place of every name in its path.
fn filled(path: &str, value: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { value.to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn hostile_text_in_any_form_or_address_is_shown_as_text_or_refused() {
    let app = App::open().await;
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let pages: Vec<_> = routes().into_iter().filter(|route| route.surface == Surface::Page).collect();
    assert!(pages.len() > 50);
    for text in HOSTILE {
        let value: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for route in &pages {
            for path in [filled(route.path, "1"), filled(route.path, &value)] {
                for fields in [fields(&value, &[]), fields(&value, &NUMBERS)] {
                    let answer = if route.method == Method::GET {
                        app.ask(Method::GET, &format!("{path}?{fields}"), &[], "").await
                    } else {
                        app.ask(route.method.clone(), &path, &form, &fields).await
                    };
                    assert!(!answer.status.is_server_error(), "{path} {text:?}: {answer:?}");
                    let is_page = answer.header("content-type").starts_with("text/html");
                    assert!(
                        !is_page || !answer.text.contains("<script>alert"),
                        "{path} shows {text:?} as it is"
                    );
                    let address = answer.header("location");
                    assert!(
                        address.is_empty() || address.starts_with('/') && !address.starts_with("//"),
                        "{path}: {address}"
                    );
                }
            }
        }
    }
    let away = fields(
        "https%3A%2F%2Fevil.example%2F",
        &[("theme", "dark"), ("time", "utc"), ("read_only", "on"), ("shortcuts", "on")],
    );
    let away = app.ask(Method::POST, "/settings/preferences", &form, &away).await;
    assert_eq!((away.status, away.header("location")), (StatusCode::SEE_OTHER, "/settings"), "{away:?}");
}
