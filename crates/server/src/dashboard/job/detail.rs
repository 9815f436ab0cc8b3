//! The page of one job: executions, the form to run it, schedules, instances and definition.

use super::list::{SCHEDULES_MAX, address};
use super::run;
use super::schedule;
use super::state::{health, status_word};
use crate::api::QueryString;
use crate::dashboard::execution::ExecutionsView;
use crate::dashboard::execution::list::Executions;
use crate::dashboard::form::RefusedForm;
use crate::dashboard::part::{list_table, number, pager, plain_panel, plural, took};
use crate::dashboard::{Frame, Page, PageContext, PageResult, PageSnapshot, Rows, Section, Times};
use crate::problem::Problem;
use axum::extract::Path;
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_api::job::on_crash_text;
use tidemill_domain::job::InstanceId;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::job::track::median;
use tidemill_engine::job::{Job, JobError, Step};
use tidemill_store::job::list::COUNTED_MAX;
use tidemill_store::job::{InstanceRecord, RunRecord};

const NOT_HERE: &str =
    "This server does not have the job. It shows the executions in the database but cannot run the job.";

/// Maximum number of bars of durations.
const BARS: u32 = 60;
/// Height of the drawing and width per bar, in its own units.
const HEIGHT: f64 = 100.0;
const ROOM: usize = 10;

const INSTANCES: u32 = 10;
const INSTANCE_COLUMNS: &[&str] = &["Status", "#Instance", "Identifying parameters", "#Executions", "Last"];
const STEP_COLUMNS: &[&str] = &["Step", "Type", "Settings"];
const PARAMETER_COLUMNS: &[&str] = &["Parameter", "Type", "Required", "Identifying"];

/// Filters of the lists of the page. Empty fields of the form count as missing.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JobPageQuery {
    #[serde(default)]
    status: String,
    instance: Option<i64>,
    before: Option<i64>,
    instances_before: Option<i64>,
}

pub(crate) async fn job(
    visit: PageContext,
    Path(name): Path<String>,
    QueryString(query): QueryString<JobPageQuery>,
) -> PageResult {
    show(&visit, &name, &query, None).await
}

/// The page; `refused` is a launch that was refused.
pub(super) async fn show(
    visit: &PageContext,
    name: &str,
    query: &JobPageQuery,
    refused: Option<&RefusedForm>,
) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let runs = tx.jobs().recent_runs(&[name], BARS).await?.remove(name).unwrap_or_default();
    let view = ExecutionsView::new(name, &query.status, query.instance, query.before);
    let executions = Executions::read(&mut tx, &view).await?;
    let before = query.instances_before.map(InstanceId::new);
    let instances = Rows::new(tx.jobs().instances(name, before, INSTANCES + 1).await?, INSTANCES);
    let mut schedules = tx.schedules().list(SCHEDULES_MAX).await?;
    schedules.retain(|record| record.schedule.job == name);
    let is_known = !runs.is_empty() || !instances.rows.is_empty() || !schedules.is_empty();
    let jobs = visit.state.launcher().jobs();
    let defined = match jobs.get(name) {
        Err(unknown @ JobError::UnknownJob { .. }) if !is_known => {
            return Err(Problem::from(unknown).as_missing());
        }
        Err(other) if !is_known => return Err(other.into()),
        defined => defined,
    };
    let banner = defined.as_ref().err().map(|error| match error {
        invalid @ JobError::InvalidFile { .. } => format!("{invalid}. Fix: {}.", invalid.fix()),
        _ => NOT_HERE.to_owned(),
    });
    let times = visit.times(common.now);
    let content = html! {
        h1 { (name) }
        @if let Some(banner) = banner { p.banner { (banner) } }
        (plain_panel("executions", "Executions", &html! {
            (durations(&runs))
            (executions.markup(&visit.state, &times))
        }))
        (plain_panel("run", "Run", &run::form(visit, name, &defined, refused)))
        (plain_panel("schedules", "Schedules", &schedule::table_of(visit, &schedules, &times)))
        (plain_panel("instances", "Instances", &instance_table(&address(&visit.state, name), &instances, query, &times)))
        @if let Ok(defined) = defined {
            (plain_panel("definition", "Definition", &definition(defined)))
        }
    };
    Ok(Frame::new(visit, &common, Section::Jobs).titled(name).live(Page::Executions(view)).render(&content))
}

/// Durations of the last executions as bars; `runs` has the newest first. Executions that have not ended have no bar.
fn durations(runs: &[RunRecord]) -> Markup {
    let ended: Vec<&RunRecord> = runs.iter().rev().filter(|run| run.length().is_some()).collect();
    let lengths = || ended.iter().filter_map(|run| run.length());
    let (Some(longest), Some(middle)) = (lengths().max(), median(lengths())) else { return html! {} };
    let executions = plural(ended.len(), "ended execution", "ended executions");
    let text = format!("Last {executions}: median {}, longest {}.", took(middle), took(longest));
    // All bars have the same width, even if there are few.
    let width = BARS as usize * ROOM;
    html! {
        figure.body {
            svg.chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                title { "Duration of executions, the newest on the right" }
                desc { (text) }
                @for (place, run) in ended.iter().enumerate() {
                    (bar(run, width - (ended.len() - place) * ROOM, longest.as_secs_f64()))
                }
            }
            figcaption.soft { (text) }
        }
    }
}

fn bar(run: &RunRecord, x: usize, longest: f64) -> Markup {
    let length = run.length().unwrap_or_default();
    let share = if longest > 0.0 { length.as_secs_f64() / longest } else { 0.0 };
    // Even the shortest bar is visible.
    let height = (share * HEIGHT).clamp(2.0, HEIGHT);
    html! {
        rect.bar.(health(run.status)) x=(x) y=(format!("{:.1}", HEIGHT - height)) width=(ROOM - 2)
            height=(format!("{height:.1}")) {
            title { "#" (run.id) " " (run.status) ", " (took(length)) }
        }
    }
}

fn instance_table(
    address: &str,
    instances: &Rows<InstanceRecord>,
    query: &JobPageQuery,
    times: &Times,
) -> Markup {
    let rows = instances.rows.iter().map(|record| instance_row(address, record, times));
    let empty = html! { "No instances yet. Each new set of identifying parameters creates one." };
    html! {
        (list_table("Instances", INSTANCE_COLUMNS, rows, &empty))
        (pager(
            query.instances_before.map(|_| format!("{address}#instances")),
            instances.last_of_more().map(|last| format!("{address}?instances_before={}#instances", last.id)),
            &html! {},
        ))
    }
}

fn instance_row(address: &str, record: &InstanceRecord, times: &Times) -> Markup {
    let is_cut = i64::try_from(record.executions).is_ok_and(|executions| executions >= COUNTED_MAX);
    let identifying = record.parameters.iter().filter(|parameter| parameter.is_identifying);
    let identity: Vec<String> =
        identifying.map(|parameter| format!("{}={}", parameter.name, parameter.value)).collect();
    html! {
        tr {
            td { @if let Some(last) = record.last { (status_word(last.status)) } }
            th.number scope="row" { (number(record.id.get().unsigned_abs())) }
            td.long {
                @if identity.is_empty() { span.soft { "none" } } @else { code { (identity.join(" ")) } }
            }
            td.number {
                a href={ (address) "?instance=" (record.id) "#executions" } {
                    (number(record.executions)) @if is_cut { "+" }
                    span.unseen { " executions of instance " (record.id) }
                }
            }
            td { (times.maybe(record.last.map(|last| last.created_at), "never")) }
        }
    }
}

/// The definition of the job on this server.
fn definition(job: &Job) -> Markup {
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
