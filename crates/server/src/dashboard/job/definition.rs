//! The definition of a job on this server.

use crate::dashboard::part::list_table;
use maud::{Markup, html};
use tidemill_api::job::on_crash_text;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_engine::job::{Job, Step};

const STEP_COLUMNS: &[&str] = &["Step", "Type", "Settings"];
const PARAMETER_COLUMNS: &[&str] = &["Parameter", "Type", "Required", "Identifying"];

pub(super) fn of(job: &Job) -> Markup {
    html! {
        dl.body {
            dt { "Restart" } dd { (if job.is_restartable() { "resumes where it ended" } else { "not allowed" }) }
            dt { "When its process dies" } dd { (on_crash_text(job.crash_policy().limit())) }
            @if let Some(definition) = job.definition() { dt { "Fingerprint" } dd { code { (definition) } } }
        }
        (list_table("Steps", STEP_COLUMNS, job.steps().into_iter().map(step_row), &html! { "No steps." }))
        @if !job.parameters().is_empty() {
            (list_table("Parameters", PARAMETER_COLUMNS, job.parameters().iter().map(parameter_row), &html! {}))
        }
    }
}

fn step_row(step: &Step) -> Markup {
    html! {
        tr {
            th scope="row" { (step.name()) }
            td { (step.type_word()) }
            td.long {
                @for (setting, value) in step.describe() { div { span.soft { (setting) ": " } (value) } }
            }
        }
    }
}

fn parameter_row(parameter: &ParameterSpec) -> Markup {
    let yes = |is_true: bool| if is_true { "yes" } else { "no" };
    html! {
        tr {
            th scope="row" { (parameter.name) }
            td { (parameter.kind.as_str()) }
            td { (yes(parameter.is_required)) }
            td { (yes(parameter.is_identifying)) }
        }
    }
}
