//! The form that runs a job. A refused launch shows the form again, with the reason and the values.

use super::detail::{JobPageQuery, show};
use crate::api::job::launch::{LaunchKind, LaunchRequest, launch_job, parameters};
use crate::dashboard::form::{Fields, Pairs, RefusedForm};
use crate::dashboard::part::{command, refusal_banner, unless_refused};
use crate::dashboard::{PageContext, form};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value};
use tidemill_api::execution::JobParameter;
use tidemill_domain::access::Permission;
use tidemill_domain::code::Code;
use tidemill_domain::job::JobParameters;
use tidemill_domain::job::instance::RUN_ID;
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType, parse_arguments};
use tidemill_engine::job::{Job, JobError};

/// Prefix of the fields for declared parameters.
const PARAMETER: &str = "parameter.";
/// The field for parameters of a job that declares none.
const MORE: &str = "more";
/// The button that runs a new instance.
const NEXT: &str = "next";

pub(super) fn form(
    visit: &PageContext,
    name: &str,
    job: &Result<&Job, JobError>,
    refused_run: Option<&RefusedForm>,
) -> Markup {
    let specs = job.as_ref().map_or(&[][..], |job| job.parameters());
    let refusal = match job {
        Ok(_) => visit.refusal_of(Permission::Operate, &format!("job/{name}")),
        Err(error) => Some(error.to_string()),
    };
    let (is_off, fields) = (refusal.is_some(), refused_run.map_or(&[][..], |run| &run.fields));
    let action = format!("{}/run#run", super::list::address(&visit.state, name));
    html! {
        form.body method="post" action=(action) {
            (form::hidden(&visit.principal))
            @if let Some(run) = refused_run { (refusal_banner(&run.problem)) }
            div.fields {
                @for spec in specs { (field(spec, form::field(fields, &format!("{PARAMETER}{}", spec.name)), is_off)) }
                @if specs.is_empty() {
                    label.wide {
                        "Parameters, one per line: NAME=VALUE[,TYPE[,IDENTIFYING]]"
                        textarea name=(MORE) rows="3" disabled[is_off] autocomplete="off" { (form::field(fields, MORE)) }
                    }
                }
                @if refused_run.is_some_and(|run| run.problem.code() == Code::JobChanged) { (accept_change(None)) }
            }
            div.row {
                (unless_refused(refusal.as_deref(), "Run", &html! {
                    button.do { "Run " (name) }
                    button name=(NEXT) value="yes" { "Run as a new instance" }
                    span.soft { "A new instance gets the next run.id. Without it, an instance that completed does not run again." }
                }))
            }
            p.soft { "On the command line: " (command(&command_line(&visit.state, name, specs))) }
        }
    }
}

/// The parameters of an earlier execution as NAME=VALUE,TYPE,IDENTIFYING, without the number of its instance.
pub(crate) fn argument_lines(parameters: &[JobParameter]) -> Vec<String> {
    let given = parameters.iter().filter(|parameter| parameter.name != RUN_ID);
    let line = |JobParameter { name, value, kind, is_identifying }: &JobParameter| {
        format!("{name}={value},{kind},{is_identifying}")
    };
    given.map(line).collect()
}

/// The hidden fields that run a job as a new instance with these parameters.
pub(crate) fn next_fields(parameters: &[JobParameter]) -> Markup {
    html! {
        input type="hidden" name=(NEXT) value="yes";
        input type="hidden" name=(MORE) value=(argument_lines(parameters).join("\n"));
    }
}

/// A check box to accept a changed definition; `form` is the id of a form elsewhere on the page.
pub(crate) fn accept_change(form: Option<&str>) -> Markup {
    html! {
        label.wide.check {
            input type="checkbox" name="accept_change" value="yes" form=[form];
            " Resume even though the definition of the job has changed"
        }
    }
}

fn field(spec: &ParameterSpec, value: &str, is_off: bool) -> Markup {
    let kind = if spec.kind == ParameterType::Date { "date" } else { "text" };
    let needed = if spec.is_required { "" } else { ", optional" };
    html! {
        label {
            span { (spec.name) " " span.soft { "(" (spec.kind.as_str()) (needed) ")" } }
            input name={ (PARAMETER) (spec.name) } type=(kind) value=(value) required[spec.is_required] disabled[is_off]
                autocomplete="off";
        }
    }
}

fn command_line(state: &State, name: &str, specs: &[ParameterSpec]) -> String {
    let given = specs.iter().filter(|spec| spec.is_required).map(|spec| format!(" -p {}=VALUE", spec.name));
    format!("tidemill job run {name}{}{}", given.collect::<String>(), state.jobs_flag())
}

/// Runs the job and redirects to the execution.
pub(crate) async fn run(
    visit: PageContext,
    Path(name): Path<String>,
    Fields(fields): Fields<Pairs>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, form::field(&fields, "form_token"))?;
    match launch(&visit, &name, &fields).await {
        Ok(id) => Ok(Redirect::to(&visit.state.path(&format!("/executions/{id}"))).into_response()),
        Err(problem) => {
            let (status, refused) = (problem.status(), RefusedForm { fields, problem });
            let page = show(&visit, &name, &JobPageQuery::default(), Some(&refused)).await?;
            Ok((status, page).into_response())
        }
    }
}

async fn launch(visit: &PageContext, name: &str, fields: &[(String, String)]) -> Result<i64, Problem> {
    let parameters = form_parameters(fields, visit.state.launcher().jobs().get(name)?.parameters())?;
    let answer = launch_job(LaunchRequest {
        caller: visit.caller(form::field(fields, "key")),
        what: format!("form: run job {name} {:?}", form::typed(fields)),
        kind: if form::field(fields, NEXT) == "yes" { LaunchKind::Next } else { LaunchKind::Launch },
        job: name.to_owned(),
        parameters,
        accept_change: form::field(fields, "accept_change") == "yes",
        audit: None,
    })
    .await?;
    answer.id()
}

/// The parameters of the form; an empty field is no parameter.
fn form_parameters(fields: &[(String, String)], specs: &[ParameterSpec]) -> Result<JobParameters, Problem> {
    let declared = fields.iter().filter_map(|(field, value)| {
        let name = field.strip_prefix(PARAMETER)?;
        (!value.is_empty()).then(|| (name.to_owned(), Value::String(value.clone())))
    });
    let mut all = parameters(&declared.collect::<Map<_, _>>(), specs)?;
    let lines = form::field(fields, MORE).lines().map(str::trim).filter(|line| !line.is_empty());
    let remedy = "write one parameter per line as NAME=VALUE[,TYPE[,IDENTIFYING]]";
    let bad = |error: tidemill_domain::job::parameter::ParameterError| {
        Problem::new(Code::BadJobParameters, error.to_string(), remedy)
    };
    for (name, parameter) in parse_arguments(lines, specs).map_err(bad)?.iter() {
        all.insert(name, parameter.clone()).map_err(bad)?;
    }
    Ok(all)
}
