//! The page of one job: how long it takes, its executions and instances, how to run it, when it runs by itself, and what
//! it is made of.

use super::run::{self, Tried};
use super::{chart, definition, history, instance, schedule};
use crate::api::Asked;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::part::panel;
use crate::dashboard::pulse::Pulse;
use crate::dashboard::region::Page;
use crate::dashboard::visit::Visit;
use crate::problem::Problem;
use axum::extract::Path;
use axum::response::Html;
use maud::html;
use serde::Deserialize;
use std::fmt::Write as _;
use tidemill_domain::job::BatchStatus;
use tidemill_engine::job::JobError;
use tidemill_store::schedule::ScheduleRecord;

/// Most schedules that are looked at.
const SCHEDULES_MAX: u32 = 500;

/// What is wanted of the lists of the page. Fields that were left empty are as if they were not there.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    status: String,
    pub(super) instance: Option<i64>,
    pub(super) before: Option<i64>,
    pub(super) instances_before: Option<i64>,
}

impl Wanted {
    /// Only executions in this status; nonsense is as if it were not there.
    pub(super) fn status(&self) -> Option<BatchStatus> {
        self.status.parse().ok()
    }

    /// The part of the address that asks for the same executions again, with `more` at its end.
    pub(super) fn query(&self, more: &str) -> String {
        let mut query = String::from("?");
        if let Some(status) = self.status() {
            let _infallible = write!(query, "status={status}&");
        }
        if let Some(instance) = self.instance {
            let _infallible = write!(query, "instance={instance}&");
        }
        query.push_str(more);
        query
    }
}

/// The page.
pub(crate) async fn job(
    visit: Visit,
    Path(name): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Html<String>, Problem> {
    show(&visit, &name, &wanted, None).await
}

/// The page, perhaps after a try to run the job that was refused.
pub(super) async fn show(
    visit: &Visit,
    name: &str,
    wanted: &Wanted,
    tried: Option<&Tried>,
) -> Result<Html<String>, Problem> {
    let (pulse, mut tx) = Pulse::read(&visit.state).await?;
    let runs = tx.recent_runs(&[name], chart::BARS).await?.remove(name).unwrap_or_default();
    let executions = history::Executions::read(&mut tx, name, wanted).await?;
    let instances = instance::Instances::read(&mut tx, name, wanted).await?;
    let mut schedules: Vec<ScheduleRecord> = tx.schedules(SCHEDULES_MAX).await?;
    tx.rollback().await?;
    schedules.retain(|record| record.schedule.job == name);
    let defined = visit.state.launcher().jobs().get(name);
    let is_known = !runs.is_empty() || !instances.is_empty() || !schedules.is_empty();
    let defined = match defined {
        Ok(defined) => Some(defined),
        Err(_) if is_known => None,
        Err(unknown @ JobError::UnknownJob { .. }) => return Err(Problem::from(unknown).as_missing()),
        Err(other) => return Err(other.into()),
    };
    let times = visit.times(pulse.now);
    let nothing = html! {};
    let content = html! {
        h1 { (name) }
        @if defined.is_none() {
            p.banner { "This server does not have the job: it shows what the database knows, and cannot run it." }
        }
        (panel("executions", "Executions", &nothing, &html! {
            (chart::durations(&runs))
            (executions.table(visit, name, wanted, &times))
        }))
        (panel("run", "Run", &nothing, &run::form(visit, name, defined, tried)))
        (panel("schedules", "Schedules", &nothing, &schedule::table_of(visit, &schedules, &times)))
        (panel("instances", "Instances", &nothing, &instances.table(visit, name, wanted, &times)))
        @if let Some(defined) = defined {
            (panel("definition", "Definition", &nothing, &definition::of(defined)))
        }
    };
    let (section, title) = (Section::Jobs, Some(name));
    Ok(Frame { visit, pulse: &pulse, section, title, page: Page::Other }.render(&content))
}
