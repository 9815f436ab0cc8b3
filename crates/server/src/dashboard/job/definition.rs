//! What a job is made of, as this server has it.

use crate::dashboard::part::table;
use maud::{Markup, html};
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_engine::job::Job;

const STEP_COLUMNS: &[&str] = &["Step", "Type", "How it is made"];
const PARAMETER_COLUMNS: &[&str] = &["Parameter", "Type", "Needed", "Tells instances apart"];

pub(super) fn of(job: &Job) -> Markup {
    html! {
        dl.body {
            dt { "Restart" } dd { (if job.is_restartable() { "where it ended" } else { "not allowed" }) }
            dt { "When its process dies" } dd { (on_crash(job.crash_policy())) }
            @if let Some(definition) = job.definition() { dt { "Fingerprint" } dd { code { (definition) } } }
        }
        (table("Steps", STEP_COLUMNS, &steps(job)))
        @if !job.parameters().is_empty() { (table("Parameters", PARAMETER_COLUMNS, &parameters(job))) }
    }
}

fn on_crash(policy: OnCrash) -> String {
    match policy {
        OnCrash::Fail => "it fails, and a person decides".to_owned(),
        OnCrash::Restart { limit } => format!("it is restarted by itself, {limit} times in a row at most"),
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
                        @for (what, said) in step.describe() { div { span.soft { (what) ": " } (said) } }
                    }
                }
            }
        }
    }
}

fn parameters(job: &Job) -> Markup {
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
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
