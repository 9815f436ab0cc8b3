//! Schedules: when jobs are launched by themselves, and what became of each tick.

use crate::api::{QueryString, limit, page_of};
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use tidemill_domain::action::Action;
use tidemill_domain::job::check_name;
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::JobError;
use tidemill_store::Tx;
use tidemill_store::schedule::{ScheduleRecord, TickRecord};
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListSchedules {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// Which page of the ticks to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListTicks {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only ticks before this one: the last of the page before.
    before: Option<String>,
}

/// A schedule.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    name: String,
    /// The job that it launches.
    job: String,
    /// When: a cron expression.
    cron: String,
    /// In which time zone.
    zone: String,
    /// When it may fire at all; always when there is none.
    windows: Vec<String>,
    /// What becomes of ticks outside of the windows: `drop` or `defer`.
    outside: String,
    /// What becomes of missed ticks: `skip`, `latest` or `all N`.
    missed: String,
    /// What becomes of a tick while an earlier one still runs: `allow`, `skip` or `wait`.
    overlap: String,
    /// How late a tick may be before it counts as missed.
    grace_seconds: u64,
    /// The parameters of every launch, with their placeholders.
    parameters: BTreeMap<String, String>,
    /// Whether this server can fire it: it has the job.
    is_job_registered: bool,
    /// The next tick that nothing was decided about.
    next_at: Option<String>,
    /// Whether that one was up and waits, for an earlier execution or for room.
    is_waiting: bool,
    /// The last tick that something was decided about.
    last_tick_at: Option<String>,
    /// Who paused it, if somebody did.
    pause: Option<SchedulePause>,
}

/// A pause of a schedule.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SchedulePause {
    /// Since when.
    at: String,
    /// By whom.
    by: String,
    /// Why.
    reason: String,
}

/// A list of schedules.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedules {
    /// By name.
    items: Vec<Schedule>,
}

/// What became of a tick.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Tick {
    /// The tick.
    tick_at: String,
    /// `fired`, `skipped`, `missed` or `refused`.
    outcome: String,
    /// Why it did not fire.
    reason: Option<String>,
    /// The execution that it launched.
    execution: Option<i64>,
    /// When that was decided.
    decided_at: String,
}

/// A page of ticks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Ticks {
    /// The newest first.
    items: Vec<Tick>,
    /// Ask with `before` this for the next page; none when this was the last.
    next: Option<String>,
}

impl From<TickRecord> for Tick {
    fn from(record: TickRecord) -> Self {
        Self {
            tick_at: record.tick.to_string(),
            outcome: record.outcome.as_str().to_owned(),
            reason: record.reason,
            execution: record.execution.map(|execution| execution.get()),
            decided_at: record.at.to_string(),
        }
    }
}

fn shown(record: ScheduleRecord, state: &State) -> Schedule {
    let schedule = record.schedule;
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    Schedule {
        is_job_registered: state.launcher().jobs().get(&schedule.job).is_ok(),
        name: schedule.name,
        job: schedule.job,
        cron: schedule.cron,
        zone: schedule.zone,
        windows: schedule.windows,
        outside: schedule.outside,
        missed: schedule.missed,
        overlap: schedule.overlap,
        grace_seconds: schedule.grace.as_secs(),
        parameters: schedule.parameters.into_iter().collect(),
        next_at: text(record.next_at),
        is_waiting: record.is_waiting,
        last_tick_at: text(record.last_tick_at),
        pause: record.pause.map(|pause| SchedulePause {
            at: pause.at.to_string(),
            by: pause.by,
            reason: pause.reason,
        }),
    }
}

/// The schedules that the database knows.
#[utoipa::path(get, path = "/api/v1/schedules", params(ListSchedules), responses((status = 200, body = Schedules)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListSchedules>,
) -> Result<Json<Schedules>, Problem> {
    let mut tx = state.read().await?;
    let records = tx.schedules().list(limit(asked.limit)?).await?;
    Ok(Json(Schedules { items: records.into_iter().map(|record| shown(record, &state)).collect() }))
}

/// One schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{name}", params(("name" = String, Path, description = "Its name")), responses((status = 200, body = Schedule), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(name): Path<String>,
) -> Result<Json<Schedule>, Problem> {
    Ok(Json(shown(find(&state, &named(name)?).await?, &state)))
}

/// What became of the ticks of a schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{name}/ticks", params(("name" = String, Path, description = "Its name"), ListTicks), responses((status = 200, body = Ticks), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn ticks(
    Given(state): Given<State>,
    Path(name): Path<String>,
    QueryString(asked): QueryString<ListTicks>,
) -> Result<Json<Ticks>, Problem> {
    let name = named(name)?;
    let limit = limit(asked.limit)?;
    let before: Option<Timestamp> = asked.before.as_deref().map(str::parse).transpose().map_err(
        |error: tidemill_domain::time::NotAnInstant| {
            Problem::bad_request(error.to_string(), "use `next` of the page before")
        },
    )?;
    find(&state, &name).await?;
    let mut tx = state.read().await?;
    let records = tx.schedules().ticks(&name, before, limit + 1).await?;
    let (items, next) = page_of(records, limit, |record| record.tick.to_string());
    Ok(Json(Ticks { items, next }))
}

/// Pauses or resumes a schedule, and answers with it as it is then. Whoever is limited to some jobs may do so with the
/// schedules of these only.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let name = named(request.object().to_owned())?;
    let unknown = || JobError::UnknownSchedule(name.clone());
    let before = tx.schedules().find(&name).await?.ok_or_else(unknown)?;
    request.check_scope(&format!("job/{}", before.schedule.job))?;
    let actor = request.actor();
    let after = match request.action {
        Action::SchedulePause => tx.schedules().pause(&name, &actor, request.required_reason()).await?,
        Action::ScheduleResume => tx.schedules().resume(&name, &actor, request.reason).await?,
        _ => return Err(request.mistaken()),
    };
    Ok((StatusCode::OK, json!(shown(after.ok_or_else(unknown)?, &request.caller.state))))
}

async fn find(state: &State, name: &str) -> Result<ScheduleRecord, Problem> {
    let mut tx = state.read().await?;
    let found = tx.schedules().find(name).await?;
    Ok(found.ok_or_else(|| JobError::UnknownSchedule(name.to_owned()))?)
}

/// A name of the path, if it can be the name of a schedule at all.
fn named(name: String) -> Result<String, Problem> {
    match check_name(&name) {
        Ok(()) => Ok(name),
        Err(bad) => {
            Err(Problem::bad_request(bad.to_string(), "use the name as the list of schedules tells it"))
        }
    }
}
