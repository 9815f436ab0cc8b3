//! The page of all jobs. Its table changes by itself; the filter is the visitor's own.

use super::list::{COLUMNS, Jobs};
use super::standing::Standing;
use super::view::JobsView;
use crate::api::Asked;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::part::{panel, wide_table};
use crate::dashboard::pulse::Pulse;
use crate::dashboard::region::Page;
use crate::dashboard::visit::Visit;
use crate::problem::Problem;
use axum::response::Html;
use maud::{Markup, html};

pub(crate) async fn jobs(visit: Visit, Asked(view): Asked<JobsView>) -> Result<Html<String>, Problem> {
    let view = view.sane();
    let (pulse, mut tx) = Pulse::read(&visit.state).await?;
    let jobs = Jobs::read(&visit.state, &mut tx, &view, pulse.now).await?;
    let list = jobs.region(&visit.state, &visit.times(pulse.now));
    let aside = html! {
        span.soft { "Those that failed come first." }
        " "
        a href=(visit.state.path("/executions")) { "All executions" }
    };
    let content = html! {
        h1 { "Jobs" }
        (filter(&visit, &view))
        (panel("jobs", "All jobs", &aside, &wide_table("Jobs", COLUMNS, &list.markup())))
    };
    let page = Page::Jobs(view);
    let frame = Frame { visit: &visit, pulse: &pulse, section: Section::Jobs, title: None, page };
    Ok(frame.render(&content))
}

fn filter(visit: &Visit, view: &JobsView) -> Markup {
    let address = visit.state.path("/jobs");
    html! {
        form.filter method="get" action=(address) role="search" {
            label { "Name" input name="text" type="search" value=(view.text()) maxlength="100" autocomplete="off"; }
            label {
                "Last execution"
                select name="status" {
                    option value="" { "any" }
                    @for standing in Standing::ALL {
                        option value=(standing.as_str()) selected[view.standing() == Some(standing)] {
                            (standing.choice())
                        }
                    }
                }
            }
            button.do { "Show" }
            @if !view.is_everything() { a href=(address) { "All" } }
        }
    }
}
