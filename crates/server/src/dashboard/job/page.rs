//! The page of all jobs: the filter and the live table.

use super::list::{COLUMNS, Jobs};
use super::state::JobState;
use super::view::JobsView;
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{panel, wide_table};
use crate::dashboard::region::Page;
use crate::problem::Problem;
use axum::response::Html;
use maud::{Markup, html};

pub(crate) async fn jobs(
    visit: PageContext,
    QueryString(view): QueryString<JobsView>,
) -> Result<Html<String>, Problem> {
    let view = view.normalized();
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let jobs = Jobs::read(&visit.state, &mut tx, &view, common.now).await?;
    let list = jobs.region(&visit.state, &visit.times(common.now));
    let aside = html! {
        span.soft { "Failed jobs come first." }
        " "
        a href=(visit.state.path("/executions")) { "All executions" }
    };
    let content = html! {
        h1 { "Jobs" }
        (filter(&visit, &view))
        (panel("jobs", "All jobs", &aside, &wide_table("Jobs", COLUMNS, &list.markup())))
    };
    let page = Page::Jobs(view);
    let frame = Frame { visit: &visit, common: &common, section: Section::Jobs, title: None, page };
    Ok(frame.render(&content))
}

fn filter(visit: &PageContext, view: &JobsView) -> Markup {
    let address = visit.state.path("/jobs");
    html! {
        form.filter method="get" action=(address) role="search" {
            label { "Name" input name="text" type="search" value=(view.text()) maxlength="100" autocomplete="off"; }
            label {
                "Last execution"
                select name="status" {
                    option value="" { "any" }
                    @for state in JobState::ALL {
                        option value=(state.as_str()) selected[view.state() == Some(state)] {
                            (state.label())
                        }
                    }
                }
            }
            button.do { "Show" }
            @if !view.is_everything() { a href=(address) { "All" } }
        }
    }
}
