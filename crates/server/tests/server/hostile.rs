//! Input that was not written in good faith.

use crate::App;
use axum::http::{Method, StatusCode};
use serde_json::json;
use tidemill_domain::audit::Role;

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

#[tokio::test]
async fn hostile_text_in_any_form_is_shown_as_text_or_refused() {
    let app = App::open().await;
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    for text in HOSTILE {
        let value = escaped(text);
        for (path, body) in [
            ("/settings/tokens", format!("form_token=&name={value}&role=viewer&scopes=&days=1&key=")),
            (
                "/settings/tokens",
                format!("form_token=&name=n&role={value}&scopes={value}&days=1&key={value}"),
            ),
            ("/settings/tokens/x/revoke", format!("form_token=&reason={value}&key=")),
            (
                "/alerts/silence",
                format!("form_token=&rule={value}&subject={value}&hours=1&reason={value}&key="),
            ),
            ("/alerts/unsilence", format!("form_token=&rule={value}&subject={value}&key=")),
            ("/settings/preferences", format!("theme={value}&time={value}&back={value}")),
            ("/login", format!("token={value}")),
        ] {
            let answer = app.ask(Method::POST, path, &form, &body).await;
            assert!(!answer.status.is_server_error(), "{path} {body}: {answer:?}");
            assert!(
                !answer.header("location").contains("evil") && !answer.text.contains("<script>alert"),
                "{path}"
            );
        }
        for path in ["/", "/settings/audit", "/settings/tokens", "/alerts"] {
            let page = app.ask(Method::GET, &format!("{path}?actor={value}&action={value}"), &[], "").await;
            assert!(!page.status.is_server_error(), "{path}: {}", page.status);
            assert!(!page.text.contains("<script>alert"), "{path} shows {text:?} as it is");
        }
    }
    let away = app
        .ask(Method::POST, "/settings/preferences", &form, "theme=dark&back=https%3A%2F%2Fevil.example%2F")
        .await;
    assert!(!away.header("location").contains("evil"), "{away:?}");
}
