//! Schedules: when jobs are launched automatically, and the outcome of each tick.

use crate::api::job::checked;
use crate::api::{Answer, List, QueryString, Read, limit};
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::schedule::{ListSchedules, ListTicks, Schedule, ScheduleTicks};
use tidemill_domain::action::Action;
use tidemill_domain::time::{NotAnInstant, Timestamp};
use tidemill_engine::job::JobError;
use tidemill_store::Tx;
use tidemill_store::schedule::ScheduleRecord;

/// List schedules.
#[utoipa::path(get, path = "/api/v1/schedules", operation_id = "list_schedules", params(ListSchedules), responses((status = 200, body = Page<Schedule>)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(query): QueryString<ListSchedules>,
    Read(mut tx): Read,
) -> List<Schedule> {
    let records = tx.schedules().list(limit(query.limit)?).await?;
    Ok(Json(Page { items: records.iter().map(|record| view(record, &state)).collect(), next: None }))
}

/// Show a schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{name}", operation_id = "get_schedule", params(("name" = String, Path, description = "Name of the schedule")), responses((status = 200, body = Schedule)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(name): Path<String>,
    Read(mut tx): Read,
) -> Answer<Schedule> {
    Ok(Json(view(&find(&mut tx, checked(&name)?).await?, &state)))
}

/// List the ticks of a schedule and their outcomes, the newest first.
#[utoipa::path(get, path = "/api/v1/schedules/{name}/ticks", operation_id = "list_schedule_ticks", params(("name" = String, Path, description = "Name of the schedule"), ListTicks), responses((status = 200, body = ScheduleTicks)))]
pub(crate) async fn ticks(
    Path(name): Path<String>,
    QueryString(query): QueryString<ListTicks>,
    Read(mut tx): Read,
) -> Answer<ScheduleTicks> {
    let name = checked(&name)?;
    let limit = limit(query.limit)?;
    let bad = |error: NotAnInstant| {
        Problem::bad_request(error.to_string(), "use `next` of the previous page as `before`")
    };
    let before: Option<Timestamp> = query.before.as_deref().map(str::parse).transpose().map_err(bad)?;
    find(&mut tx, name).await?;
    let records = tx.schedules().ticks(name, before, limit + 1).await?;
    Ok(Json(ScheduleTicks::of(&records, limit)))
}

/// Pauses or resumes a schedule and answers with its new state. Scopes name the job.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let name = checked(request.object())?;
    let before = find(tx, name).await?;
    request.check_scope(&format!("job/{}", before.schedule.job))?;
    let actor = request.actor();
    let after = match request.action {
        Action::SchedulePause => tx.schedules().pause(name, &actor, request.required_reason()).await?,
        Action::ScheduleResume => tx.schedules().resume(name, &actor, request.reason).await?,
        _ => return Err(request.mistaken()),
    };
    let after = after.ok_or_else(|| unknown(name, Vec::new()))?;
    Ok((StatusCode::OK, json!(view(&after, &request.caller.state))))
}

/// Names that are read to suggest one of them.
const KNOWN_MAX: u32 = 500;

/// The schedule with this name. The error suggests a name that exists.
#[crate::boxed]
pub async fn find(tx: &mut Tx, name: &str) -> Result<ScheduleRecord, JobError> {
    match tx.schedules().find(name).await? {
        Some(found) => Ok(found),
        None => {
            let known = tx.schedules().list(KNOWN_MAX).await?;
            Err(unknown(name, known.into_iter().map(|record| record.schedule.name).collect()))
        }
    }
}

/// The name may come from a command line, so its length is cut.
fn unknown(name: &str, known: Vec<String>) -> JobError {
    JobError::UnknownSchedule { name: name.chars().take(100).collect(), known }
}

fn view(record: &ScheduleRecord, state: &State) -> Schedule {
    let is_job_registered = state.launcher().jobs().get(&record.schedule.job).is_ok();
    Schedule::from((record, Some(is_job_registered)))
}
