//! What executions and their steps remember, and what steps have left out.

use crate::api::{QueryString, id, limit, page_of};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_engine::job::JobError;
use tidemill_store::Tx;
use tidemill_store::job::{RejectRecord, StoredContext};
use utoipa::{IntoParams, ToSchema};

/// What an execution or a step remembers.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Context {
    /// The values by name; none when it was written in another form.
    #[schema(value_type = Option<Object>)]
    values: Option<Map<String, Value>>,
    /// The text as it is stored, when it was written in another form, such as Java's.
    foreign: Option<String>,
}

/// Which page of the rejects to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListRejects {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only those behind this one: the last id of the page before.
    after: Option<i64>,
}

/// An item that a step has left out.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reject {
    /// Its number; grows.
    id: i64,
    /// When that was.
    at: String,
    /// What was being done with it: `read`, `process` or `write`.
    phase: String,
    /// The kind of the error.
    kind: String,
    /// What went wrong.
    error: String,
    /// Where it came from.
    place: Option<String>,
    /// The item, as text.
    item: Option<String>,
}

/// A page of rejects.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rejects {
    /// In order.
    items: Vec<Reject>,
    /// Ask with `after` this for the next page; none when this was the last.
    next: Option<i64>,
}

impl From<StoredContext> for Context {
    fn from(context: StoredContext) -> Self {
        match context {
            StoredContext::Foreign(text) => Self { values: None, foreign: Some(text) },
            StoredContext::Ours(context) => {
                let values = context.iter().map(|(key, value)| (key.to_owned(), value.clone()));
                Self { values: Some(values.collect()), foreign: None }
            }
        }
    }
}

impl From<RejectRecord> for Reject {
    fn from(record: RejectRecord) -> Self {
        Self {
            id: record.id,
            at: record.at.to_string(),
            phase: record.phase,
            kind: record.kind,
            error: record.error,
            place: record.place,
            item: record.item,
        }
    }
}

/// What an execution remembers.
#[utoipa::path(get, path = "/api/v1/executions/{id}/context", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = Context), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn job_context(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Context>, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let found = tx.jobs().job_context(id).await?;
    let context = found.ok_or(JobError::UnknownExecution(id))?;
    Ok(Json(context.into()))
}

/// What a step of an execution remembers.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps/{step}/context", params(("id" = i64, Path, description = "Of which execution"), ("step" = i64, Path, description = "Id of the step")), responses((status = 200, body = Context), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn step_context(
    Given(state): Given<State>,
    Path((execution, step)): Path<(String, String)>,
) -> Result<Json<Context>, Problem> {
    let mut tx = state.read().await?;
    let step = find_step(&execution, &step, &mut tx).await?;
    let found = tx.jobs().step_context(step).await?;
    Ok(Json(found.map(Context::from).unwrap_or_default()))
}

/// What a step of an execution has left out, if it keeps that in the database.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps/{step}/rejects", params(("id" = i64, Path, description = "Of which execution"), ("step" = i64, Path, description = "Id of the step"), ListRejects), responses((status = 200, body = Rejects), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn rejects(
    Given(state): Given<State>,
    Path((execution, step)): Path<(String, String)>,
    QueryString(asked): QueryString<ListRejects>,
) -> Result<Json<Rejects>, Problem> {
    let limit = limit(asked.limit)?;
    let mut tx = state.read().await?;
    let step = find_step(&execution, &step, &mut tx).await?;
    let records = tx.jobs().rejects(step, asked.after.unwrap_or(0), limit + 1).await?;
    let (items, next) = page_of(records, limit, |record| record.id);
    Ok(Json(Rejects { items, next }))
}

/// The step of this id, if it belongs to this execution.
async fn find_step(execution: &str, step: &str, tx: &mut Tx) -> Result<StepExecutionId, Problem> {
    let (execution, step) = (ExecutionId::new(id(execution)?), StepExecutionId::new(id(step)?));
    let is_known = tx.jobs().steps(execution).await?.iter().any(|known| known.id == step);
    if is_known { Ok(step) } else { Err(Problem::not_found("a step of this id in this execution")) }
}
