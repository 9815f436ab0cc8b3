//! What went wrong, as people are shown it: on a page, with the way back.

use super::Browser;
use crate::App;
use axum::http::{Method, StatusCode};
use tidemill_domain::audit::Role;
use tidemill_server::access::Authentication;

#[tokio::test]
async fn errors_are_pages_with_code_remedy_and_request() {
    let app = App::closed().await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;

    let answer = viewer.get("/settings/configuration").await;

    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.header("content-type").starts_with("text/html"));
    assert!(answer.text.contains("TM0502") && answer.text.contains("What to do: "));
    assert!(answer.text.contains(answer.header("x-request-id")));
}

#[tokio::test]
async fn a_mistyped_address_is_a_page_for_people_and_a_document_for_programs() {
    let app = App::open().await;
    let from =
        [("accept", "text/html,*/*"), ("host", "localhost"), ("referer", "http://localhost/jobs?text=a")];

    for (method, path, status) in [
        (Method::GET, "/jbos", StatusCode::NOT_FOUND),
        (Method::GET, "/action", StatusCode::NOT_FOUND),
        (Method::GET, "/executions/5/restart", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let page = app.ask(method.clone(), path, &from, "").await;
        assert_eq!(page.status, status, "{path}");
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
        assert!(page.text.contains("href=\"/jobs?text=a\">Back"), "{path}: {}", page.text);
        let document = app.ask(method, path, &[], "").await;
        assert!(document.header("content-type").starts_with("application/problem+json"), "{path}");
    }
    let api = app.ask(Method::GET, "/api/v1/jbos", &from, "").await;
    assert!(api.header("content-type").starts_with("application/problem+json"));
    for elsewhere in
        ["http://evil.example/jobs", "http://localhost.evil/x", "nonsense", "http://localhost//evil"]
    {
        let page = app
            .ask(
                Method::GET,
                "/jbos",
                &[("accept", "text/html"), ("host", "localhost"), ("referer", elsewhere)],
                "",
            )
            .await;
        assert!(!page.text.contains(">Back<"), "{elsewhere}");
    }
}

#[tokio::test]
async fn an_error_page_speaks_to_people_and_says_where_to_search() {
    let app = App::with(Authentication::None, "/mill").await;
    let page = [("accept", "text/html"), ("host", "localhost")];
    let open = async |path: &str| app.ask(Method::GET, path, &page, "").await;

    let missing = open("/mill/jbos").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.text.contains("There is no page /mill/jbos"), "{}", missing.text);
    for link in ["/mill", "/mill/jobs", "/mill/outbox/failed", "/mill/render"] {
        assert!(missing.text.contains(&format!("href=\"{link}\"")), "{link}: {}", missing.text);
    }
    let long = open(&format!("/mill/{}", "x".repeat(5000))).await;
    assert!(long.text.len() < 4000, "{}", long.text);
    let unknown = open("/mill/executions/99").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    for (path, status) in [
        ("/mill/executions/5/restart", StatusCode::METHOD_NOT_ALLOWED),
        ("/mill/executions?before=x", StatusCode::BAD_REQUEST),
    ] {
        let refused = open(path).await;
        assert_eq!(refused.status, status, "{path}");
        assert!(!refused.text.contains("openapi"), "{path}: {}", refused.text);
    }
    for refused in [missing, long, unknown] {
        assert!(!refused.text.contains("openapi"), "{}", refused.text);
    }
}

#[tokio::test]
async fn what_answers_a_form_is_neither_fetched_again_nor_a_place_to_come_back_to() {
    let app = App::open().await;
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("cookie", "tidemill_reload=on")];

    let answer = app.ask(Method::POST, "/jobs/double/run", &headers, "parameters=nonsense").await;

    assert!(answer.status.is_client_error() && answer.text.contains("<main"), "{answer:?}");
    assert!(!answer.text.contains("http-equiv=\"refresh\""));
    assert!(answer.text.contains("name=\"back\" value=\"/jobs/double\""), "{}", answer.text);
}
