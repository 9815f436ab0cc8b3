//! Running a job: the form with its parameters, and what becomes of it. A launch that is refused comes back to the form,
//! with the reason and what was filled in.

use super::detail::{JobPageQuery, show};
use crate::api::job::launch::{How, LaunchRequest, launched, parameters};
use crate::dashboard::form::{self, Fields};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::part::{command, refusal_banner, refused};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value};
use tidemill_domain::access::Permission;
use tidemill_domain::code::Code;
use tidemill_domain::job::JobParameters;
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType, parse_arguments};
use tidemill_engine::job::Job;

/// How the fields for parameters are called.
const PARAMETER: &str = "parameter.";
/// The field for parameters that the job does not declare.
const MORE: &str = "more";

/// A launch that was refused.
#[derive(Debug)]
pub(super) struct Tried {
    fields: Vec<(String, String)>,
    problem: Problem,
}

/// What was filled in under a name.
fn filled<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
}

pub(super) fn form(visit: &PageContext, name: &str, job: Option<&Job>, tried: Option<&Tried>) -> Markup {
    let refusal = visit.refusal_of(Permission::Operate, &format!("job/{name}"));
    let specs = job.map_or(&[][..], Job::parameters);
    let refusal = match job {
        Some(_) => refusal,
        None => Some(unknown(visit, name)),
    };
    let (is_off, fields) = (refusal.is_some(), tried.map_or(&[][..], |tried| &tried.fields));
    let action = format!("{}/run#run", super::list::address(&visit.state, name));
    html! {
        form.body method="post" action=(action) {
            (form::hidden(&visit.principal))
            @if let Some(tried) = tried { (refusal_banner(&tried.problem)) }
            div.fields {
                @for spec in specs { (field(spec, filled(fields, &format!("{PARAMETER}{}", spec.name)), is_off)) }
                @if specs.is_empty() {
                    label.wide {
                        "Parameters, one on each line: name=value, with ,type or ,type,identifying behind it if need be"
                        textarea name=(MORE) rows="3" disabled[is_off] autocomplete="off" { (filled(fields, MORE)) }
                    }
                }
                @if tried.is_some_and(|tried| tried.problem.code() == Code::JobChanged) { (accept_change("")) }
            }
            div.row {
                @match refusal {
                    Some(reason) => (refused("Run", &reason)),
                    None => button.do { "Run " (name) },
                }
            }
            p.soft { "The same at the command line: " (command(&at_the_command_line(&visit.state, name, specs))) }
        }
    }
}

fn unknown(visit: &PageContext, name: &str) -> String {
    visit.state.launcher().jobs().get(name).err().map(|error| error.to_string()).unwrap_or_default()
}

/// Asks whether a changed definition is all right, for the form of this id; of the form around it when it is empty.
pub(crate) fn accept_change(form: &str) -> Markup {
    html! {
        label.wide.check {
            input type="checkbox" name="accept_change" value="yes" form=[(!form.is_empty()).then_some(form)];
            " Go on although the definition of the job has changed since"
        }
    }
}

fn field(spec: &ParameterSpec, value: &str, is_off: bool) -> Markup {
    let kind = match spec.kind {
        ParameterType::Date => "date",
        _ => "text",
    };
    let needed = if spec.is_required { "" } else { ", may be left out" };
    html! {
        label {
            span { (spec.name) " " span.soft { "(" (spec.kind.as_str()) (needed) ")" } }
            input name={ (PARAMETER) (spec.name) } type=(kind) value=(value) required[spec.is_required] disabled[is_off]
                autocomplete="off";
        }
    }
}

fn at_the_command_line(state: &State, name: &str, specs: &[ParameterSpec]) -> String {
    let given = specs.iter().filter(|spec| spec.is_required).map(|spec| format!(" -p {}=VALUE", spec.name));
    format!("tidemill job run {name}{}{}", given.collect::<String>(), state.jobs_flag())
}

/// Runs the job, and goes to the execution.
pub(crate) async fn run(
    visit: PageContext,
    Path(name): Path<String>,
    Fields(fields): Fields<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, filled(&fields, "form_token"))?;
    match launch(&visit, &name, &fields).await {
        Ok(id) => Ok(Redirect::to(&visit.state.path(&format!("/executions/{id}"))).into_response()),
        Err(problem) => {
            let (status, tried) = (problem.status(), Tried { fields, problem });
            let page = show(&visit, &name, &JobPageQuery::default(), Some(&tried)).await?;
            Ok((status, page).into_response())
        }
    }
}

async fn launch(visit: &PageContext, name: &str, fields: &[(String, String)]) -> Result<i64, Problem> {
    let specs = visit.state.launcher().jobs().get(name)?.parameters();
    let given = given(fields, specs)?;
    // What was typed decides whether the same form means the same; its key and its proof do not.
    let said: Vec<&(String, String)> =
        fields.iter().filter(|(name, _)| name != "form_token" && name != "key").collect();
    let accepted = launched(LaunchRequest {
        caller: visit.caller(filled(fields, "key")),
        what: format!("form: run job {name} {said:?}"),
        how: How::Launch,
        job: name.to_owned(),
        parameters: given,
        accept_change: filled(fields, "accept_change") == "yes",
        audit: None,
    })
    .await?;
    accepted.id.ok_or_else(|| Problem::new(Code::Unexpected, "the launch has no execution", "report it"))
}

/// The parameters that were filled in; a field that was left empty is none.
fn given(fields: &[(String, String)], specs: &[ParameterSpec]) -> Result<JobParameters, Problem> {
    let declared = fields.iter().filter_map(|(field, value)| {
        let name = field.strip_prefix(PARAMETER)?;
        (!value.is_empty()).then(|| (name.to_owned(), Value::String(value.clone())))
    });
    let mut all = parameters(&declared.collect::<Map<_, _>>(), specs)?;
    let lines = filled(fields, MORE).lines().map(str::trim).filter(|line| !line.is_empty());
    let remedy = "write each on a line of its own as name=value, with ,type or ,type,identifying behind it";
    let bad = |error: tidemill_domain::job::parameter::ParameterError| {
        Problem::new(Code::BadJobParameters, error.to_string(), remedy)
    };
    for (name, parameter) in parse_arguments(lines, specs).map_err(bad)?.iter() {
        all.insert(name, parameter.clone()).map_err(bad)?;
    }
    Ok(all)
}
