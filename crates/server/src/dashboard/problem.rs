//! The error page, in the words of the API.

use crate::dashboard::frame::alone;
use crate::dashboard::page_context::home;
use crate::dashboard::part::sentence;
use crate::dashboard::preferences::{Preferences, is_ours};
use crate::problem::Problem;
use crate::state::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::html;

/// Where a visitor who followed a wrong address can search.
const SEARCHES: [(&str, &str); 5] = [
    ("/jobs", "jobs"),
    ("/executions", "executions"),
    ("/outbox/failed", "failed events"),
    ("/render", "renders"),
    ("/settings/audit", "audit log"),
];

/// A page with the problem, its code and its remedy. `headers` are those of the request.
pub(crate) fn page(state: &State, headers: &HeaderMap, problem: &Problem) -> Response {
    let title = sentence(problem.code().title());
    let content = html! {
        section.panel {
            h1 { (title) }
            p { (sentence(problem.detail())) "." }
            p { b { "What to do: " } (problem.remedy()) "." }
            dl {
                dt { "Code" } dd { code { (problem.code()) } }
                dt { "Status" } dd { (problem.status().as_u16()) }
                @if let Some(id) = problem.request_id() {
                    dt { "Request" } dd { code { (id) } }
                }
            }
            p {
                @if let Some(back) = origin(state, headers) { a href=(back) { "Back" } " · " }
                a href=(home(state)) { "Go to the overview" }
            }
            @if problem.status() == StatusCode::NOT_FOUND {
                p {
                    "Search: "
                    @for (place, (path, name)) in SEARCHES.into_iter().enumerate() {
                        @if place > 0 { " · " }
                        a href=(state.path(path)) { (name) }
                    }
                }
            }
        }
    };
    let html = alone(state, &title, Preferences::of(headers), &content);
    let mut response = (problem.status(), html).into_response();
    // Only the JSON response of the problem knows Retry-After.
    if let Some(wait) = problem.clone().into_response().headers_mut().remove(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, wait);
    }
    response
}

/// The page that linked here, if it is ours.
fn origin(state: &State, headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (_, address) = text(header::REFERER)?.split_once("://")?;
    let path = address.strip_prefix(text(header::HOST)?)?;
    is_ours(&home(state), path).then(|| path.to_owned())
}
