//! The definition of a job on this server.

use crate::dashboard::part::table;
use maud::{Markup, html};
use tidemill_api::job::on_crash_text;
use tidemill_engine::job::Job;

const STEP_COLUMNS: &[&str] = &["Step", "Type", "Settings"];
const PARAMETER_COLUMNS: &[&str] = &["Parameter", "Type", "Required", "Identifying"];

pub(super) fn of(job: &Job) -> Markup {
    html! {
        dl.body {
            dt { "Restart" } dd { (if job.is_restartable() { "resumes where it ended" } else { "not allowed" }) }
            dt { "When its process dies" } dd { (on_crash_text(job.crash_policy().limit())) }
            @if let Some(definition) = job.definition() { dt { "Fingerprint" } dd { code { (definition) } } }
        }
        (table("Steps", STEP_COLUMNS, &steps(job)))
        @if !job.parameters().is_empty() { (table("Parameters", PARAMETER_COLUMNS, &parameters(job))) }
    }
}

fn steps(job: &Job) -> Markup {
    html! {
        tbody {
            @for step in job.steps() {
                tr {
                    th scope="row" { (step.name()) }
                    td { (step.type_word()) }
                    td.long {
                        @for (setting, value) in step.describe() { div { span.soft { (setting) ": " } (value) } }
                    }
                }
            }
        }
    }
}

fn parameters(job: &Job) -> Markup {
    let yes = |is_true: bool| if is_true { "yes" } else { "no" };
    html! {
        tbody {
            @for parameter in job.parameters() {
                tr {
                    th scope="row" { (parameter.name) }
                    td { (parameter.kind.as_str()) }
                    td { (yes(parameter.is_required)) }
                    td { (yes(parameter.is_identifying)) }
                }
            }
        }
    }
}
