//! The page for what went wrong: the same that programs are told, in the same words.

use crate::dashboard::frame::alone;
use crate::dashboard::preferences::Preferences;
use crate::dashboard::visit::home;
use crate::problem::Problem;
use crate::state::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use maud::html;

/// A page with the code, what went wrong, and what can be done about it. The status is kept.
pub(crate) fn page(state: &State, problem: &Problem) -> Response {
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
            p { a href=(home(state)) { "Go to the overview" } }
        }
    };
    let html = alone(state, &title, Preferences::of(&HeaderMap::new()), &content);
    let mut response = (problem.status(), html).into_response();
    // When to come back is known to the problem's own answer only.
    if let Some(wait) = problem.clone().into_response().headers_mut().remove(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, wait);
    }
    response
}

/// With a capital at its beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
