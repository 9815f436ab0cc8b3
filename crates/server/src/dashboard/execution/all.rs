//! The page of the executions of all jobs, the newest first.

use super::list::Executions;
use super::view::ExecutionsView;
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::panel;
use crate::dashboard::region::Page;
use crate::problem::Problem;
use axum::response::Html;
use maud::html;
use serde::Deserialize;

/// What is wanted of the list. A field that was left empty is as if it were not there.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExecutionQuery {
    #[serde(default)]
    status: String,
    before: Option<i64>,
}

pub(crate) async fn all(
    visit: PageContext,
    QueryString(wanted): QueryString<ExecutionQuery>,
) -> Result<Html<String>, Problem> {
    let view = ExecutionsView::new("", &wanted.status, None, wanted.before);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let executions = Executions::read(&mut tx, &view).await?;
    let table = executions.markup(&visit.state, &visit.times(common.now));
    let content = html! {
        h1 { "Executions" }
        (panel("executions", "Of all jobs", &html! { span.soft { "The newest first." } }, &table))
    };
    let (section, page) = (Section::Jobs, Page::Executions(view));
    let frame = Frame { visit: &visit, common: &common, section, title: Some("Executions"), page };
    Ok(frame.render(&content))
}
