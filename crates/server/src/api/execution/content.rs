//! Contexts of executions and steps, and rejected items.

use crate::api::{QueryString, id, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use tidemill_api::Page;
use tidemill_api::execution::{ExecutionContext, ListRejects, Reject};
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_engine::job::JobError;
use tidemill_store::Tx;

/// Show the context of an execution.
#[utoipa::path(get, path = "/api/v1/executions/{id}/context", operation_id = "get_execution_context", params(("id" = i64, Path, description = "Id of the execution")), responses((status = 200, body = ExecutionContext)))]
pub(crate) async fn job_context(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<ExecutionContext>, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let context = tx.jobs().job_context(id).await?.ok_or(JobError::UnknownExecution(id))?;
    Ok(Json(context.into()))
}

/// Show the context of a step.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps/{step}/context", operation_id = "get_step_context", params(("id" = i64, Path, description = "Id of the execution"), ("step" = i64, Path, description = "Id of the step")), responses((status = 200, body = ExecutionContext)))]
pub(crate) async fn step_context(
    Given(state): Given<State>,
    Path((execution, step)): Path<(String, String)>,
) -> Result<Json<ExecutionContext>, Problem> {
    let mut tx = state.read().await?;
    let step = find_step(&execution, &step, &mut tx).await?;
    let found = tx.jobs().step_context(step).await?;
    Ok(Json(found.map(ExecutionContext::from).unwrap_or_default()))
}

/// List the items that a step skipped, if it keeps them in the database.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps/{step}/rejects", operation_id = "list_rejects", params(("id" = i64, Path, description = "Id of the execution"), ("step" = i64, Path, description = "Id of the step"), ListRejects), responses((status = 200, body = Page<Reject>)))]
pub(crate) async fn rejects(
    Given(state): Given<State>,
    Path((execution, step)): Path<(String, String)>,
    QueryString(query): QueryString<ListRejects>,
) -> Result<Json<Page<Reject>>, Problem> {
    let limit = limit(query.limit)?;
    let mut tx = state.read().await?;
    let step = find_step(&execution, &step, &mut tx).await?;
    let records = tx.jobs().rejects(step, query.after.unwrap_or(0), limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id)))
}

/// The step with this id, if it belongs to this execution.
async fn find_step(execution: &str, step: &str, tx: &mut Tx) -> Result<StepExecutionId, Problem> {
    let (execution, step) = (ExecutionId::new(id(execution)?), StepExecutionId::new(id(step)?));
    let is_known = tx.jobs().steps(execution).await?.iter().any(|known| known.id == step);
    if is_known { Ok(step) } else { Err(Problem::not_found("this step of this execution")) }
}
